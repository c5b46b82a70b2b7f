"""The inputs of an in-process join, and what is known of them before it runs: what they declare, and some rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import array_of, plain_column, raw_values
from juncture.columnar.key_encoding import form_of
from juncture.columnar.key_table import counts_steps
from juncture.columnar.types import is_fixed
from juncture.errors import PlanError
from juncture.inputs.file_tables import open_files
from juncture.inputs.files import Files
from juncture.inputs.frames import numbered
from juncture.inputs.kinds import kind_of
from juncture.inputs.tables import InputTable, read_table
from juncture.kernels.merge import DISORDER, order_of_values
from juncture.local.computed import with_computed
from juncture.local.inequality.selectivity import reach_columns
from juncture.local.keys import equal_columns
from juncture.local.output.show import taken
from juncture.planner.statistics import KeySample, SideStats, combined, sampled_from
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.scan import ends_of, ends_of_column, extent_of
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.spill import MEMORY_BYTES as SPOOLED_BYTES
from juncture.runtime.spill import spooled
from juncture.runtime.take import take
from juncture.runtime.threads import SIZES
from juncture.runtime.working_types import working_join, working_source
from juncture.spec.condition import ResolvedInequality
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

SAMPLE_ROWS = 20_000
"""How many rows of a side are looked at, at most."""

_FEW_ROWS, _FEW_BYTES = 10_000, 16 << 20
"""Rows and bytes of a table that any algorithm joins in about the time of a look at it."""

_ROWS_PER_SAMPLED = 100
"""Rows of a table in memory for each that a brief look samples, so that the look takes a small part of the join."""

_SAMPLE_ROWS_LEAST = 200
"""Rows of a sample below which it is not worth the calls. Any algorithm joins so small a table in little time."""

_PARTS_MOST = 16  # in how many parts of a side

_SAMPLE_BYTES = 4 << 20
"""About how much is read of columns that are measured: few wide rows suffice for an estimate."""


_INTEGER_TYPES = {each.id for each in (pa.int64(), pa.timestamp("s"), pa.duration("s"))}


class Input:
    """One input, whose schema is known before it is read; a stream is buffered when it is read."""

    def __init__(self, table: Any, side: Side, slice_rows: int = SIZES.slice_rows) -> None:
        self._side, self._slice_rows = side, slice_rows
        self._is_read = False
        self._source: Source | None = None
        if not isinstance(table, ParquetSource):
            table = read_table(table, side) if kind_of(table, side) == "arrow" else open_files(Files.of(table))
        if isinstance(table, InputTable):
            self.input_table = table
        elif table.schema.names:
            self.input_table, self._source = InputTable(schema=table.schema), table
        else:
            self.input_table = read_table(pa.table({"": pa.nulls(table.num_rows)}).select([]), side)
        if self.input_table.table is not None:
            self._source = TableSource(self.input_table.table, slice_rows)
        # Whether the number of rows is known before the input is read.
        self.is_counted = self._source is not None

    @property
    def is_small(self) -> bool:
        """Whether this is a table in memory that any algorithm joins in about the time of a look at it."""
        return isinstance(self._source, TableSource) and _is_small(self._source)

    def sample(self, join: Resolved, side: Side, user_stats: SideStats, *, brief: bool = False) -> InputSample:
        """Return what is known before the join runs: of a stream, what the caller says."""
        if self._source is None:
            return InputSample(combined(user_stats, SideStats()))
        return sample_input(join, side, with_computed(self._source, join, side), user_stats, brief=brief)

    def refreshed_stats(self, join: Resolved, side: Side, stats: SideStats, source: Source) -> SideStats:
        """Return what is known once the input can be read: a stream has been counted, whatever was said of it."""
        if self._source is not None:
            return stats
        return combined(stats, self._counted(join, side, source, "count"))

    def declared(self, join: Resolved, side: Side) -> SideStats:
        """Return what is known without a look at any row: nothing of a stream."""
        if self._source is None:
            return SideStats()
        where = "Parquet footers" if isinstance(self._source, ParquetSource) else "count"
        return self._counted(join, side, self._source, where)

    @staticmethod
    def _counted(join: Resolved, side: Side, source: Source, where: str) -> SideStats:
        row_bytes = with_computed(source, join, side).bytes_of(join.needed(side)) // max(source.num_rows, 1)
        return SideStats(
            rows=source.num_rows, row_bytes=row_bytes, provenance=dict.fromkeys(("rows", "row_bytes"), where)
        )

    def source(self, context: JoinContext) -> Source:
        """Return the input as a source that can be read again; raise PlanError for a stream that has been read."""
        if self._source is not None:
            return self._source.within(context.memory)
        if self.input_table.is_stream and self._is_read:
            raise PlanError(
                f"The {self._side} table is a reader that an earlier execute() has consumed. Plan the join again with "
                "a new reader.",
                name="JN-READER-CONSUMED",
            )
        self._is_read = True
        assert self.input_table.batches is not None
        memory = MemoryBudget(min(SPOOLED_BYTES, context.memory.total_bytes // 16))
        schema, batches = numbered(self.input_table.schema), self.input_table.batches()
        return spooled(schema, batches, context.spill, memory, self._slice_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied; raise PlanError for a stream."""
        if self._source is None:
            raise PlanError(
                f"The plan cannot be pickled or copied, since the {self._side} table is a reader of this process. "
                "Pass a table, such as reader.read_all(), or a path.",
                name="JN-PLAN-PICKLE",
            )
        return vars(self)


