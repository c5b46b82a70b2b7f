"""Range, overlap and predicate joins in-process: the right side sorted, and searched for what each left row asks.

What is equal and a value that is limited make the matches of a left row a span of the sorted right rows. A second value
that is limited is found in that span by a tree: the right intervals that overlap a left one start before it ends, which
makes them a span, and end after it starts, which the tree finds. What the condition says besides is looked at pair by
pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.local.inequality.aggregate import aggregate_columns, stream_aggregates, tie_orderer
from juncture.local.inequality.block_nested_loop import Blocks
from juncture.local.inequality.conditions import CodedCondition, check_intervals, points_of
from juncture.local.inequality.external_merge import KeyRangeRules, stream_merged
from juncture.local.inequality.index import BuildKeys, ProbeKeys, read_sorted_index
from juncture.local.keys import Keys
from juncture.local.output.pairs import MatchSpans, Prober
from juncture.local.output.payload import Holder, Payload
from juncture.local.output.show import checking, show
from juncture.local.prune import within_right_range
from juncture.ordered.arithmetic import TooWideError
from juncture.predicate.language.nodes import columns
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.condition import JoinCondition, ResolvedInequality
from juncture.spec.predicate_condition import sorting_value


@dataclass(frozen=True)
class Method:
    """How right rows in memory are searched."""

    # Returns the part of a condition that is searched by, if a predicate evaluates the condition in full.
    used: Callable[[JoinCondition], JoinCondition]
    nested: bool = False  # whether to compare all pairs
    blocks: bool = False  # whether to skip pairs of blocks by the bounds of their columns
    keys: Keys | None = None  # what codes the keys of both sides; None for a new table of right keys

    def condition(self, condition: JoinCondition) -> JoinCondition:
        """Return what is looked at of a condition."""
        return condition if condition.predicate is None else self.used(condition)


def _unbounded(condition: JoinCondition) -> JoinCondition:
    assert condition.predicate is not None
    return condition.unbounded(sorting_value(columns(condition.predicate)))


BINARY_SEARCH = Method(lambda condition: condition.only_first())
INTERVAL_TREE = Method(lambda condition: condition)
BLOCK_NESTED_LOOP = Method(_unbounded, blocks=True)
NESTED_LOOP = Method(_unbounded, nested=True)


def execute(
    join: ResolvedInequality, left: Source, right: Source, context: JoinContext, *, method: Method | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, batch by batch, in the order of the left rows. The right side is buffered.

    `BINARY_SEARCH` sorts the right side by the equal keys and one bounded value; `INTERVAL_TREE` also uses a second
    bounded value; `BLOCK_NESTED_LOOP` skips pairs of blocks; `NESTED_LOOP` compares all pairs, as a reference. The
    default `method` is the one that suits the condition.

    Time O((L + R) log R) and the output, and that of the predicate for all candidates unless the codes decide it.
    Buffers 12 bytes of each right row (48 while sorting), 9 more with a second value, and the right columns that the
    output shows or the predicate reads, beside a few batches. Row groups of the right side outside of all windows with
    constant ends are not read. Columns of intervals of the left side are read twice, so that wrong ones are reported
    before anything is yielded.
    """
    right = within_right_range(join, left, right, context)
    return _in_memory(join, left, right, context.streaming(UNDER_WAY_SHARE), method=method or _method_of(join))


def execute_on_disk(
    join: ResolvedInequality, left: Source, right: Source, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side does not fit in memory.

    Both sides are sorted on disk, by a band or by the hash of the equal keys, and the right one is buffered block by
    block. Both sides are written once, and left rows that match several blocks again; the output is sorted by the left
    rows on disk, too.
    """
    right = within_right_range(join, left, right, context)
    return stream_merged(join, left, right, _key_ranges, partial(_in_memory, method=_method_of(join)), context)


def _in_memory(
    join: ResolvedInequality, left: Source, right: Source, context: JoinContext, *, method: Method
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side is held."""
    used = method.condition(join.condition)
    prepared = None
    # Values that do not fit 64 bits are read again, and coded by rank.
    with suppress(TooWideError):
        prepared = _prepared(join, used, left, right, method, context, ranked=False)
    prober, payload = prepared or _prepared(join, used, left, right, method, context, ranked=True)
    context.threads.release_unused()
    if join.aggregates:
        yield from stream_aggregates(join, right, left, prober, payload, context)
    else:
        yield from show(join, left, prober, payload, context)


def _method_of(join: ResolvedInequality) -> Method:
    if join.condition.second is not None:
        return INTERVAL_TREE
    return BINARY_SEARCH if has_order(join) else BLOCK_NESTED_LOOP


def has_order(join: ResolvedInequality) -> bool:
    """Return whether keys or a bounded value bring right rows together that a left row may match."""
    condition = join.condition
    return bool(condition.equalities or join.left_by or condition.first is not None or condition.predicate is None)


def _prepared(
    join: ResolvedInequality,
    used: JoinCondition,
    left: Source,
    right: Source,
    method: Method,
    context: JoinContext,
    *,
    ranked: bool,
) -> tuple[Prober, Payload]:
    """Check the intervals, read the right side, and return what finds its rows, and its columns."""
    looked_at = aggregate_columns(join) + (() if used.exact else join.compared("right"))
    holder = Holder(right, tuple(dict.fromkeys((*join.right_payload, *looked_at))))
    if used.left_interval is not None and check_intervals(used.left_interval, left, "left", context):
        # Every left row has a point, so that none has to be looked at again.
        used = used.without_left_interval
    coded = CodedCondition.of(join, used)
    coded = coded.by_rank(right) if ranked else coded
    index = read_sorted_index(
        right, join.compared("right"), join.right_by, coded.coded, method.keys or coded.key_codes(), context,
        has_tree=used.second is not None, order_ties=tie_orderer(join, right, context), holder=holder,
    )  # fmt: skip
    payload, node = holder.finish(), None if used.exact else used.predicate
    check = None if node is None else checking(node, payload, index.rows_at)
    columns = join.compared("left")
    if method.blocks:
        assert node is not None
        assert check is not None
        blocks = Blocks(node, index, payload, check, context.threads.sizes.block_rows)
        return Prober(index, blocks.find, columns, by_row=True), payload

    def prober(coded: CodedCondition, windows: Mapping[str, Prober]) -> Prober:
        def find(batch: pa.RecordBatch) -> MatchSpans:
            passes = None if check is None else check(batch)
            return index.find(coded.probe_keys(batch), batch.num_rows, passes, nested=method.nested)

        return Prober(index, find, columns, join.left_by, used.predicate is not None, windows)

    return prober(coded, {name: prober(coded.in_window(name), {}) for name in join.window_names}), payload


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
        rough=None if first is None or by_row else lambda batch: first.rough(batch),
        check=None if interval is None else lambda batch, row: points_of(interval, batch, "left", row),
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
