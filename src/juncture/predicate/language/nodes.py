"""The nodes of a predicate: small immutable values, equal if they have the same content.

A tree is fully typed: columns are resolved, literals have the type in which they are compared, and Spark's implicit
conversions are `Cast` nodes marked ``implicit``. Only `juncture.predicate.language.build` checks types; build nodes
with it.

A sum is as deep as it has terms. A node's hash and sides are therefore computed when it is created, and traversals are
loops, not recursions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa

from juncture.predicate.language.types import BOOLEAN, ArithmeticOperator, Type, Value, as_vector


@dataclass(frozen=True)
class Options:
    """Different values of one type, in whole steps of it. None is NULL. Zero is 0.0, never -0.0."""

    type: Type
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.type.kind == "float":
            # A single NaN object equals itself in tuples.
            values = tuple(math.nan if value != value else value for value in self.values)
            object.__setattr__(self, "values", values)

    @property
    def has_null(self) -> bool:
        """Whether NULL is among the values."""
        return None in self.values

    @cached_property
    def vector(self) -> pa.Array:
        """The values as an Arrow array, without null."""
        values = [value for value in self.values if value is not None]
        zeros = [-0.0] if self.type.kind == "float" and 0.0 in values else []
        return as_vector([*values, *zeros], self.type)

    @cached_property
    def has_nan(self) -> bool:
        """Whether NaN is among the values."""
        return any(value != value for value in self.values)

    @cached_property
    def ordered(self) -> list[Any]:
        """The values that have an order, sorted."""
        ordered: list[Any] = [value for value in self.values if value is not None and value == value]
        return sorted(ordered)


Function = OneOf[
    "-",
    "abs",
    "least",
    "greatest",
    "%",
    "div",
    "floor",
    "ceil",
    "round",
    "case",
    "coalesce",
    "like",
    "startswith",
    "upper",
    "lower",
    "||",
    "date_trunc",
]
CompareOperator = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]

Side = OneOf["left", "right"]
"""The table of a column."""

_NO_SIDE: frozenset[Side] = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """An expression. ``type`` is the type of its value."""

    type: Type
    _operands: tuple[Node, ...] = field(init=False, repr=False)
    _details: tuple[object, ...] = field(init=False, repr=False)  # what else distinguishes nodes of one class and type
    _hash: int = field(init=False, repr=False)
    _sides: frozenset[Side] = field(init=False, repr=False)
    _columns: tuple[Column, ...] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        operands: list[Node] = []
        details: list[object] = []
        names: tuple[str, ...] = self.__match_args__
        for name in names[1:]:
            value = getattr(self, name)
            if isinstance(value, Node):
                operands.append(value)
            elif name == "operands":
                operands += value
            else:
                details.append(value)
        operand_sides = {operand._sides for operand in operands}
        self._remember(
            operands, details, operand_sides.pop() if len(operand_sides) == 1 else _NO_SIDE.union(*operand_sides)
        )

    def _remember(self, operands: Sequence[Node], details: Sequence[object], sides: frozenset[Side]) -> None:
        object.__setattr__(self, "_operands", tuple(operands))
        object.__setattr__(self, "_details", tuple(details))
        object.__setattr__(self, "_hash", hash((type(self), *details, *[operand._hash for operand in operands])))
        object.__setattr__(self, "_sides", sides)
        object.__setattr__(self, "_columns", None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        pairs: list[tuple[Node, Node]] = [(self, other)]
        while pairs:
            one, two = pairs.pop()
            if one is two:
                continue
            if (
                one._hash != two._hash
                or type(one) is not type(two)
                or one.type != two.type
                or one._details != two._details
            ):
                return False
            operands, other_operands = one._operands, two._operands
            if len(operands) != len(other_operands):
                return False
            pairs.extend(zip(operands, other_operands, strict=True))
        return True

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of text differ between processes.
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)


@dataclass(frozen=True, eq=False, slots=True)
class Column(Node):
    """A column of one of the two tables."""

    side: Side
    name: str
    nullable: bool = True

    def __post_init__(self) -> None:
        self._remember((), (self.side, self.name, self.nullable), frozenset((self.side,)))


@dataclass(frozen=True, eq=False, slots=True)
class Literal(Node):
    """A constant, in steps of its type. None is NULL."""

    value: Value = None

    def __post_init__(self) -> None:
        # 1 == True == 1.0 in Python, but not here; NaN has to equal itself.
        self._remember((), (repr(self.value),), _NO_SIDE)


@dataclass(frozen=True, eq=False, slots=True)
class Arithmetic(Node):
    """A sum, difference, product or quotient."""

    operator: ArithmeticOperator
    left: Node
    right: Node


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Node):
    """A conversion to ``type``; null where the value does not fit."""

    operand: Node
    implicit: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Call(Node):
    """A function or an operator: see `juncture.predicate.language.functions`. ``-`` has one operand.

    ``detail`` is a constant argument: the digits of ``round``, the pattern of ``like``, the unit of ``date_trunc``. The
    operands of ``case`` are pairs of condition and value, followed by the default value.
    """

    function: Function
    operands: tuple[Node, ...]
    detail: int | str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Compare(Node):
    """A comparison. Numbers of different kinds, and times of different units, compare by value."""

    operator: CompareOperator
    left: Node
    right: Node


@dataclass(frozen=True, eq=False, slots=True)
class In(Node):
    """Whether an operand equals one of several values of its own type."""

    operand: Node
    options: Options


@dataclass(frozen=True, eq=False, slots=True)
class IsNull(Node):
    """Whether an operand is null: never null itself."""

    operand: Node


@dataclass(frozen=True, eq=False, slots=True)
class Not(Node):
    """The opposite; null stays null."""

    operand: Node


@dataclass(frozen=True, eq=False, slots=True)
class And(Node):
    """Whether all operands are true, in three-valued logic."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Or(Node):
    """Whether any operand is true, in three-valued logic."""

    operands: tuple[Node, ...]


TRUE = Literal(BOOLEAN, True)
FALSE = Literal(BOOLEAN, False)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, in order."""
    return node._operands


def walk(node: Node) -> Iterator[Node]:
    """Yield each different node of an expression once, operands first."""
    visited: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, is_open = stack.pop()
        if current in visited:
            continue
        operands = () if is_open else current._operands
        if operands:
            stack.append((current, True))
            stack.extend([(operand, False) for operand in reversed(operands)])
        else:
            visited.add(current)
            yield current


def columns(node: Node) -> tuple[Column, ...]:
    """Return the columns of an expression, each once, in the order of occurrence."""
    if node._columns is None:
        object.__setattr__(node, "_columns", _columns_in(node))
    assert node._columns is not None
    return node._columns


def _columns_in(node: Node) -> tuple[Column, ...]:
    unique: dict[Column, None] = {}
    visited: set[int] = set()
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Column):
            unique[part] = None
        elif id(part) not in visited:
            visited.add(id(part))
            stack.extend(reversed(part._operands))
    return tuple(unique)


def sides(node: Node) -> frozenset[Side]:
    """Return the tables that an expression reads."""
    return node._sides


def depth(node: Node) -> int:
    """Return the nesting depth of operations."""
    depths: dict[Node, int] = {}
    for part in walk(node):
        depths[part] = 1 + max((depths[child] for child in children(part)), default=0)
    return depths[node]
