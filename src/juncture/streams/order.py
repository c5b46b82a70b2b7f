"""The orders of streams, validated against the schemas of their sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import float_codes, floats_of, raw_values, validity
from juncture.errors import DataError, SchemaError, SpecError, wrong_type
from juncture.kernels.array_types import Ints, Mask
from juncture.matching.order import Order
from juncture.matching.plain_lines import plain_column
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.intervals.interval import Interval, interval
from juncture.predicate.language import build
from juncture.predicate.language.nodes import FALSE, Column, Literal, Node, columns
from juncture.predicate.language.parse import parse_expression
from juncture.predicate.language.python_values import literal_of, python_value
from juncture.predicate.language.types import TIME_STEPS, Type, Value, arrow_type
from juncture.spec.distance import in_steps
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

ORDERED_KINDS = ("integer", "float", "decimal", "date", "timestamp")
"""Kinds of types that can order a stream."""


@dataclass(frozen=True)
class SideOrder:
    """An order that was validated against the schema of its side. Its codes grow from row to row."""

    order: Order
    side: Side
    node: Node
    domain: Domain
    delay: int | float  # in codes; for floats, a float
    column: str | None = None  # the column that the expression is, if it has 64-bit steps

    @classmethod
    def of(cls, order: Order, side: Side, schema: pa.Schema, names: tuple[str, str] = ("l", "r")) -> SideOrder:
        """Validate an order against the schema of its side."""
        empty = pa.schema([])
        sides = (schema, empty) if side == "left" else (empty, schema)
        node = parse_expression(order.expression, *sides, names=names)
        if not columns(node):
            raise SpecError(
                f"The {side} order {order.expression!r} is the same for all rows. Name a column, such as 'ts'.",
                name="JN-ORDER-CONSTANT",
            )
        if node.type.kind not in ORDERED_KINDS:
            raise SchemaError(
                f"The {side} order {order.expression!r} has type {node.type}. Expected numbers, decimals, dates or "
                "timestamps.",
                name="JN-TYPE-UNSUPPORTED",
            )
        domain = domain_of(arrow_type(node.type))
        assert domain is not None
        steps = in_steps("delay", order.delay or 0, domain, empty)
        if steps.is_infinite():
            raise SpecError(
                f"delay={order.delay!r} exceeds the range of the order, so no row would ever be late or expire. Pass "
                "a smaller delay.",
                name="JN-ARGUMENT-VALUE",
            )
        delay = domain.whole_steps(steps)
        column = plain_column(node, schema, domain) if isinstance(node, Column) else None
        return cls(order, side, node, domain, delay, column)

    @property
    def text(self) -> str:
        """The expression as it was written."""
        return self.order.expression

    def codes(self, batch: pa.RecordBatch) -> tuple[Ints, Mask | None]:
        """Return the codes of rows, and a mask of those that are neither null nor NaN."""
        if self.column is not None:
            array = batch.column(self.column)
            steps = raw_values(array, np.int64)
            return (~steps if self.order.descending else steps), validity(array)
        values = evaluate(self.node, **{self.side: batch})
        try:
            codes, valid = self.domain.encode(values)
        except TooWideError:
            raise DataError(
                f"The {self.side} order {self.text!r} has a value that does not fit a 64-bit code. Cast it to a type "
                "with fewer digits.",
                name="JN-VALUE-RANGE",
            ) from None
        return (~codes if self.order.descending else codes), valid

    @property
    def is_null(self) -> Node:
        """Condition on rows in which the expression is null."""
        return build.is_null(self.node)

    @property
    def is_nan(self) -> Node:
        """Condition on rows in which the expression is NaN."""
        if self.node.type.kind != "float":
            return FALSE
        return build.compare("=", self.node, Literal(self.node.type, math.nan))

    @property
    def steps(self) -> int | None:
        """How far codes may be behind, if that is the same for all values; None for floats."""
        if self.domain.floating and self.delay:
            return None
        return min(int(self.delay), MAX_CODE)

    def behind(self, codes: Ints) -> Ints:
        """Return the least float codes that are not late after given greatest codes."""
        sign = -1.0 if self.order.descending else 1.0
        values = floats_of(~codes if self.order.descending else codes)
        with np.errstate(over="ignore"):
            moved = float_codes(values - sign * self.delay)
        return ~moved if self.order.descending else moved

    def behind_one(self, code: int) -> int:
        """Return the least code that is not late after a greatest code."""
        if self.steps is None:
            return int(self.behind(np.array([code], np.int64))[0])
        return max(code - self.steps, MIN_CODE)

    def code_of(self, value: object) -> int:
        """Return the code of a value that a user passed."""
        literal = literal_of(value, argument=f"advance({self.side}=…)")
        if literal is None or literal.value is None or not self._takes(literal.type):
            raise SpecError(
                f"advance({self.side}={value!r}) ({type(value).__name__}) is not a value of the order {self.text!r}. "
                f"Expected a value of type {self.node.type}.",
                name="JN-ADVANCE",
            )
        steps = self._steps(literal.value, literal.type)
        if isinstance(steps, float) and math.isnan(steps):
            raise SpecError(
                f"advance({self.side}=nan) is not a position in the order {self.text!r}. Expected a number.",
                name="JN-ADVANCE",
            )
        if not self.domain.floating:
            # Between two steps, round to the next one in the direction of the order, which is still in the future.
            steps = math.floor(steps) if self.order.descending else math.ceil(steps)
        return self.code_of_steps(steps)

    def code_of_steps(self, steps: int | float) -> int:
        """Return the code of a value in whole steps of the expression's type; for floats, of the number."""
        code = min(max(self.domain.code_of(steps), MIN_CODE), MAX_CODE)
        return ~code if self.order.descending else code

    def _takes(self, data_type: Type) -> bool:
        own = self.node.type
        if own.is_number:
            return data_type.is_number
        return data_type.kind == own.kind and data_type.zoned == own.zoned

    def _steps(self, value: Value, data_type: Type) -> Any:
        own = self.node.type
        assert isinstance(value, int | float | Fraction)
        if own.kind == "float":
            return float(value)
        if isinstance(value, float) and math.isinf(value):
            return math.copysign(2**64, value)
        exact = Fraction(value)
        if own.kind == "timestamp":
            return exact * TIME_STEPS[own.unit] / TIME_STEPS[data_type.unit]
        return exact * 10**own.scale if own.kind == "decimal" else exact

    def least_value(self, stored: Sequence[pa.RecordBatch], *, may_come: bool, future: int | None) -> Any:
        """Return the first value of stored rows, and of rows that ``may_come``, whose codes are at least ``future``.

        It is a Python value; None if it is unknown or there are no rows.
        """
        if may_come and future is None:
            return None
        codes = [] if future is None else [future]
        for batch in stored:
            own, valid = self.codes(batch)
            own = own if valid is None else own[valid]
            codes += [int(own.min())] if len(own) else []
        if not codes:
            return None
        return python_value(self.value_of(min(codes)), self.node.type, up=self.order.descending)

    def value_of(self, code: int) -> Value:
        """Return the value of a code, in steps of the expression's type (decimals as fractions)."""
        step = self.domain.step_of(~code if self.order.descending else code)
        return step * self.domain.step if self.node.type.kind == "decimal" else step

    @property
    def measure(self) -> tuple[str, bool]:
        """The measure of the order. Only orders with the same measure are compared."""
        kind = self.node.type.kind
        return "time" if kind in ("date", "timestamp") else "number", self.order.descending

    def measured(self, code: int) -> float:
        """Return the position of a code, in seconds or as a number."""
        far = float(self.domain.step_of(~code if self.order.descending else code) * self.domain.step)
        return -far if self.order.descending else far

    def interval_from(self, code: int) -> Interval:
        """Return the interval of future values, given the least code of future rows."""
        value = self.value_of(code)
        assert not isinstance(value, bool | None)
        if self.order.descending:
            return interval(self.node.type, None, value)
        return interval(self.node.type, value)


def side_orders(join: Resolved, orders: Mapping[Side, Sequence[Order]]) -> dict[Side, list[SideOrder]]:
    """Validate the orders of both sides of a join against its schemas."""
    return {
        side: [SideOrder.of(order, side, join.schema(side), join.spec.names) for order in orders[side]]
        for side in SIDES
    }


def ordered_columns(orders: Mapping[Side, Sequence[SideOrder]]) -> set[Column]:
    """Return the columns that the orders of both sides read."""
    return {column for side in SIDES for order in orders[side] for column in columns(order.node)}


def orders_of(value: object, argument: str) -> tuple[Order, ...]:
    """Return the orders of an argument that is None, one order or several."""
    if value is None:
        return ()
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for each in several:
        if not isinstance(each, Order):
            raise wrong_type(argument, value, "an order", "jn.Order('ts', delay='5s') or a list of orders, for example")
    return tuple(several)
