"""Virtual times: what Spark's own join of streams is given in place of any two ordered expressions.

Spark bounds the state of a join of streams by one timestamp of each side, and a condition of the form
``right >= left + constant AND right <= left + constant``. So the values of both orders become timestamps: counted in
*units* of several steps, moved so that they are above zero (the first watermark), and cut off where Spark's arithmetic
would no longer be exact. The condition on them holds of every match, and of a little more: it prunes, and the
condition of the join decides.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.predicate.language.nodes import Arithmetic, Cast, Literal, Node
from juncture.spark.sql.times import ntz_micros
from juncture.spec.schema import Side
from juncture.streams.condition import Relation
from juncture.streams.order import SideOrder
from juncture.streams.progress import Scale

if TYPE_CHECKING:
    from pyspark.sql import Column

NAMES: dict[Side, str] = {"left": "ltime", "right": "rtime"}
"""What the columns of virtual times are called."""

_BASE = 1 << 40
"""Where the value zero lies, in milliseconds of virtual time: all is late that lies before the first watermark."""
_LAST = 7 << 40
"""Spark reckons with double microseconds, which are exact below 2^53: a little more than 2^43 milliseconds."""
_UNITS = 1 << 10
"""How many units a window and both delays have together: a row is held longer by about two of them."""
_SHIFT_MOST = 1 << 36
_MARKS = 1_000
"""Microseconds in a millisecond: Spark's watermarks, and so virtual times, are in milliseconds."""
_WHOLE_MOST = 1 << 62

_NUMBERS = ("integer", "decimal", "float")


@dataclass(frozen=True)
class Window:
    """How far right values that match are from a left one, in numbers or seconds, in the direction of the orders.

    Attributes
    ----------
    lower, upper
        Its ends; None where there is none.
    """

    lower: Fraction | None
    upper: Fraction | None


def window_of(relations: Iterable[Relation], left: SideOrder, right: SideOrder) -> Window | None:
    """Return what a condition says of the values of two orders; None if they cannot be compared.

    Parameters
    ----------
    relations
        What every match satisfies.
    left, right
        The orders.
    """
    one, other = left.node.type, right.node.type
    alike = one.kind == other.kind and one.zoned == other.zoned
    are_numbers = one.kind in _NUMBERS and other.kind in _NUMBERS
    if not (alike or are_numbers) or left.order.descending != right.order.descending:
        return None
    ends: dict[bool, list[Fraction]] = {False: [], True: []}
    for relation in relations:
        ours, theirs = _moved(relation.left, left.node), _moved(relation.right, right.node)
        if ours is not None and theirs is not None:
            ends[relation.upper].append(relation.offset + ours - theirs)
    lower, upper = max(ends[False], default=None), min(ends[True], default=None)
    if left.order.descending:
        lower, upper = (None if end is None else -end for end in (upper, lower))
    return Window(lower, upper)


def _moved(node: Node | None, order: Node) -> Fraction | None:
    """Return what an expression adds to an order; None if it is not the order and a constant."""
    added = Fraction(0)
    while node is not None and node != order:
        # Numbers of 32 bits are rounded by more than a unit.
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
    """Return the value of a literal number; None if it is none."""
    while isinstance(node, Cast) and node.implicit:
        node = node.operand
    if not isinstance(node, Literal) or node.type.kind not in _NUMBERS or not isinstance(node.value, int | float):
        return None
    if not math.isfinite(node.value):
        return None
    return Fraction(node.value) / Fraction(10) ** node.type.scale


