"""Range, overlap and predicate joins in-process: the right side sorted, and searched for what each left row asks.

What is equal and a value that is limited make the matches of a left row a span of the sorted right rows. A second value
that is limited is found in that span by a tree: the right intervals that overlap a left one start before it ends, which
makes them a span, and end after it starts, which the tree finds. What the condition says besides is looked at pair by
pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.hashes import KeyHashes
from juncture.local.inequality.aggregate import aggregate_columns, stream_aggregates, tie_orderer
from juncture.local.inequality.block_nested_loop import BlockProber
from juncture.local.inequality.conditions import CodedCondition
from juncture.local.inequality.external_merge import stream_merged
from juncture.local.inequality.index import BuildKeys, read_sorted_index
from juncture.local.inequality.key_ranges import KeyRangeRules
from juncture.local.inequality.own_interval import check_interval, check_intervals
from juncture.local.inequality.probe import InequalityProber, Prepare, ProbeKeys, run
from juncture.local.inequality.prune import within_reach
from juncture.local.output.pairs import Prober
from juncture.local.output.payload import Holder, Payload
from juncture.local.output.residual import checking
from juncture.predicate.decompose.join_condition import sorting_value
from juncture.predicate.language.nodes import columns
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.condition import JoinCondition, ResolvedInequality

InequalityAlgorithm = Literal["binary_search", "interval_tree", "block_nested_loop", "nested_loop", "external_merge"]


def execute(
    join: ResolvedInequality, left: Source, right: Source, algorithm: InequalityAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right
        The two sides.
    algorithm
        ``"binary_search"`` sorts the right side by the equal keys and one bounded value; ``"interval_tree"`` also uses
        a second bounded value; ``"block_nested_loop"`` skips pairs of blocks by the bounds of their columns;
        ``"nested_loop"`` compares all pairs, as a reference; ``"external_merge"`` sorts both sides on disk, by a band
        or by the hash of the equal keys, and holds the right one block by block.
    context
        What the join may use. All but ``"external_merge"`` hold the right side, whatever it takes.

    Raises
    ------
    DataError
        If an interval starts after its end, or a file cannot be read.
    PlanError
        If the right side has too many rows, or ``"external_merge"`` cannot hold those that one left row aggregates.
    StateError
        If there is no room to spill.

    Notes
    -----
    Time O((L + R) log R) and the output, and that of the predicate for all candidates unless the rest says it all.
    Holds 12 bytes of each right row (48 while it sorts them), 9 more with a second value, and the right columns that
    the output shows or the predicate reads, beside a few batches. Row groups of the right side that no window of
    constant ends reaches are not read. Columns of intervals of the left side are read twice, so that wrong ones are
    found before anything is yielded. On disk both sides are written once, and those left rows again that reach several
    blocks; the output is put in the order of the left rows there.
    """
    right = within_reach(join, left, right, context)
    if algorithm == "external_merge":
        in_memory = partial(_in_memory, algorithm=_of_pieces(join))
        return stream_merged(join, left, right, _key_ranges, in_memory, context)
    return _in_memory(join, left, right, context.streaming(UNDER_WAY_SHARE), algorithm=algorithm)


def _in_memory(
    join: ResolvedInequality,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    algorithm: InequalityAlgorithm,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side is held."""
    used = _used(join.condition, algorithm)
    looked_at = aggregate_columns(join) + (() if used.exact else join.compared("right"))
    return run(
        join, left, right, _prepared(join, used, left, right, algorithm), context,
        checked=looked_at, emit=partial(stream_aggregates, join, right) if join.aggregates else None,
    )  # fmt: skip


def _used(condition: JoinCondition, algorithm: InequalityAlgorithm) -> JoinCondition:
    """Return what an algorithm looks at of a condition that a predicate says in full; of others there is no less."""
    if condition.predicate is None:
        return condition
    if algorithm in ("block_nested_loop", "nested_loop"):
        return condition.unbounded(sorting_value(columns(condition.predicate)))
    return condition.only_first() if algorithm == "binary_search" else condition


def _of_pieces(join: ResolvedInequality) -> InequalityAlgorithm:
    """Return what joins pieces in memory."""
    condition = join.condition
    if condition.second is not None:
        return "interval_tree"
    has_order = condition.equalities or join.left_by or condition.first is not None or condition.predicate is None
    return "binary_search" if has_order else "block_nested_loop"


def _prepared(
    join: ResolvedInequality, used: JoinCondition, left: Source, right: Source, algorithm: InequalityAlgorithm
) -> Prepare:
    """Return what checks the intervals, and reads the right side."""

    def prepare(ranked: bool, holder: Holder, context: JoinContext) -> Callable[[Payload], Prober]:
        coded = CodedCondition.of(join, used)
        coded = coded.by_rank(right) if ranked else coded
        check_intervals(used.left_interval, left, "left", context)
        index = read_sorted_index(
            right, join.compared("right"), join.right_by, coded.coded, coded.key_codes(), context,
            has_tree=used.second is not None, order_ties=tie_orderer(join, right, context), holder=holder,
        )  # fmt: skip

        def make(payload: Payload) -> Prober:
            node = None if used.exact else used.predicate
            check = None if node is None else checking(node, payload, index.rows_at)
            if algorithm == "block_nested_loop":
                assert node is not None
                assert check is not None
                return BlockProber(node, index, payload, join.compared("left"), check)
            return InequalityProber(
                index,
                join.compared("left"),
                join.left_by,
                coded.probe_keys,
                by_row=used.predicate is not None,
                nested=algorithm == "nested_loop",
                check=check,
                windows={name: coded.in_window(name).probe_keys for name in join.window_names},
            )

        return make

    return prepare


def _key_ranges(join: ResolvedInequality) -> KeyRangeRules:
    """Return where rows lie: by a band, else by a hash of what is equal, else by a single limit."""
    coded = CodedCondition.of(join)
    condition, by_row = coded.condition, coded.condition.predicate is not None
    if by_row and coded.has_keys and not condition.is_bounded:
        return _key_ranges_by_hash(coded)
    first, interval = coded.first, condition.left_interval
    return KeyRangeRules(
        coded.coded,
        coded.probe_keys,
        rough=None if first is None or by_row else lambda batch: first.encoding.rough(first.right_values(batch)),
        check=None if interval is None else lambda batch, row: check_interval(interval, batch, "left", row),
        by_row=by_row,
    )


def _key_ranges_by_hash(coded: CodedCondition) -> KeyRangeRules:
    hashes = KeyHashes(*coded.key_types, nulls_equal=coded.join.nulls_equal)

    def code(batch: pa.RecordBatch, _first_row: int) -> BuildKeys:
        codes, usable = hashes.of(coded.keys(batch, "right"))
        return BuildKeys([], codes.view(np.int64), valid=usable)

    def seek(batch: pa.RecordBatch) -> ProbeKeys:
        codes, usable = hashes.of(coded.keys(batch, "left"))
        return ProbeKeys([], codes.view(np.int64), codes.view(np.int64), possible=usable)

    return KeyRangeRules(code, seek, by_row=True)
