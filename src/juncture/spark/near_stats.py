"""What is known of the inputs of range, overlap and predicate joins, and the jobs that it takes to know more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.planner.stats import SideStats, Stats
from juncture.spark.bins import SampledSide
from juncture.spark.bucket import key_hash
from juncture.spark.pairs import Pairs
from juncture.spark.partition import Cuts, Sample
from juncture.spark.sides import FrameSide, Side
from juncture.spark.stats import is_variable, known_side, size_of, width_of
from juncture.spark.transport import packets
from juncture.spark.worker.packets import Content, raise_error, read_packets
from juncture.spark.worker.pick import Pick
from juncture.spark.worker.places import Placed, Places
from juncture.spark.worker.spread import homes
from juncture.spec.schema import Side as Name

__all__ = ["NearSurvey", "Spread", "copies"]

_SAMPLE_ROWS = 20_000
_SAMPLE_ROWS_PER_PARTITION = 100


@dataclass(frozen=True)
class Spread:
    """A sample of where the rows of both sides lie.

    Attributes
    ----------
    left, right
        The picked rows.
    left_weight, right_weight
        How many rows each of them stands for.
    """

    left: Placed
    right: Placed
    left_weight: float
    right_weight: float

    def sample(self) -> Sample:
        """Return the rows that partitions are balanced by, where each starts."""
        sides = ((self.left, self.left_weight), (self.right, self.right_weight))
        return Sample(
            np.concatenate([placed.hashes[placed.valid] for placed, _ in sides]),
            np.concatenate([placed.first[placed.valid] for placed, _ in sides]),
            np.concatenate([np.full(np.count_nonzero(placed.valid), weight) for placed, weight in sides]),
        )


def copies(placed: Placed, cuts: Cuts) -> float:
    """Return to how many partitions a row goes, on average."""
    first, last = homes(placed, cuts)
    return float(np.mean((last - first)[placed.valid])) + 1.0 if placed.valid.any() else 1.0


class NearSurvey:
    """What is known of two inputs so far.

    Parameters
    ----------
    left, right
        The inputs.
    given
        What the caller knows.

    Attributes
    ----------
    stats
        What is known.
    jobs
        The jobs that have run for it, in words.
    """

    def __init__(self, left: Side, right: Side, given: Stats | None) -> None:
        self._sides: dict[Name, Side] = {"left": left, "right": right}
        given = given or Stats()
        self.stats = Stats(left=known_side(left, given.left), right=known_side(right, given.right))
        self.jobs: list[str] = []

    def count(self) -> None:
        """Count the rows of both sides where they are not known, and measure them, in one job."""
        unknown = [name for name in self._sides if self._of(name).rows is None]
        if not unknown:
            return
        row = reduce(DataFrame.crossJoin, [self._totals(name) for name in unknown]).toArrow()
        for name in unknown:
            rows, size = (row[f"{name}_{figure}"][0].as_py() for figure in ("rows", "bytes"))
            self._learn(name, "count", rows=rows)
            if self._of(name).sources.get("row_bytes") == "assumed":
                fixed = sum(width_of(field.type) for field in self._sides[name].schema if not is_variable(field.type))
                self._learn(name, "measured", row_bytes=fixed + -(-size // max(rows, 1)))
        self.jobs.append(f"counted {'both sides' if len(unknown) == 2 else f'the {unknown[0]} side'}")

    def spans(self, pairs: Pairs) -> tuple[SampledSide, SampledSide]:
        """Sample where the rows of both sides lie, and find the longest of each, in one job of Spark's SQL."""
        assert pairs.spans is not None
        parts: list[DataFrame] = []
        for name in self._sides:
            parts += self._placed(name, pairs)
        table = reduce(DataFrame.unionAll, parts).toArrow()
        left, right = (self._sampled(name, table, pairs) for name in self._sides)
        picked = pc.sum(pc.is_in(table["side"], pa.array(list(self._sides)))).as_py() or 0
        self.jobs.append(f"sampled {picked:,} rows of both sides, and measured the longest")
        return left, right

    def _placed(self, name: Name, pairs: Pairs) -> list[DataFrame]:
        """Return a sample of where the rows of a side lie, and beside it the longest if that is not known."""
        assert pairs.spans is not None
        frame = pairs.left if name == "left" else pairs.right
        keys = [pair[0 if name == "left" else 1] for pair in pairs.keys]
        first, last = (F.col(f"{name[0]}{end}").cast("double") for end in ("first", "last"))
        columns = [F.lit(name).alias("side"), key_hash(keys).alias("key"), first.alias("first"), last.alias("last")]
        fraction = min(1.0, _SAMPLE_ROWS / max(self._of(name).rows or 1, 1))
        picked = frame.sample(fraction=fraction, seed=0) if fraction < 1 else frame
        parts = [picked.select(*columns)]
        has_length = not pairs.spans.are_points if name == "right" else pairs.spans.width is None
        # Ends that are floats may be rounded apart.
        if has_length or (pairs.spans.is_real and name == "left"):
            figures = [F.lit(f"widest {name}").alias("side"), F.lit(0).cast("long").alias("key")]
            widest = frame.agg(F.max(_length(name[0], pairs)).alias("last"))
            parts.append(widest.select(*figures, F.lit(0.0).alias("first"), "last"))
        return parts

    def _sampled(self, name: Name, table: pa.Table, pairs: Pairs) -> SampledSide:
        assert pairs.spans is not None
        mine = table.filter(pc.equal(table["side"], name))
        usable = mine.filter(pc.and_(mine["first"].is_valid(), mine["last"].is_valid()))
        share = usable.num_rows / max(mine.num_rows, 1)
        keys, first, last = (usable[column].to_numpy() for column in ("key", "first", "last"))
        longest = table.filter(pc.equal(table["side"], f"widest {name}"))["last"].drop_null().to_pylist()
        known = pairs.spans.width if name == "left" else None
        widest = longest[0] if longest else known or 0.0
        rows = float(self._of(name).rows or 0) * share
        return SampledSide(keys, first, last, rows, math.nextafter(widest, math.inf))

    def spread(self, places: tuple[Places, Places], partitions: int) -> Spread:
        """Sample where the rows of both sides lie as tasks see them, in one job.

        Raises
        ------
        DataError
            If a file cannot be read, or an interval starts after its end.
        """
        wanted = max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_PARTITION * partitions)
        frames = [self._picked(name, place, wanted) for name, place in zip(self._sides, places, strict=True)]
        found: dict[Content, list[pa.Table]] = {Content.LEFT: [], Content.RIGHT: []}
        for packet in read_packets(frames[0].unionAll(frames[1]).toArrow().to_batches()):
            if packet.content is Content.ERROR:
                raise_error(packet)
            found[packet.content].append(packet.rows)
        placed, weights = [], []
        for name, place, tables in zip(self._sides, places, found.values(), strict=True):
            schema = pa.schema([self._sides[name].schema.field(column) for column in place.decisive])
            parts = [place.place(table) for table in tables if table.num_rows] or [place.place(schema.empty_table())]
            placed.append(_joined(parts))
            picked = sum(table.num_rows for table in tables)
            weights.append((self._of(name).rows or 0) / max(picked, 1))
        self.jobs.append(f"sampled {sum(len(part.valid) for part in placed):,} rows of both sides")
        return Spread(placed[0], placed[1], weights[0], weights[1])

    def _picked(self, name: Name, place: Places, wanted: int) -> DataFrame:
        side = self._sides[name]
        fraction = min(1.0, wanted / max(self._of(name).rows or 1, 1))
        # Without a column there would be no rows to tell apart.
        frame, feed = side.rows(list(place.decisive) or side.schema.names[:1])
        if isinstance(side, FrameSide) and fraction < 1:
            frame, fraction = frame.sample(fraction=fraction, seed=0), 1.0
        return packets(frame, Pick(feed, Content.LEFT if name == "left" else Content.RIGHT, fraction))

    def _totals(self, name: Name) -> DataFrame:
        side = self._sides[name]
        assert isinstance(side, FrameSide)
        frame = side.frame.toDF(*(f"c{i}" for i in range(len(side.schema))))
        sizes = [size_of(F.col(f"c{i}"), field.type) for i, field in enumerate(side.schema) if is_variable(field.type)]
        total = reduce(Column.__add__, (F.coalesce(F.sum(size), F.lit(0)) for size in sizes), F.lit(0))
        return frame.agg(F.count(F.lit(1)).alias(f"{name}_rows"), total.alias(f"{name}_bytes"))

    def _of(self, name: Name) -> SideStats:
        return self.stats.left if name == "left" else self.stats.right

    def _learn(self, name: Name, source: str, **figures: Any) -> None:
        side = self._of(name)
        sources = {**side.sources, **dict.fromkeys(figures, source)}
        self.stats = replace(self.stats, **{name: replace(side, **figures, sources=sources)})


def _length(side: str, pairs: Pairs) -> Column:
    """Return how long the spans of a side are."""
    assert pairs.spans is not None
    first, last = F.col(f"{side}first"), F.col(f"{side}last")
    if pairs.spans.is_real:
        # From an infinity to itself, the difference would be NaN.
        return F.when(last > first, last.cast("double") - first.cast("double")).otherwise(F.lit(0.0))
    return F.when(first.isNotNull(), F.coalesce(F.try_subtract(last, first).cast("double"), F.lit(2.0**64)))


def _joined(parts: Sequence[Placed]) -> Placed:
    fields = ("hashes", "first", "last", "valid")
    return Placed(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))
