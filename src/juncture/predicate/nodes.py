"""The nodes of a predicate: small frozen values, equal if they say the same.

A tree of them is fully typed: columns are resolved, literals are in the type that they are compared in, and where
Spark would convert an operand without being asked there is a `Cast` marked ``implicit``. Build them with
`juncture.predicate.build`, which checks types; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal as OneOf

from juncture.predicate.types import BOOLEAN, ArithmeticOperator, Type
from juncture.spec.schema import Side

__all__ = [
    "And",
    "Arithmetic",
    "Cast",
    "Column",
    "Compare",
    "CompareOperator",
    "Extreme",
    "In",
    "IsNull",
    "Literal",
    "Node",
    "Not",
    "Or",
    "Sign",
    "Value",
    "children",
    "columns",
    "sides",
    "walk",
]

CompareOperator = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]

Value = bool | int | Fraction | float | str | bytes | None
"""A value of a predicate: integers, dates, timestamps and durations as whole steps, decimals as fractions."""


@dataclass(frozen=True)
class Node:
    """An expression. ``type`` is the type of its value."""

    type: Type


@dataclass(frozen=True)
class Column(Node):
    """A column of one of the two tables."""

    side: Side
    name: str
    nullable: bool = True


@dataclass(frozen=True)
class Literal(Node):
    """A constant, in steps of its type. None is NULL."""

    value: Value = field(default=None)

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but not here; NaN has to equal itself.
        if not isinstance(other, Literal):
            return NotImplemented
        return self.type == other.type and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


@dataclass(frozen=True)
class Arithmetic(Node):
    """A sum, difference, product or quotient."""

    operator: ArithmeticOperator
    left: Node
    right: Node


@dataclass(frozen=True)
class Sign(Node):
    """The negation of an operand (``-``) or its absolute value (``abs``)."""

    operator: OneOf["-", "abs"]
    operand: Node


@dataclass(frozen=True)
class Extreme(Node):
    """The least or the greatest of several operands of one type, nulls left out."""

    function: OneOf["least", "greatest"]
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Cast(Node):
    """A conversion to ``type``; null where the value does not fit."""

    operand: Node
    implicit: bool = False


@dataclass(frozen=True)
class Compare(Node):
    """A comparison. Numbers of different kinds, and times of different units, compare by their value."""

    operator: CompareOperator
    left: Node
    right: Node


@dataclass(frozen=True)
class In(Node):
    """Whether an operand equals one of several literals."""

    operand: Node
    options: tuple[Literal, ...]


@dataclass(frozen=True)
class IsNull(Node):
    """Whether an operand is null: never null itself."""

    operand: Node


@dataclass(frozen=True)
class Not(Node):
    """The opposite; null stays null."""

    operand: Node


@dataclass(frozen=True)
class And(Node):
    """Whether all operands are true, by SQL's three values."""

    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Or(Node):
    """Whether any operand is true, by SQL's three values."""

    operands: tuple[Node, ...]


TRUE = Literal(BOOLEAN, True)
FALSE = Literal(BOOLEAN, False)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, in order."""
    match node:
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Sign(operand=operand) | Cast(operand=operand) | Not(operand=operand) | IsNull(operand=operand):
            return (operand,)
        case In(operand=operand, options=options):
            return (operand, *options)
        case Extreme(operands=operands) | And(operands=operands) | Or(operands=operands):
            return operands
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield each different node of an expression once, operands before what is made of them."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, is_open = stack.pop()
        if current in seen:
            continue
        if is_open:
            seen.add(current)
            yield current
        else:
            stack.append((current, True))
            stack.extend((child, False) for child in reversed(children(current)))


def columns(node: Node) -> tuple[Column, ...]:
    """Return the columns that an expression reads, each once, in the order in which they occur."""
    return tuple(part for part in walk(node) if isinstance(part, Column))


def sides(node: Node) -> frozenset[Side]:
    """Return the tables that an expression reads."""
    return frozenset(column.side for column in columns(node))
