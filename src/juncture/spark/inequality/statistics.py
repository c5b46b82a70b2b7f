"""Statistics of the inputs of range, overlap and predicate joins, and the jobs that measure them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.inequality.bins import SampledSide
from juncture.spark.sql import Pairs, RangeColumns, key_hash
from juncture.spark.statistics import SAMPLE_ROWS, Statistics
from juncture.spark.tasks.cuts import Cuts, KeyRanges
from juncture.spec.schema import Side


def copies(ranges: KeyRanges, cuts: Cuts) -> float:
    """Return the average number of partitions of a row."""
    first, last = ranges.partitions(cuts)
    return float(np.mean(last - first)) + 1.0 if len(first) else 1.0


class InequalityStatistics(Statistics):
    """The statistics of two inputs and of the spans of their rows."""

    def spans(self, pairs: Pairs, *, measured: bool) -> tuple[SampledSide, SampledSide]:
        """Sample the keys and spans of both sides in one SQL job.

        With `measured`, also find the longest of all rows, which doubles the time; otherwise the longest sampled row is
        used.
        """
        parts = [self._placed(name, pairs) for name in self.sides]
        table = reduce(DataFrame.unionAll, [*parts, *(self._lengths(pairs) if measured else ())]).toArrow()
        left, right = (self._sampled(name, table, pairs) for name in self.sides)
        picked = pc.sum(pc.is_in(table["side"], pa.array(list(self.sides)))).as_py() or 0
        self.jobs.append(f"sampled {picked:,} rows of both sides{', and measured the longest' if measured else ''}")
        return left, right

    def measured(self, pairs: Pairs, sides: tuple[SampledSide, SampledSide]) -> tuple[SampledSide, SampledSide]:
        """Return samples with the length of the longest of all rows, in one job unless known."""
        parts = self._lengths(pairs)
        if not parts:
            return sides
        table = reduce(DataFrame.unionAll, parts).toArrow()
        self.jobs.append("measured the longest rows")
        left, right = (
            replace(side, widest=_longest(name, table, side.widest))
            for name, side in zip(self.sides, sides, strict=True)
        )
        return left, right

    def _placed(self, name: Side, pairs: Pairs) -> DataFrame:
        """Return the sampled spans of a side; without spans, all rows have the same value."""
        frame = pairs.left if name == "left" else pairs.right
        keys = [pair[0 if name == "left" else 1] for pair in pairs.keys]
        ends = (F.lit(0) if pairs.spans is None else F.col(f"{name[0]}{end}") for end in ("first", "last"))
        first, last = (end.cast("double") for end in ends)
        columns = [F.lit(name).alias("side"), key_hash(keys).alias("key"), first.alias("first"), last.alias("last")]
        return self.some(name, frame, SAMPLE_ROWS).select(*columns)

    def _lengths(self, pairs: Pairs) -> list[DataFrame]:
        """Measure the longest rows of each side where unknown."""
        parts = []
        for name in self.sides:
            if pairs.spans is None or not _has_length(name, pairs.spans):
                continue
            frame = pairs.left if name == "left" else pairs.right
            figures = [F.lit(f"widest {name}").alias("side"), F.lit(0).cast("long").alias("key")]
            widest = frame.agg(F.max(_length(name[0], pairs)).alias("last"))
            parts.append(widest.select(*figures, F.lit(0.0).alias("first"), "last"))
        return parts

    def _sampled(self, name: Side, table: pa.Table, pairs: Pairs) -> SampledSide:
        mine = table.filter(pc.equal(table["side"], name))
        usable = mine.filter(pc.and_(mine["first"].is_valid(), mine["last"].is_valid()))
        share = usable.num_rows / max(mine.num_rows, 1)
        if pairs.keys:
            self.learn_keys(name, usable["key"].to_numpy(), mine.num_rows)
        keys, first, last = (usable[column].to_numpy() for column in ("key", "first", "last"))
        known = pairs.spans.width if pairs.spans is not None and name == "left" else None
        rows = float(self.of(name).rows or 0) * share
        side = SampledSide(keys, first, last, rows, widest=math.nextafter(known or 0.0, math.inf))
        if known is None:
            side = replace(side, widest=math.nextafter(float(side.lengths.max(initial=0.0)), math.inf))
        return replace(side, widest=_longest(name, table, side.widest))


def _has_length(name: Side, spans: RangeColumns) -> bool:
    """Return whether the lengths of a side's rows must be measured."""
    if name == "right":
        return not spans.are_points
    # Rounding may move the ends of floats apart.
    return spans.width is None or spans.is_real


def _longest(name: Side, table: pa.Table, otherwise: float) -> float:
    """Return the measured length of the longest row of a side, or a default."""
    longest = table.filter(pc.equal(table["side"], f"widest {name}"))["last"].drop_null().to_pylist()
    return math.nextafter(longest[0], math.inf) if longest else otherwise


def _length(side: str, pairs: Pairs) -> Column:
    """Return the length of a side's spans."""
    assert pairs.spans is not None
    first, last = F.col(f"{side}first"), F.col(f"{side}last")
    if pairs.spans.is_real:
        # The difference of equal infinities would be NaN.
        return F.when(last > first, last.cast("double") - first.cast("double")).otherwise(F.lit(0.0))
    return F.when(first.isNotNull(), F.coalesce(F.try_subtract(last, first).cast("double"), F.lit(2.0**64)))
