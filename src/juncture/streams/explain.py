"""Text of `explain()`: which rows a stream join keeps and for how long, and when it emits results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from juncture.matching.condition import Relation, bare_text
from juncture.ordered.duration import format_duration
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams.alternatives import Filter
from juncture.streams.asof import AsofBounds
from juncture.streams.bounds import Bounds
from juncture.streams.order import ORDERED_KINDS, SideOrder

_TIMES = ("date", "timestamp", "duration")

EMISSIONS = {
    "inner": "matches at once",
    "left": "matches at once, left rows without one when they expire",
    "right": "matches at once, right rows without one when they expire",
    "full": "matches at once, rows without one when they expire",
    "semi": "left rows at their first match",
    "anti": "left rows when they expire without a match",
}
"""When a join emits its results, by ``how``."""


def explained(
    join: Resolved,
    bounds: Mapping[Side, Bounds] | Mapping[Side, AsofBounds],
    orders: Mapping[Side, Sequence[SideOrder]],
    rates: Mapping[Side, float | None],
) -> str:
    """Return the text of `explain()`. ``rates`` are rows per step of the order of a side."""
    lines = [f"{join.spec.title.removeprefix('a ').removeprefix('an ')} of streams, how={join.how!r}"]
    for side in SIDES:
        lines += [f"{side} order: {order_text(order)}" for order in orders[side]] or [f"{side} order: none"]
    for side in SIDES:
        lines.append(f"{side} rows are kept {kept_while(bounds[side])}")
        own = bounds[side]
        rows = _rows_held(own, orders[side], rates[side]) if isinstance(own, Bounds) else None
        if rows is not None:
            lines.append(f"  about {rows:,} rows at {rates[side]:,} per step, while both sides advance together")
    lines.append(f"emitted: {emission_text(join)}")
    lines.append(f"results in the order: {result_order_text(join, orders)}")
    return "\n".join(lines)


def emission_text(join: Resolved) -> str:
    """Return when a join emits its results."""
    if join.spec.ranks_matches:
        return "left rows once no future row can change their match"
    return "left rows once no future row can be in their window" if join.aggregates else EMISSIONS[join.how]


def result_order_text(join: Resolved, orders: Mapping[Side, Sequence[SideOrder]]) -> str:
    """Return the orders in which results advance, see `StreamJoin.output_position`."""
    if join.how in ("right", "full") or not orders["left"]:
        return "none"
    return "; ".join(order.text for order in orders["left"]) + ", up to output_position()"


def order_text(order: SideOrder) -> str:
    """Return an order as text."""
    way = "falling" if order.order.descending else "growing"
    behind = f", at most {order.order.delay} behind" if order.order.delay else ""
    return f"{order.text}, {way}{behind}"


def kept_while(bounds: Bounds | AsofBounds) -> str:
    """Return the condition while which rows of a side are kept."""
    if isinstance(bounds, AsofBounds):
        return _kept_by_asof(bounds)
    base, _ = bounds.moving
    if not bounds.is_bounded:
        return "forever: no order limits them"
    parts = [_relation_text(bounds, line) for line in base if line < len(bounds.condition.relations)]
    options = list(
        dict.fromkeys(
            " and ".join(dict.fromkeys(_watch_text(bounds, line) for line in lines)) for lines in bounds.alternatives
        )
    )
    known = list(dict.fromkeys(parts))
    if not known and options:
        known = [options[0] if len(options) == 1 else " or ".join(f"({option})" for option in options)]
    return f"while {' and '.join(known)}"


def _kept_by_asof(bounds: AsofBounds) -> str:
    join, orders = bounds.join, bounds.orders
    if not bounds.is_bounded:
        return "forever: no order limits them"
    spec = join.spec
    if bounds.side == "left":
        marks = ", ".join(order.text for order in orders["right"])
        if spec.direction == "backward" and bounds.future["right"].rises:
            sign = ">=" if spec.allow_exact_matches else ">"
            return f"while {join.left_on} {sign} {_with_side(marks, join.left_on, bounds.side)}"
        return f"until {marks} has passed their match{' or tolerance' if join.tolerance is not None else ''}"
    marks = ", ".join(order.text for order in orders["left"])
    several = f"{spec.matches} last" if spec.matches > 1 else "last"
    by = f" of each {', '.join(join.right_by)}" if join.right_by else ""
    sign = ">=" if bounds.future["left"].rises else "<="
    is_ahead = f"while {join.right_on} {sign} {_with_side(marks, join.right_on, bounds.side)}"
    return is_ahead if spec.direction == "forward" else f"{is_ahead}, and the {several} before{by}"


def _relation_text(bounds: Bounds, line: int) -> str:
    """Return a limit of stored rows, in terms of the order of the other side that it follows."""
    relation = bounds.condition.relations[line]
    is_left = bounds.side == "left"
    own, other = relation.left_text, relation.right_text
    if not is_left:
        own, other = other, own
    order = bounds.follows(line)
    mark = other if order is None else order.text
    above = relation.upper == is_left
    sign = (">" if above else "<") + ("" if relation.strict else "=")
    return f"{own} {sign} {_with_side(mark, own, bounds.side)}{_offset_text(relation, -1 if is_left else 1)}"


def _with_side(mark: str, own: str, side: Side) -> str:
    """Return the name of the other side's order, prefixed with that side if both names are the same."""
    return mark if mark != own else f"the {'right' if side == 'left' else 'left'} {mark}"


