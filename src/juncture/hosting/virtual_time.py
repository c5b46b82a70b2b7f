"""Virtual times: timestamps for Spark's own stream join in place of any two ordered expressions.

Spark bounds the state of a stream join by one timestamp of each side, and a condition of the form
``right >= left + constant AND right <= left + constant``. So the values of both orders become timestamps: counted in
*units* of several steps, shifted above zero (the first watermark), and clipped where Spark's arithmetic would no longer
be exact. The condition on them is true for every match and a few other pairs: it prunes state, and the exact condition
of the join decides.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.matching.condition import Relation
from juncture.ordered.sql import SqlDomain, sql_domain
from juncture.predicate.language.nodes import Arithmetic, Cast, Literal, Node
from juncture.predicate.language.types import arrow_type
from juncture.spec.schema import Side
from juncture.streams.order import SideOrder
from juncture.streams.progress import Scale

if TYPE_CHECKING:
    from pyspark.sql import Column

NAMES: dict[Side, str] = {"left": "ltime", "right": "rtime"}
"""Names of the columns with virtual times."""

_BASE = 1 << 40
"""The time of the value zero, in milliseconds. Times below the first watermark would be late."""
_LAST = 7 << 40
"""Spark calculates in microseconds as doubles, which are exact below 2^53: a little more than 2^43 milliseconds."""
_UNITS = 1 << 10
"""Number of units in a window plus both delays. A row is kept longer by about two units."""
_SHIFT_MOST = 1 << 36
_MARKS = 1_000
"""Microseconds in a millisecond. Watermarks, and therefore virtual times, have milliseconds."""
_WHOLE_MOST = 1 << 62

_NUMBERS = ("integer", "decimal", "float")


@dataclass(frozen=True)
class Window:
    """The range of matching right values relative to a left one, in numbers or seconds; None if open."""

    lower: Fraction | None
    upper: Fraction | None


def window_of(relations: Iterable[Relation], left: SideOrder, right: SideOrder) -> Window | None:
    """Return the window of two orders that relations imply; None if the orders cannot be compared."""
    one, other = left.node.type, right.node.type
    alike = one.kind == other.kind and one.zoned == other.zoned
    are_numbers = one.kind in _NUMBERS and other.kind in _NUMBERS
    if not (alike or are_numbers) or left.order.descending != right.order.descending:
        return None
    ends: dict[bool, list[Fraction]] = {False: [], True: []}
    for relation in relations:
        left_added, right_added = _moved(relation.left, left.node), _moved(relation.right, right.node)
        if left_added is not None and right_added is not None:
            ends[relation.upper].append(relation.offset + left_added - right_added)
    lower, upper = max(ends[False], default=None), min(ends[True], default=None)
    if left.order.descending:
        lower, upper = (None if end is None else -end for end in (upper, lower))
    return Window(lower, upper)


def _moved(node: Node | None, order: Node) -> Fraction | None:
    """Return what an expression adds to an order; None if it is not the order plus a constant."""
    added = Fraction(0)
    while node is not None and node != order:
        # 32-bit floats are rounded by more than a unit.
        if node.type.kind == "float" and node.type.bits < 64:
            return None
        if isinstance(node, Cast) and node.implicit and node.type.kind in _NUMBERS:
            node = node.operand
        elif isinstance(node, Arithmetic) and node.operator in ("+", "-") and node.type.kind in _NUMBERS:
            constant = _constant(node.right)
            if constant is None:
                return None
            added += constant if node.operator == "+" else -constant
            node = node.left
        else:
            return None
    return None if node is None else added


def _constant(node: Node) -> Fraction | None:
    """Return the value of a numeric literal; None for any other expression."""
    while isinstance(node, Cast) and node.implicit:
        node = node.operand
    if not isinstance(node, Literal) or node.type.kind not in _NUMBERS or not isinstance(node.value, int | float):
        return None
    if not math.isfinite(node.value):
        return None
    return Fraction(node.value) / Fraction(10) ** node.type.scale


@dataclass(frozen=True)
class VirtualTime:
    """How the values of two orders become times."""

    left: SideOrder
    right: SideOrder
    unit: Fraction  # one millisecond of virtual time, in numbers or seconds
    lower: int  # the least matching right time relative to a left one, in milliseconds
    upper: int  # the greatest one
    mark: int  # microseconds of all times, which identify rows of this join in a state

    @classmethod
    def of(cls, left: SideOrder, right: SideOrder, window: Window, join: object) -> VirtualTime:
        """Return the virtual time of two orders and a window that has both ends. ``join`` identifies the join."""
        assert window.lower is not None
        assert window.upper is not None
        steps = [order.domain.step for order in (left, right)]
        delays = sum(delay_of(order) for order in (left, right))
        spread = max(window.upper - window.lower, Fraction(0)) + delays
        farthest = max(abs(window.lower), abs(window.upper))
        wanted = max(spread / _UNITS, farthest / _SHIFT_MOST)
        if _sql(left).is_whole and _sql(right).is_whole:
            step = _least_unit(left)
            unit, slack = max(step, math.floor(wanted / step) * step), 0
        else:
            unit, slack = wanted or max(steps), 1
        lower, upper = math.floor(window.lower / unit) - slack, math.ceil(window.upper / unit) + slack
        orders = [order.order.to_dict() for order in (left, right)]
        described = json.dumps([join, orders, str(unit), lower, upper], sort_keys=True)
        mark = 1 + int(hashlib.sha256(described.encode()).hexdigest(), 16) % (_MARKS - 1)
        return cls(left, right, unit, lower, upper, mark)

    def order(self, side: Side) -> SideOrder:
        """Return the order of a side."""
        return self.left if side == "left" else self.right

    def delay(self, side: Side) -> int:
        """Return the delay of the watermark in milliseconds: rows that the order allows are never late."""
        order = self.order(side)
        return math.ceil(delay_of(order) / self.unit) + (1 if _sql(order).is_whole else 2)

    def steps(self, side: Side, value: Column) -> tuple[Column, Scale]:
        """Return a value in steps that grow with its order (null for null or NaN), and their scale."""
        order = self.order(side)
        sign = -1 if order.order.descending else 1
        kind, step = order.node.type.kind, order.domain.step if _sql(order).is_whole else Fraction(1)
        delay = float(delay_of(order) / step)
        scale = Scale(kind, order.node.type.zoned, float(step) * sign, delay, _BASE, float(self.unit) * sign)
        grown = _whole_steps(order, value) if _sql(order).is_whole else _number(order, value)
        return F.when(_sql(order).present(value).isNotNull(), grown), scale

    def time(self, side: Side, value: Column) -> Column:
        """Return the time of a value; null for null or NaN."""
        # Both sides are clipped at the same positions of the window, so matches stay within it.
        shift = self.lower if self.lower > 0 else min(self.upper, 0)
        moved = max(shift, 0) if side == "right" else max(-shift, 0)
        placed = self._units(side, value) + F.lit(_BASE)
        cut = F.greatest(F.lit(1 + moved), F.least(F.lit(_LAST + moved), placed))
        marked = F.timestamp_micros(cut.cast("long") * F.lit(_MARKS) + F.lit(self.mark))
        return F.when(_sql(self.order(side)).present(value).isNotNull(), marked)

    def is_foreign(self) -> Column:
        """Return whether one of both times of a row, which may be null, belongs to another join."""
        marks = (F.unix_micros(F.col(name)) % F.lit(_MARKS) for name in NAMES.values())
        left, right = (F.coalesce(mark, F.lit(self.mark)) != F.lit(self.mark) for mark in marks)
        return left | right

    def _units(self, side: Side, value: Column) -> Column:
        """Return a value, neither null nor NaN, in whole units that grow with its order."""
        order = self.order(side)
        if _sql(self.left).is_whole and _sql(self.right).is_whole:
            known = _whole_steps(order, value)
            steps = F.lit(int(self.unit / order.domain.step)).cast("long")
            return F.call_function("div", known - F.pmod(known, steps), steps)
        most = F.lit(float(1 << 60))
        units = _number(order, value) / F.lit(float(self.unit))
        return F.floor(F.greatest(-most, F.least(most, units))).cast("long")

    def condition(self) -> Column:
        """Return the condition that the times of matches satisfy."""
        left, right = NAMES["left"], NAMES["right"]
        # Zero is not added, because Spark converts a time to its zone for each addition.
        lower, upper = (f"{left} + INTERVAL '{end}' MILLISECONDS" if end else left for end in (self.lower, self.upper))
        return F.expr(f"{right} >= {lower} AND {right} <= {upper}")


def _whole_steps(order: SideOrder, value: Column) -> Column:
    """Return a non-null value of a discrete order in growing steps, clipped to 63 bits."""
    whole = _sql(order).word(value, arrow_type(order.node.type))
    cut = F.greatest(F.lit(-_WHOLE_MOST), F.least(F.lit(_WHOLE_MOST), whole))
    return -cut if order.order.descending else cut


def _number(order: SideOrder, value: Column) -> Column:
    """Return a value of an order, neither null nor NaN, as a growing number."""
    number = value.cast("double")
    return -number if order.order.descending else number


def _sql(order: SideOrder) -> SqlDomain:
    """Return the values of an order in SQL."""
    return sql_domain(order.domain, [arrow_type(order.node.type)])


def _least_unit(order: SideOrder) -> Fraction:
    """Return the finest unit of an order: a millisecond for timestamps, whose microseconds would not fit."""
    return max(order.domain.step, Fraction(1, 1000)) if order.domain.is_time else order.domain.step


def delay_of(order: SideOrder) -> Fraction:
    """Return the delay of an order in numbers or seconds."""
    return Fraction(order.delay) * order.domain.step