@dataclass(frozen=True)
class VirtualTime:
    """How the values of two orders become times.

    Attributes
    ----------
    left, right
        The orders.
    unit
        How much a millisecond of virtual time stands for, in numbers or seconds.
    lower, upper
        How many milliseconds right times that match are from a left one.
    mark
        What times have beside their milliseconds, by which rows in a state are known to be of this join.
    """

    left: SideOrder
    right: SideOrder
    unit: Fraction
    lower: int
    upper: int
    mark: int = 0

    def marked_for(self, join: object) -> VirtualTime:
        """Return the same with a mark that depends on a join, the orders, and what times stand for.

        Parameters
        ----------
        join
            The join and its inputs, as plain data.
        """
        orders = [self.order(side).order.to_dict() for side in NAMES]
        told = json.dumps([join, orders, str(self.unit), self.lower, self.upper], sort_keys=True)
        return replace(self, mark=1 + int(hashlib.sha256(told.encode()).hexdigest(), 16) % (_MARKS - 1))

    @classmethod
    def of(cls, left: SideOrder, right: SideOrder, window: Window) -> VirtualTime:
        """Return the virtual time of two orders, and a window that has both ends."""
        assert window.lower is not None
        assert window.upper is not None
        steps = [_step(order) for order in (left, right)]
        delays = sum(delay_of(order) for order in (left, right))
        spread = max(window.upper - window.lower, Fraction(0)) + delays
        farthest = max(abs(window.lower), abs(window.upper))
        wanted = max(spread / _UNITS, farthest / _SHIFT_MOST)
        if _is_whole(left) and _is_whole(right):
            step = _least_unit(left)
            unit, slack = max(step, math.floor(wanted / step) * step), 0
        else:
            unit, slack = wanted or max(steps), 1
        return cls(
            left,
            right,
            unit,
            math.floor(window.lower / unit) - slack,
            math.ceil(window.upper / unit) + slack,
        )

    def order(self, side: Side) -> SideOrder:
        """Return the order of a side."""
        return self.left if side == "left" else self.right

    def delay(self, side: Side) -> int:
        """Return how many milliseconds a row may be behind, so that none is late that its order lets pass."""
        order = self.order(side)
        return math.ceil(delay_of(order) / self.unit) + (1 if _is_whole(order) else 2)

    def steps(self, side: Side, value: Column) -> tuple[Column, Scale]:
        """Return a value in steps that grow with its order, null where it is null or NaN, and what they stand for."""
        order = self.order(side)
        sign = -1 if order.order.descending else 1
        kind, step = order.node.type.kind, _step(order) if _is_whole(order) else Fraction(1)
        delay = float(delay_of(order) / step)
        scale = Scale(kind, order.node.type.zoned, float(step) * sign, delay, _BASE, float(self.unit) * sign)
        grown = _whole_steps(order, value) if _is_whole(order) else _number(order, value)
        return F.when(_has_place(order, value), grown), scale

    def time(self, side: Side, value: Column) -> Column:
        """Return the time of a value: null where that is null or NaN."""
        # Both sides are cut off at the same places of the window, so that what matches is still in it.
        shift = self.lower if self.lower > 0 else min(self.upper, 0)
        moved = max(shift, 0) if side == "right" else max(-shift, 0)
        placed = self._units(side, value) + F.lit(_BASE)
        cut = F.greatest(F.lit(1 + moved), F.least(F.lit(_LAST + moved), placed))
        marked = F.timestamp_micros(cut.cast("long") * F.lit(_MARKS) + F.lit(self.mark))
        return F.when(_has_place(self.order(side), value), marked)

    def is_foreign(self) -> Column:
        """Tell of both times of a row, either of which may be null, whether one is of another join."""
        marks = (F.unix_micros(F.col(name)) % F.lit(_MARKS) for name in NAMES.values())
        left, right = (F.coalesce(mark, F.lit(self.mark)) != F.lit(self.mark) for mark in marks)
        return left | right

    def _units(self, side: Side, value: Column) -> Column:
        """Return a value that has a place in whole units that grow with its order."""
        order = self.order(side)
        if _is_whole(self.left) and _is_whole(self.right):
            known = _whole_steps(order, value)
            steps = F.lit(int(self.unit / _step(order))).cast("long")
            return F.call_function("div", known - F.pmod(known, steps), steps)
        most = F.lit(float(1 << 60))
        units = _number(order, value) / F.lit(float(self.unit))
        return F.floor(F.greatest(-most, F.least(most, units))).cast("long")

    def condition(self) -> Column:
        """Return what times of rows that match satisfy."""
        left, right = NAMES["left"], NAMES["right"]
        # Spark takes a time apart by its zone to add to it.
        lower, upper = (f"{left} + INTERVAL '{end}' MILLISECONDS" if end else left for end in (self.lower, self.upper))
        return F.expr(f"{right} >= {lower} AND {right} <= {upper}")


def _has_place(order: SideOrder, value: Column) -> Column:
    """Tell whether a value is neither null nor NaN."""
    return value.isNotNull() & ~F.isnan(value) if order.node.type.kind == "float" else value.isNotNull()


def _whole_steps(order: SideOrder, value: Column) -> Column:
    """Return a value of a whole order, which is not null, in steps that grow, cut off where they would not fit."""
    whole = value.cast("long")
    if order.node.type.kind == "date":
        whole = F.unix_date(value).cast("long")
    elif order.node.type.kind == "timestamp":
        whole = F.unix_micros(value) if order.node.type.zoned else ntz_micros(value)
    cut = F.greatest(F.lit(-_WHOLE_MOST), F.least(F.lit(_WHOLE_MOST), whole))
    return -cut if order.order.descending else cut


def _number(order: SideOrder, value: Column) -> Column:
    """Return a value of an order, which is neither null nor NaN, as a number that grows."""
    number = value.cast("double")
    return -number if order.order.descending else number


def _is_whole(order: SideOrder) -> bool:
    return order.node.type.kind in ("integer", "date", "timestamp")


def _step(order: SideOrder) -> Fraction:
    """Return a step of an order in numbers or seconds; of floats 1."""
    domain = order.coder.domain
    if domain.kind == "float":
        return Fraction(1)
    return Fraction(domain.step_ns, 10**9) if domain.is_time else 1 / domain.steps_in_one


def _least_unit(order: SideOrder) -> Fraction:
    """Return the finest unit of an order: a millisecond of timestamps, of which microseconds would not fit."""
    return max(_step(order), Fraction(1, 1000)) if order.node.type.kind == "timestamp" else _step(order)


def delay_of(order: SideOrder) -> Fraction:
    """Return the delay of an order in numbers or seconds."""
    return Fraction(order.delay) * _step(order)
