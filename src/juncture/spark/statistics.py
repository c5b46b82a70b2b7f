"""Statistics of the inputs, and the jobs that measure them.

Nothing is measured twice, and figures from the caller or from footers are not measured. But a side is counted before
it is buffered if only the caller states its size or the algorithm was named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.kernels.array_types import Floats, Ints
from juncture.planner.statistics import GIVEN, KeySample, SideStats, Stats, against, combined, sampled_from
from juncture.spark.exchange import packets
from juncture.spark.frames import to_arrow, union_all
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide
from juncture.spark.tasks.cuts import KeyRanges, Sample
from juncture.spark.tasks.packets import read_packets
from juncture.spark.tasks.placement import Placement
from juncture.spark.tasks.scatter import Pick
from juncture.spec.schema import Side

SAMPLE_ROWS = 20_000
"""Sampled rows of a side, unless many partitions need more."""

FOOTERS = "Parquet footers"
"""The source of figures from Parquet footers."""

_SAMPLE_ROWS_PER_PARTITION = 200
_TIMES_MOST = 4  # limit of a sample, as a multiple of its size, in case the caller's row count is far too low
_HOT_SAMPLED_LEAST = 50  # least number of sampled rows that makes a group hot
_HOT_MOST = 16
_PARTS_MOST = 32

_VARIABLE_BYTES = 20  # assumed bytes of a string or a nested value: Spark's own default


@dataclass(frozen=True)
class SampledRanges:
    """The key ranges of sampled rows that can match, the number of sampled rows, and the rows each stands for."""

    ranges: KeyRanges
    sampled_rows: int
    weight: float


class Statistics:
    """The statistics of two inputs, and the jobs that measured them; `given` are the caller's."""

    def __init__(self, left: SparkSide, right: SparkSide, user_stats: Stats | None) -> None:
        self.sides: dict[Side, SparkSide] = {"left": left, "right": right}
        user_stats = user_stats or Stats()
        self.stats = Stats(left=_jobless_stats(left, user_stats.left), right=_jobless_stats(right, user_stats.right))
        self.jobs: list[str] = []

    def of(self, name: Side) -> SideStats:
        """Return the statistics of a side."""
        return self.stats.left if name == "left" else self.stats.right

    def count(self, *detailed: Side) -> None:
        """Count both sides where unknown in one job, and measure the sizes of some (`detailed`)."""
        unknown = [name for name in self.sides if self.of(name).rows is None]
        if not unknown:
            return
        self._measure({name: name in detailed for name in unknown})
        self.jobs.append(f"counted {'both sides' if len(unknown) == 2 else f'the {unknown[0]} side'}")

    def check(self, name: Side) -> bool:
        """Count a side of unknown size, or of a size that only the caller states; return whether a job ran.

        Buffering a side of a wrong size would exhaust memory. Local DataFrames are counted only if a size is stated.
        """
        stats, side = self.of(name), self.sides[name]
        is_given = stats.is_given("rows") or stats.is_given("row_bytes")
        if not isinstance(side, FrameSide) or (stats.rows is not None and not is_given):
            return False
        if not is_given and side.frame.isLocal():
            return False
        self._measure({name: True})
        self.jobs.append(f"counted the {name} side{', whose size only the caller states' if is_given else ''}")
        return True

    def _measure(self, in_detail: Mapping[Side, bool]) -> None:
        """Count some sides in one job, and measure sizes where `in_detail`."""
        totals = to_arrow(self.totals(in_detail))
        for name in in_detail:
            self.learn(name, "count", rows=totals[f"{name}_rows"][0].as_py())
            self.learn_totals(name, totals)

    def totals(self, in_detail: Mapping[Side, bool]) -> DataFrame:
        """Return one row with the figures of some sides, from one scan of both."""
        parts: list[DataFrame] = []
        figures: list[Column] = []
        for name, is_detailed in in_detail.items():
            side = self.sides[name]
            assert isinstance(side, FrameSide)
            # These columns are null in rows of the other side.
            frame = side.frame.toDF(*(_column(name, i) for i in range(len(side.schema))))
            parts.append(frame.select("*", F.lit(1).alias(_here(name))))
            columns = self.figures(name, in_detail=is_detailed)
            figures += [column.alias(f"{name}_{figure}") for figure, column in columns.items()]
        union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        return union.agg(*figures)

    def figures(self, name: Side, *, in_detail: bool) -> dict[str, Column]:
        """Return the aggregates that measure a side: rows, and bytes if `in_detail`."""
        here = _here(name)
        if not in_detail:
            return {"rows": F.count(here)}
        fields = self.sides[name].schema
        sizes = (_size(self.column(name, i), field.type) for i, field in enumerate(fields) if _is_variable(field.type))
        sums = (F.coalesce(F.sum(F.when(F.col(here) == 1, size)), F.lit(0)) for size in sizes)
        return {"rows": F.count(here), "bytes": reduce(Column.__add__, sums, F.lit(0))}

    def column(self, name: Side, index: int) -> Column:
        """Return a column of a side, for use in `figures`."""
        return F.col(_column(name, index))

    def learn_totals(self, name: Side, totals: pa.Table) -> None:
        """Record the figures of a side from `totals`."""
        is_sure = self.of(name).provenance.get("row_bytes") not in ("assumed", GIVEN)
        if f"{name}_bytes" in totals.column_names and not is_sure:
            rows, size = (totals[f"{name}_{figure}"][0].as_py() for figure in ("rows", "bytes"))
            schema = self.sides[name].schema
            fixed = sum(_width(field.type) for field in schema if not _is_variable(field.type))
            self.learn(name, "measured", row_bytes=fixed + -(-size // max(rows, 1)))

    def learn(self, name: Side, source: str, **figures: Any) -> None:
        """Record figures of a side and their source."""
        side = self.of(name)
        declared = {figure: getattr(side, figure) if side.is_given(figure) else None for figure in figures}
        provenance = {
            **side.provenance,
            **{figure: against(source, figures[figure], declared[figure]) for figure in figures},
        }
        self.stats = replace(self.stats, **{name: replace(side, **figures, provenance=provenance)})

    def learn_keys(self, name: Side, hashes: npt.NDArray[Any], picked: int) -> None:
        """Record key statistics from the key hashes of sampled rows; rows with a null key have no hash."""
        side = self.of(name)
        if side.rows is None:
            return
        counts = np.unique(hashes, return_counts=True)[1]
        sample = KeySample(counts, picked, side.rows, sampled_from(picked, side.rows))
        figures, sources = sample.figures()
        for figure, value in figures.items():
            if getattr(side, figure) is None:
                self.learn(name, sources[figure], **{figure: value})

    def some(self, name: Side, frame: DataFrame, wanted: int) -> DataFrame:
        """Return a random sample of about `wanted` rows, limited in case the caller's row count is too low."""
        fraction = min(1.0, wanted / max(self.of(name).rows or 1, 1))
        picked = frame.sample(fraction=fraction, seed=0) if fraction < 1 else frame
        return picked.limit(_TIMES_MOST * wanted) if self.of(name).is_given("rows") else picked

    def key_ranges(
        self, placements: tuple[Placement, Placement], partitions: int
    ) -> tuple[SampledRanges, SampledRanges]:
        """Sample the key ranges of both sides as tasks compute them, in one job. Call `count` before.

        Raises `DataError` if a file cannot be read or an interval starts after its end.
        """
        by_side, wanted = dict(zip(self.sides, placements, strict=True)), sample_rows(partitions)
        sampled = (self._picked(name, placement, wanted) for name, placement in by_side.items())
        tables: dict[str | None, list[pa.Table]] = {"left": [], "right": []}
        for packet in read_packets(to_arrow(union_all(sampled)).to_batches()):
            tables[packet.side].append(packet.rows)
        picked = sum(table.num_rows for table in (*tables["left"], *tables["right"]))
        self.jobs.append(f"sampled {picked:,} rows of both sides")
        left, right = (self._sampled_ranges(name, placement, tables[name]) for name, placement in by_side.items())
        return left, right

    def _sampled_ranges(self, name: Side, placement: Placement, tables: Sequence[pa.Table]) -> SampledRanges:
        schema = pa.schema([self.sides[name].schema.field(column) for column in placement.decisive])
        parts = [table for table in tables if table.num_rows] or [schema.empty_table()]
        ranges = KeyRanges.concat([placement.ranges_of(part) for part in parts])
        picked = sum(table.num_rows for table in tables)
        return SampledRanges(ranges.take(ranges.valid), picked, (self.of(name).rows or 0) / max(picked, 1))

    def _picked(self, name: Side, placement: Placement, wanted: int) -> DataFrame:
        side, fraction = self.sides[name], 1.0
        # Spark sends no rows without a column.
        frame, feed = side.rows(list(placement.decisive) or side.schema.names[:1], placement.by)
        if isinstance(side, FrameSide):
            frame = self.some(name, frame, wanted)
        else:
            fraction = min(1.0, wanted / max(self.of(name).rows or 1, 1))
        return packets(frame, Pick(feed, name, fraction))


def hot_groups(cost: Floats, sampled: Ints, fair: float, *, least: float = 0.0) -> list[tuple[int, int]]:
    """Return the groups that would keep one task running after all others have ended, and how many parts each needs.

    `cost` and `sampled` have the cost and the sampled rows of each group, `fair` is a task's fair share of the cost,
    and groups that cost no more than `least` do not matter.
    """
    hot = np.flatnonzero((cost > max(fair, least)) & (sampled >= _HOT_SAMPLED_LEAST))
    hot = hot[np.argsort(-cost[hot], kind="stable")][:_HOT_MOST]
    return [(int(i), int(min(_PARTS_MOST, 2 * math.ceil(cost[i] / fair)))) for i in hot]


def sample_rows(partitions: int) -> int:
    """Return the number of rows of a side to sample for balancing partitions."""
    return max(SAMPLE_ROWS, _SAMPLE_ROWS_PER_PARTITION * partitions)


def balanced_by(left: SampledRanges, right: SampledRanges, *, left_weight: float = 1.0) -> Sample:
    """Return the weighted start positions that balance partitions; a left row costs `left_weight` right rows."""
    sides = ((left.ranges, left.weight * left_weight), (right.ranges, right.weight))
    return Sample(
        np.concatenate([ranges.hashes for ranges, _ in sides]),
        np.concatenate([ranges.first for ranges, _ in sides]),
        np.concatenate([np.full(len(ranges.hashes), weight) for ranges, weight in sides]),
    )


def _column(name: Side, index: int) -> str:
    """Return a column's name in a count: own names may contain dots or occur on both sides."""
    return f"{name}{index}"


def _here(name: Side) -> str:
    """Return the name of the marker column that is not null in rows of a side."""
    return f"{name}_here"


def _jobless_stats(side: SparkSide, user_stats: SideStats) -> SideStats:
    """Return the statistics of an input that need no job."""
    variable = any(_is_variable(field.type) for field in side.schema)
    row_bytes = sum(_width(field.type) for field in side.schema)
    if not isinstance(side, FileSide):
        source = "assumed" if variable else "from column types"
        measured = SideStats(row_bytes=row_bytes, provenance={"row_bytes": source})
        return combined(user_stats, measured if user_stats.row_bytes is None else SideStats())
    rows = side.footers.num_rows
    row_bytes = max(row_bytes, side.footers.bytes_of(side.schema.names) // max(rows, 1), user_stats.row_bytes or 0)
    provenance = dict.fromkeys(("rows", "row_bytes"), FOOTERS)
    return combined(user_stats, SideStats(rows=rows, row_bytes=row_bytes, provenance=provenance))


def _width(data_type: pa.DataType) -> int:
    """Return the approximate bytes of a value."""
    return _VARIABLE_BYTES if _is_variable(data_type) else max(1, int(data_type.bit_width) // 8)


def _is_variable(data_type: pa.DataType) -> bool:
    """Return whether values of a type differ in size."""
    try:
        return bool(pat.is_nested(data_type) or pat.is_dictionary(data_type) or data_type.bit_width < 0)
    except ValueError:
        return True


def _size(value: Column, data_type: pa.DataType) -> Column:
    text = F.to_json(F.struct(value)) if pat.is_nested(data_type) else value
    return F.octet_length(text).cast("long")
