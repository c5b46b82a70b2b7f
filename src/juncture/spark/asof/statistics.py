"""Statistics of the inputs of an as-of join, and the jobs that measure them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.ordered.kinds_sql import sql_domain
from juncture.planner.statistics import Stats
from juncture.runtime.zone_maps import extent_of
from juncture.spark.asof.shuffle import asof_placements
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide
from juncture.spark.statistics import FOOTERS, Statistics, balanced_by
from juncture.spark.tasks.cuts import Sample
from juncture.spark.tasks.placement import Coding
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import Side

LEFT_WEIGHT = 2.0
"""Cost of a left row if a right row costs 1: a task sorts left rows and writes them, but only streams right rows."""


class AsofStatistics(Statistics):
    """The statistics of the inputs of an as-of join."""

    def __init__(self, join: ResolvedAsof, left: SparkSide, right: SparkSide, given: Stats | None) -> None:
        super().__init__(left, right, given)
        self._join = join
        # Footers contain the minimum and maximum. Text and tuples (ranked domains) have no distances, so no extent.
        if isinstance(left, FileSide) and join.domain.has_distances:
            ends = left.ends(join.left_on)
            if ends is not None:
                self.learn("left", FOOTERS, on_range=extent_of(ends, join.domain))

    def measure(self, name: Side) -> bool:
        """Measure strings and nested values of a side if their size is assumed; return whether a job ran."""
        if not isinstance(self.sides[name], FrameSide) or self.of(name).provenance.get("row_bytes") != "assumed":
            return False
        in_detail = True  # Include sizes and the range of `on`.
        self.learn_totals(name, self.totals({name: in_detail}).toArrow())
        self.jobs.append(f"measured the {name} side")
        return True

    def narrow(self, name: Side, side: SparkSide) -> None:
        """Replace a side by one with fewer rows."""
        self.sides[name] = side
        if isinstance(side, FileSide):
            self.learn(name, FOOTERS, rows=side.footers.num_rows)

    def figures(self, name: Side, *, in_detail: bool) -> dict[str, Column]:
        """Return the aggregates that measure a side, with the range of ``on`` if `in_detail`."""
        figures = super().figures(name, in_detail=in_detail)
        if in_detail and self._join.domain.has_distances:
            on = self.column(name, self.sides[name].schema.names.index(self._columns(name)[1]))
            usable = sql_domain(self._join.domain, []).present(on)
            figures |= {"least": F.min(usable), "greatest": F.max(usable)}
        return figures

    def learn_totals(self, name: Side, totals: pa.Table) -> None:
        """Record the figures of a side from `totals`."""
        super().learn_totals(name, totals)
        if f"{name}_least" in totals.column_names and self.of(name).on_range is None:
            ends = pa.concat_arrays([totals[f"{name}_{end}"].combine_chunks() for end in ("least", "greatest")])
            self.learn(name, "measured", on_range=extent_of(ends, self._join.domain))

    def sample(self, partitions: int) -> Sample:
        """Sample keys and ``on`` of both sides in one job. Call `count` before: samples need the numbers of rows."""
        placements = asof_placements(self._join, Coding.of(self._join))
        left, right = self.key_ranges(placements, partitions, coded=[placement.by for placement in placements])
        for name, placement, sampled in zip(self.sides, placements, (left, right), strict=True):
            if placement.by:
                self.learn_keys(name, sampled.ranges.hashes, sampled.sampled_rows)
        return balanced_by(left, right, left_weight=LEFT_WEIGHT)

    def _columns(self, name: Side) -> tuple[tuple[str, ...], str]:
        join = self._join
        return (join.left_by, join.left_on) if name == "left" else (join.right_by, join.right_on)
