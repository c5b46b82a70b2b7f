"""How many pairs of rows should lie within reach of each other, by a look at some rows of both sides.

Each part of a condition is taken by itself: how far rows reach is looked at, and how often they then meet is what it
would be if the right rows lay evenly in their extent, whatever the other parts say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain, plain_column, validity
from juncture.kernels.array_types import Floats
from juncture.ordered.kinds import domain_of
from juncture.planner.expected import covered_share, float_of
from juncture.planner.statistics import Stats
from juncture.predicate.decompose.shape import Ends, Shape
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.language import build, nodes
from juncture.predicate.language.nodes import Node
from juncture.spec.condition import Limit, MatchInterval, ResolvedInequality
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_MOST_PARTS = 64
"""How many parts of a condition are looked at: what more there are is taken to rule out nothing."""

_MOST_TERMS = 500  # how many terms of what rows or pairs have to satisfy besides are looked at
_SEEN_LEAST = 10  # how many matching pairs a random sample needs for its share to be an estimate


@dataclass(frozen=True)
class Windows:
    """The windows of rows, in numbers or seconds: NaN for rows that match nothing."""

    first: Floats
    last: Floats
    step: float = 0.0  # the least distance of different values: 1 for whole numbers, a day for dates, otherwise 0

    def mirrored(self) -> Windows:
        """Return the same in the other direction."""
        return Windows(-self.last, -self.first, self.step)

    def widened(self, steps: tuple[float, float]) -> Windows:
        """Return spans widened by a number of steps."""
        return Windows(self.first - steps[0] * self.step, self.last + steps[1] * self.step, self.step)


def reach_columns(join: Resolved, side: Side) -> tuple[str, ...]:
    """Return the columns that have to be looked at: none where a window of constant width says it all."""
    if not isinstance(join, ResolvedInequality):
        return ()
    interval = join.condition.interval
    if join.condition.predicate is None and interval is not None and interval.is_point("right"):
        return join.compared(side) if any(limit.column for _, limit in interval.limits) else ()
    return join.compared(side)


def likely_pairs(
    join: ResolvedInequality, stats: Stats, left: pa.Table | None, right: pa.Table | None
) -> tuple[float | None, str]:
    """Return about how many pairs match, and how this is known; None where that is not known, and why.

    `left` and `right` are some rows of each side, with the columns of `reach_columns`.
    """
    left_rows, right_rows = stats.left.rows, stats.right.rows
    if not left or not right or left_rows is None or right_rows is None:
        return None, "the rows of both sides are not sampled"
    keys = _keys(join, stats)
    if keys is None:
        return None, "the keys are not counted"
    share = 1.0
    # What is beyond all floats is infinite, and what is not a number matches nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        for spans in islice(_spans(join, left, right), _MOST_PARTS):
            if spans is None:
                return None, "a condition compares what is neither a number nor a time"
            share *= _meeting_share(*spans)
    shape = join.shape or Shape()
    share *= _passed_share(shape, left, right)
    if shape.residual is not None:
        few, times = _few(shape.residual)
        matching, tried = _matching(few, left, right)
        if matching < _SEEN_LEAST:
            return (
                None,
                f"{matching} of {tried:,} pairs, taken by chance, satisfy what is left of the condition: too few",
            )
        share *= min(1.0, times * matching / tried)
    among = "" if keys == 1 else f" / {keys:,} distinct keys"
    sample_text = f"by a look at {left.num_rows:,} left and {right.num_rows:,} right rows, as if rows lay evenly"
    return (
        left_rows * right_rows / keys * share,
        f"{left_rows:,} * {right_rows:,} rows{among} * {share:.2g}, {sample_text}",
    )


def _keys(join: ResolvedInequality, stats: Stats) -> int | None:
    """Return how many distinct keys there are; 1 if nothing has to be equal, None if they are not counted."""
    if not join.left_by and not join.condition.equalities:
        return 1
    counts = [side.distinct_keys for side in (stats.left, stats.right) if side.distinct_keys is not None]
    return max(1, *counts) if counts else None


def _meeting_share(left: Windows, right: Windows) -> float:
    """Return what share of all pairs share a point."""
    if np.isneginf(right.first).any():
        # What starts nowhere has a place where it ends.
        left, right = left.mirrored(), right.mirrored()
    there = (right.first <= right.last) & np.isfinite(right.first)
    if not there.any():
        return 0.0
    length = float(np.mean(right.last[there] - right.first[there]))
    extent = float(right.first[there].min()), float(right.first[there].max())
    # A right row is met from its start to its end, so by all windows that begin no further behind than it is long.
    begins = np.where(left.first <= left.last, left.first - length, np.nan)
    return covered_share(begins, left.last, extent, left.step) * float(np.mean(there))


def _passed_share(shape: Shape, left: pa.Table, right: pa.Table) -> float:
    """Return what share of all pairs consists of rows that pass the conditions on each side alone."""
    share = 1.0
    for node, sample in ((shape.left_filter, {"left": left}), (shape.right_filter, {"right": right})):
        if node is not None:
            few, times = _few(node)
            share *= min(1.0, times * float(np.mean(matches(few, **sample).to_numpy(zero_copy_only=False))))
    return share


def _few(node: Node) -> tuple[Node, float]:
    """Return a condition of few terms in place of one of many, and how many times as often the whole should be true.

    What more conditions there are is taken to rule out nothing, and what more alternatives there are to be as often
    true as the others, and never two at once.
    """
    match node:
        case nodes.And(operands=operands):
            parts = [_few(operand) for operand in operands[:_MOST_TERMS]]
            return build.conjunction([part for part, _ in parts]), math.prod(times for _, times in parts)
        case nodes.Or(operands=operands) if len(operands) > _MOST_TERMS:
            chosen = operands[:: -(-len(operands) // _MOST_TERMS)]
            return build.disjunction(chosen), len(operands) / len(chosen)
    return node, 1.0


def _matching(residual: Node, left: pa.Table, right: pa.Table) -> tuple[int, int]:
    """Return how many of some pairs, taken by chance, satisfy what no part of a condition says, and of how many."""
    generator, rows = np.random.default_rng(0), max(left.num_rows, right.num_rows)
    pairs = []
    for table in (left, right):
        # Arrow takes rows of some encodings only.
        plain_table = pa.table({name: plain_column(table[name]) for name in table.column_names})
        pairs.append(plain_table.take(pa.array(generator.permutation(rows) % table.num_rows)))
    return matches(residual, *pairs).true_count, rows


def _spans(join: ResolvedInequality, left: pa.Table, right: pa.Table) -> Iterator[tuple[Windows, Windows] | None]:
    """Yield where the rows of both sides reach, for each part of a condition; None if that is in no numbers."""
    if join.shape is not None:
        for part in join.shape.intervals:
            left_span, right_span = _from_to(part.left, "left", left), _from_to(part.right, "right", right)
            is_strict = [
                any(end is not None and end.strict for end in met)
                for met in ((part.left[0], part.right[1]), (part.left[1], part.right[0]))
            ]
            yield _both(left_span, right_span, is_strict)
    elif join.condition.interval is not None:
        interval, left_interval = join.condition.interval, join.condition.left_interval
        touching = left_interval is None or left_interval.may_be_empty
        is_strict = [not touching or (limit is not None and limit.strict) for limit in interval.left]
        yield _both(_limited(interval, "left", left), _limited(interval, "right", right), is_strict)


def _limited(interval: MatchInterval, side: Side, rows: pa.Table) -> Windows | None:
    """Return spans between the ends of an interval, which are made of columns."""
    ends = interval.ends(side)
    first, last = (None if limit is None else rows[str(limit.value)] for limit in ends)
    # Constants count steps.
    unit = float(interval.domain.step)

    def added(limit: Limit | None) -> Floats | float:
        if limit is None or limit.column is None:
            return 0.0 if limit is None else float_of(limit.offset) * unit
        numbers = _numbers(rows[limit.column])
        assert numbers is not None
        return numbers[0]

    return _windows((first, last), (added(ends[0]), added(ends[1])), rows.num_rows)


def _both(left: Windows | None, right: Windows | None, is_strict: Sequence[bool]) -> tuple[Windows, Windows] | None:
    """Return the spans of both sides, with the half steps that whole numbers stand for."""
    if left is None or right is None:
        return None
    return left.widened((_out(not is_strict[0]), _out(not is_strict[1]))), right


def _from_to(ends: Ends, side: Side, rows: pa.Table) -> Windows | None:
    """Return spans between two ends of a predicate."""
    first, last = (None if end is None else evaluate(end.expression, **{side: rows}) for end in ends)
    added = [0.0 if end is None else float_of(end.amount) for end in ends]
    return _windows((first, last), added, rows.num_rows)


def _out(closed: bool) -> float:
    """Return how many steps further out an end of whole numbers lies than its value."""
    return 0.5 if closed else -0.5


def _windows(values: Sequence[pa.Array | None], added: Sequence[Floats | float], rows: int) -> Windows | None:
    """Return the spans between two columns of values, each with a distance added to it; None is unbounded."""
    ends: list[Floats] = []
    step = 0.0
    for column, distance, open_end in zip(values, added, (-math.inf, math.inf), strict=True):
        if column is None:
            ends.append(np.full(rows, open_end) + distance)
            continue
        numbers = _numbers(column)
        if numbers is None:
            return None
        ends.append(numbers[0] + distance)
        step = max(step, numbers[1])
    return Windows(ends[0], ends[1], step)


def _numbers(values: pa.Array | pa.ChunkedArray) -> tuple[Floats, float] | None:
    """Return values as numbers, times in seconds, and how far apart they are at least; None for other types."""
    if isinstance(values, pa.ChunkedArray):
        values = plain_column(values)
    array = plain(values)
    domain = domain_of(array.type)
    if domain is None or not domain.has_distances:
        return None
    numbers, valid = domain.numbers(array), validity(array)
    step = 0.0 if domain.floating else float(domain.step)
    return (numbers if valid is None else np.where(valid, numbers, np.nan)), step