def _offset_text(relation: Relation, times: int) -> str:
    offset = relation.offset * times
    if not offset:
        return ""
    kinds = {node.type.kind for node in (relation.left, relation.right) if node is not None}
    size = abs(offset)
    text = format_duration(int(size * 10**9)) if kinds & set(_TIMES) else _number(size)
    return f" {'-' if offset < 0 else '+'} {text}"


def _number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else str(float(number))


def _watch_text(bounds: Bounds, line: int) -> str:
    relations = len(bounds.condition.relations)
    if line < relations:
        return _relation_text(bounds, line)
    watch = bounds.watches[line - relations]
    if isinstance(watch, Filter):
        return bare_text(watch.node)
    marks = ", ".join(order.text for order in bounds.orders)
    return f"{bare_text(watch.node)} is {'below' if watch.upper else 'above'} a limit derived from {marks}"


def _rows_held(bounds: Bounds, own: Sequence[SideOrder], rate: float | None) -> int | None:
    """Return how many rows are kept at a rate, where the limit also follows the side's own order; None if unknown."""
    if rate is None:
        return None
    counts = []
    for line in bounds.moving[0]:
        relation = bounds.condition.relations[line]
        node = relation.value(bounds.side)
        order = bounds.follows(line)
        if order is None or all(each.node != node for each in own):
            continue
        above = relation.upper == (bounds.side == "left")
        distance = relation.offset * (1 if bounds.side == "left" else -1) * (1 if above else -1)
        delay = Fraction(order.delay) * order.domain.step
        counts.append(max(0, int((distance + delay) * Fraction(rate))))
    return min(counts, default=None)


def unbounded(bounds: Bounds | AsofBounds, *, on_spark: bool = False) -> str:
    """Return why a side would be kept forever, and the remedy. On Spark, such a join is always refused."""
    why, remedy = _unbounded_asof(bounds) if isinstance(bounds, AsofBounds) else _unbounded_pairs(bounds)
    if not on_spark:
        remedy += ", or allow_unbounded=True if all of them fit in memory"
    return f"The {bounds.side} rows would be kept forever: {why}. {remedy}."


def _unbounded_pairs(bounds: Bounds) -> tuple[str, str]:
    side = bounds.side
    other = other_side(side)
    wanted = []
    for relation in bounds.condition.relations[: bounds.condition.matching]:
        node, text = relation.value(other), relation.right_text if side == "left" else relation.left_text
        if node is not None and node.type.kind in ORDERED_KINDS:
            falls = relation.upper != (side == "left")
            wanted.append(f"jn.Order({text!r}{', descending=True' if falls else ''})")
    if not bounds.orders:
        why = f"the {other} side has no order that limits future {other} rows"
    else:
        named = ", ".join(repr(order.text) for order in bounds.orders)
        why = f"the condition does not limit {side} rows by the {other} order ({named})"
    if wanted:
        growing_first = sorted(dict.fromkeys(wanted), key=lambda text: "descending" in text)
        remedy = f"If the {other} rows arrive in that order, pass {other}_order={' or '.join(growing_first)}"
    else:
        remedy = (
            f"Add a condition that compares {side} rows with an expression that orders the {other} rows, such as "
            '"l.ts > r.ts - INTERVAL 1 HOUR", and pass that order'
        )
    return why, remedy


def _unbounded_asof(bounds: AsofBounds) -> tuple[str, str]:
    join, side = bounds.join, bounds.side
    other = other_side(side)
    on = join.right_on if other == "right" else join.left_on
    future = bounds.future[other]
    if not (future.rises or future.falls):
        why = f"no order of the {other} side limits future values of {on!r}"
        remedy = f"Pass {other}_order=jn.Order({on!r})"
    else:
        why = (
            f"with direction={join.spec.direction!r} and no tolerance, a left row without a match waits for a right "
            "row of its key without limit"
        )
        remedy = "Pass tolerance= to the join"
    return why, remedy