@dataclass(frozen=True)
class InputSample:
    """What a sample of a side has shown."""

    stats: SideStats
    rows: pa.Table | None = None  # some rows, with the columns that were needed; None if none were


def sample_input(
    join: Resolved, side: Side, source: Source, user_stats: SideStats, *, brief: bool = False
) -> InputSample:
    """Return what is known of a side: what it declares, what a sample shows, and what the caller states.

    Statistics of the caller (`user_stats`) are not collected again, but yield to what the side declares. With `brief`,
    at most a hundredth of the rows of a table in memory is sampled, and none of a small one.

    Reads footers, and of at most 16 parts 20,000 rows in all.
    """
    if brief and isinstance(source, TableSource) and (stats := _brief_stats(join, side, source)) is not None:
        return InputSample(combined(user_stats, stats))
    join = working_join(join)
    source = working_source(source, join.schema(side))
    sampler = _Sampler(join, side, source)
    sampler.declared(brief=brief)
    most = SAMPLE_ROWS
    if brief and not isinstance(source, ParquetSource):
        sampler.check_order_of_all()
        # Only joins by inequalities run in another way if many pairs match.
        is_sampled = isinstance(join, ResolvedInequality)
        most = min(SAMPLE_ROWS, source.num_rows // _ROWS_PER_SAMPLED) if is_sampled else 0
    if most >= _SAMPLE_ROWS_LEAST:
        sampler.sampled(user_stats, most)
    return InputSample(combined(user_stats, SideStats(**sampler.figures, provenance=sampler.provenance)), sampler.rows)


def _brief_stats(join: Resolved, side: Side, source: TableSource) -> SideStats | None:
    """Return what decides how a table is joined, without a sample; None for a large one of a join by inequalities."""
    is_small = _is_small(source)
    if not is_small and isinstance(join, ResolvedInequality):
        return None
    # The range of left keys is only explained.
    key_range = _key_range(join, side, source) if side == "right" else None
    if is_small:
        return SideStats(rows=source.num_rows, key_range=key_range)
    row_bytes = source.bytes_of(join.needed(side)) // max(source.num_rows, 1)
    is_sorted = _is_sorted(source, on_columns(join, side))
    return SideStats(rows=source.num_rows, row_bytes=row_bytes, key_range=key_range, is_sorted=is_sorted)


def _is_small(source: TableSource) -> bool:
    # The buffers of a slice may be larger than its rows, but take a hundredth of the time to add up.
    return source.num_rows < _FEW_ROWS and source.table.get_total_buffer_size() < _FEW_BYTES


def _is_sorted(source: TableSource, on: Sequence[str]) -> bool | None:
    """Return whether rows ascend by a column, where that takes a pass over 64-bit values, or a part of one."""
    values = source.column(on[0]) if len(set(on)) == 1 else None
    if values is None or values.type.id not in _INTEGER_TYPES or values.null_count:
        return None
    source.orders[on[0]] = order = order_of_values(raw_values(values, np.int64), 0, len(values))
    return not order & DISORDER


class _Sampler:
    """The sampling of a side: figures, where each comes from, and the sampled rows."""

    def __init__(self, join: Resolved, side: Side, source: Source) -> None:
        self.figures: dict[str, Any] = {}
        self.provenance: dict[str, str] = {}
        self.rows: pa.Table | None = None
        self._join, self._side, self._source = join, side, source
        self._by = join.left_by if side == "left" else join.right_by
        self._is_inequality = isinstance(join, ResolvedInequality)
        self._equalities = join.condition.equalities if isinstance(join, ResolvedInequality) else ()
        self._on = on_columns(join, side)

    def declared(self, *, brief: bool) -> None:
        """Learn what the side says without a row being read; if brief, only what decides how tables are joined."""
        source = self._source
        is_file = isinstance(source, ParquetSource)
        name = "Parquet footers" if is_file else "Arrow table"
        self._learn(name, rows=source.num_rows)
        row_bytes = source.bytes_of(self._join.needed(self._side)) // max(source.num_rows, 1)
        # In files, numbers that come often take less than they do in memory.
        row_bytes = max(row_bytes, self._fixed_bytes()) if is_file else row_bytes
        self._learn(f"{name}, columns needed", row_bytes=row_bytes)
        if (key_range := _key_range(self._join, self._side, source)) is not None:
            self._learn(name, key_range=key_range)
        if brief and isinstance(source, TableSource):
            return
        nulls = [source.nulls(column) for column in dict.fromkeys((*self._by, *self._on))]
        null_counts = [count for count in nulls if count is not None]
        if null_counts and len(null_counts) == len(nulls):
            self._learn(name, null_rows=max(null_counts))
        if self._on:
            self._learn_on_range(name, [source.ends(column) for column in self._on])
        if len(set(self._on)) == 1 and source.is_declared_sorted(self._on[0]):
            self._learn(f"{name}, not checked", is_sorted=True)
        elif len(set(self._on)) == 1 and not self._is_inequality and source.has_descent(self._on[0]):
            self._learn(name, is_sorted=False)

    def check_order_of_all(self) -> None:
        """Learn whether the rows of a table ascend."""
        source = self._source
        if "is_sorted" in self.figures or not isinstance(source, TableSource):
            return
        if (is_sorted := _is_sorted(source, self._on)) is not None:
            self._learn(sampled_from(source.num_rows, source.num_rows), is_sorted=is_sorted)

    def sampled(self, user_stats: SideStats, most: int) -> None:
        """Estimate missing figures from a number of rows at most."""
        self.check_order_of_all()
        wants_keys = bool(self._by or self._equalities) and None in (
            user_stats.distinct_keys,
            user_stats.hottest_key_share,
        )
        unknown = [
            name for name in ("on_range", "is_sorted") if name not in self.figures and getattr(user_stats, name) is None
        ]
        wants_on = bool(self._on and unknown)
        coded = self._variable() if isinstance(self._source, ParquetSource) else []
        if coded and self._source.num_rows:
            self._measure(coded)
        # A join by inequalities is estimated by the values of sampled rows.
        reads_on = wants_on or (wants_keys and self._is_inequality)
        match_spans = (*(self._by if wants_keys else ()), *(self._on if reads_on else ()))
        columns = list(dict.fromkeys((*match_spans, *reach_columns(self._join, self._side))))
        if not columns or not self._source.num_rows:
            return
        self.rows = rows = self._some(columns, most)
        name = self._name(rows)
        is_even = not isinstance(self._source, ParquetSource)
        if wants_keys and (counts := _counts(self._keys(rows))) is not None:
            sample = KeySample(counts, rows.num_rows, self._source.num_rows, name, is_even)
            figures, sources = sample.figures()
            for figure in figures:
                # What the caller says, or the side declares, is not gathered again.
                if getattr(user_stats, figure) is None and figure not in self.figures:
                    self._learn(sources[figure], **{figure: figures[figure]})
        if wants_on:
            # What Arrow cannot compare, such as decimals that end before the point, is left alone.
            with suppress(pa.ArrowNotImplementedError):
                self._check_order(rows, name)

    def _keys(self, rows: pa.Table) -> list[pa.Array]:
        """Return what has to be equal: columns, and what a predicate makes of them."""
        equal = equal_columns(self._equalities, self._side, rows)
        return [*(plain_column(rows.column(name)) for name in self._by), *equal]

    def _check_order(self, rows: pa.Table, name: str) -> None:
        if "on_range" not in self.figures:
            self._learn_on_range(name, [ends_of(plain_column(rows.column(column))) for column in self._on])
        if len(set(self._on)) == 1 and "is_sorted" not in self.figures:
            values = plain_column(rows.column(self._on[0])).drop_null()
            ascends = pc.all(pc.less_equal(values[:-1], values[1:]), min_count=0).as_py()
            is_whole = rows.num_rows == self._source.num_rows
            # Of tables in memory, the algorithm that gains by order checks all rows, so that a sample suffices.
            if not ascends or is_whole or not isinstance(self._source, ParquetSource):
                self._learn(name, is_sorted=bool(ascends))

    def _measure(self, coded: Sequence[str]) -> None:
        """Correct the size of a row, since strings that come often take less in files than they do in memory."""
        rows = self._some(coded, min(SAMPLE_ROWS, _SAMPLE_BYTES // max(self.figures["row_bytes"], 1)))
        name = self._name(rows)
        variable = sum(plain_column(rows.column(column)).nbytes for column in coded)
        row_bytes = self._fixed_bytes() + variable // rows.num_rows
        if row_bytes > self.figures["row_bytes"]:
            self._learn(f"{name}, columns needed", row_bytes=row_bytes)

    def _fixed_bytes(self) -> int:
        """Return what a row takes at least: its values that are all of one size."""
        types = (self._source.schema.field(column).type for column in self._join.needed(self._side))
        return sum(data_type.bit_width // 8 for data_type in types if is_fixed(data_type))

    def _variable(self) -> list[str]:
        """Return the columns that are needed whose values are not all of one size."""
        schema = self._source.schema
        return [name for name in self._join.needed(self._side) if not is_fixed(schema.field(name).type)]

    def _name(self, rows: pa.Table) -> str:
        name = sampled_from(rows.num_rows, self._source.num_rows)
        if isinstance(self._source, ParquetSource) and rows.num_rows < self._source.num_rows:
            name += f" at the start of {min(len(self._source.part_rows), _PARTS_MOST)} row groups"
        return name

    def _some(self, columns: Sequence[str], most: int) -> pa.Table:
        """Return about a number of rows, in order."""
        source = self._source
        parts = len(source.part_rows)
        picked = range(parts) if parts <= _PARTS_MOST else np.linspace(0, parts - 1, _PARTS_MOST).astype(int).tolist()
        each = max(1, -(-most // len(picked)))
        if isinstance(source, ParquetSource):
            return pa.Table.from_batches([source.first_rows(part, columns, each) for part in picked])
        if isinstance(source, TableSource):
            in_memory = [column for name in columns if (column := source.column(name)) is not None]
            if len(in_memory) == len(columns):
                rows = array_of(_spread_rows(source.num_rows, most), pa.int64())
                return pa.table([take(column, rows) for column in in_memory], names=list(columns))
        return pa.concat_tables([rows for part in picked for rows in _by_chance(source, part, columns, each)])

    def _learn_on_range(self, name: str, ends: Sequence[pa.Array | None]) -> None:
        """Note the least start and the greatest end, if both are known."""
        domain = self._join.domain
        assert domain is not None
        extents = [None if each is None else extent_of(each, domain) for each in ends]
        first, last = extents[0], extents[-1]
        if first is not None and last is not None and first[0] <= last[1]:
            self._learn(name, on_range=(first[0], last[1]))

    def _learn(self, source: str, **figures: Any) -> None:
        self.figures |= figures
        self.provenance |= dict.fromkeys(figures, source)


def _key_range(join: Resolved, side: Side, source: Source) -> tuple[int, int] | None:
    """Return the least and the greatest key of an equality join by one column of whole numbers of steps."""
    if not join.spec.joined_as.is_lookup or len(join.left_by) != 1 or join.nulls_equal:
        return None
    types = [join.left_schema.field(join.left_by[0]).type, join.right_schema.field(join.right_by[0]).type]
    column = join.left_by[0] if side == "left" else join.right_by[0]
    if not counts_steps(types[0]) or (ends := ends_of_column(source, column)) is None or ends.null_count:
        return None
    least, greatest = form_of(*types).of(ends).to_python()
    return None if least is None or greatest is None else (least, greatest)


def on_columns(join: Resolved, side: Side) -> tuple[str, ...]:
    """Return the columns by which rows have a place: none, one, or the two ends of intervals."""
    names = join.position(side)
    is_placed = join.domain is not None and join.domain.has_distances and None not in names
    return tuple(name for name in names if name is not None) if is_placed else ()


def _by_chance(source: Source, part: int, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield some rows of a part, in order: one by chance of each of as many equal ranges."""
    total = source.part_rows[part]
    if total <= rows:
        yield from (pa.Table.from_batches([batch]) for batch in source.read(part, columns))
        return
    wanted, start = _spread_rows(total, rows), 0
    for batch in source.read(part, columns):
        first, end = np.searchsorted(wanted, (start, start + batch.num_rows))
        numbers = (wanted[first:end] - start).astype(np.int32)
        yield pa.table(taken(batch, columns, numbers), names=list(columns))
        start += batch.num_rows


def _spread_rows(total: int, count: int) -> npt.NDArray[np.int64]:
    """Return row numbers in order: one of each of as many equal ranges, at an offset that follows no period."""
    count = min(count, total)
    numbers = np.arange(count)
    # The fractional parts of multiples of the golden ratio are spread evenly.
    return np.asarray((numbers + numbers * 0.618033988749895 % 1) * (total / max(count, 1)), np.int64)


def _counts(columns: Sequence[pa.Array]) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Return how many rows each key has that is not null; None for types that Arrow does not group by."""
    keys = pa.table(list(columns), names=[str(i) for i in range(len(columns))]).drop_null()
    try:
        counted = keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    counts: np.ndarray[tuple[int], np.dtype[np.int64]] = counted.column("count_all").to_numpy()
    return counts
