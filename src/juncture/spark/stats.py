"""What is known of the inputs before a join runs, and the jobs that it takes to know more.

Nothing is looked at twice: what the caller gives, or files say in their footers, is taken for granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.local.pruning import extent_of
from juncture.planner.stats import SideStats, Stats
from juncture.spark.files import FileSide
from juncture.spark.partition import Sample
from juncture.spark.sides import FrameSide, Side
from juncture.spark.transport import packets
from juncture.spark.worker.keys import Coding, place
from juncture.spark.worker.packets import Content, raise_error, read_packets
from juncture.spark.worker.pick import Pick
from juncture.spec.asof import ResolvedAsof

__all__ = ["Survey", "is_variable", "known_side", "size_of", "width_of"]

Name = Literal["left", "right"]

_VARIABLE_BYTES = 20
"""Bytes of a string or a nested value that nobody has measured: Spark's own guess."""
_SAMPLE_ROWS = 20_000
_SAMPLE_ROWS_PER_PARTITION = 100
_LEFT_WEIGHT = 2.0
"""What a left row costs in a partition, in right rows: it is sorted, and it comes out again."""


class Survey:
    """What is known of two inputs so far.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    given
        What the caller knows.

    Attributes
    ----------
    stats
        What is known.
    jobs
        The jobs that have run for it, in words.
    """

    def __init__(self, join: ResolvedAsof, left: Side, right: Side, given: Stats | None) -> None:
        self._join = join
        self._sides: dict[Name, Side] = {"left": left, "right": right}
        given = given or Stats()
        self.stats = Stats(left=known_side(left, given.left), right=known_side(right, given.right))
        if isinstance(left, FileSide) and given.left.extent is None:
            ends = left.ends(join.left_on)
            if ends is not None:
                self._learn("left", "Parquet footers", extent=extent_of(ends, join.domain))
        self.jobs: list[str] = []

    def count(self) -> None:
        """Count the rows of both sides where they are not known, and look closer at the left ones, in one job."""
        unknown = [name for name in self._sides if self._of(name).rows is None]
        if not unknown:
            return
        # A side that is small enough to be sent is measured first, and limits the other one. That is mostly the left.
        totals = reduce(DataFrame.crossJoin, [self._totals(name, closely=name == "left") for name in unknown]).toArrow()
        for name in unknown:
            self._learn(name, "count", rows=totals[f"{name}_rows"][0].as_py())
            self._learn_more(name, totals)
        self.jobs.append(f"counted {'both sides' if len(unknown) == 2 else f'the {unknown[0]} side'}")

    def measure(self, name: Name) -> None:
        """Measure a side's strings and nested values, which may be far larger than assumed, in one job."""
        if isinstance(self._sides[name], FrameSide) and self._of(name).sources.get("row_bytes") == "assumed":
            self._learn_more(name, self._totals(name, closely=True).toArrow())
            self.jobs.append(f"measured the {name} side")

    def narrow(self, name: Name, side: Side) -> None:
        """Take note that some rows of a side have been left out."""
        self._sides[name] = side
        if isinstance(side, FileSide):
            self._learn(name, "Parquet footers", rows=side.footers.num_rows)

    def _totals(self, name: Name, *, closely: bool) -> DataFrame:
        """Return the number of rows of a side; the bytes of its values whose size varies, and the ends of ``on``."""
        side = self._sides[name]
        assert isinstance(side, FrameSide)
        frame = side.frame.toDF(*(f"c{i}" for i in range(len(side.schema))))
        figures = {"rows": F.count(F.lit(1))}
        if closely:
            sizes = [
                size_of(F.col(f"c{i}"), field.type) for i, field in enumerate(side.schema) if is_variable(field.type)
            ]
            on = F.col(f"c{side.schema.names.index(self._columns(name)[1])}")
            usable = F.when(~F.isnan(on), on) if self._join.domain.kind == "float" else on
            figures |= {"least": F.min(usable), "greatest": F.max(usable)}
            figures["bytes"] = reduce(Column.__add__, (F.coalesce(F.sum(size), F.lit(0)) for size in sizes), F.lit(0))
        return frame.agg(*(column.alias(f"{name}_{figure}") for figure, column in figures.items()))

    def _learn_more(self, name: Name, totals: pa.Table) -> None:
        if f"{name}_bytes" not in totals.column_names:
            return
        rows, size = (totals[f"{name}_{figure}"][0].as_py() for figure in ("rows", "bytes"))
        if self._of(name).sources.get("row_bytes") == "assumed":
            schema = self._sides[name].schema
            fixed = sum(width_of(field.type) for field in schema if not is_variable(field.type))
            self._learn(name, "measured", row_bytes=fixed + -(-size // max(rows, 1)))
        if self._of(name).extent is None:
            ends = pa.concat_arrays([totals[f"{name}_{end}"].combine_chunks() for end in ("least", "greatest")])
            self._learn(name, "measured", extent=extent_of(ends, self._join.domain))

    def sample(self, partitions: int) -> Sample:
        """Sample keys and ``on`` of both sides, whose rows have been counted, in one job.

        Parameters
        ----------
        partitions
            How many are to be balanced by it.

        Raises
        ------
        DataError
            If a file cannot be read.
        """
        wanted = max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_PARTITION * partitions)
        left, right = (self._picked(name, wanted) for name in self._sides)
        found: dict[Content, list[pa.Table]] = {Content.LEFT: [], Content.RIGHT: []}
        for packet in read_packets(left.unionAll(right).toArrow().to_batches()):
            if packet.content is Content.ERROR:
                raise_error(packet)
            found[packet.content].append(packet.rows)
        parts = [self._weighed(name, tables) for name, tables in zip(self._sides, found.values(), strict=True)]
        sample = Sample(*(np.concatenate([getattr(part, field) for part in parts]) for field in _FIELDS))
        picked = sum(table.num_rows for tables in found.values() for table in tables)
        self.jobs.append(f"sampled {picked:,} rows of both sides")
        return sample

    def _picked(self, name: Name, wanted: int) -> DataFrame:
        side, rows = self._sides[name], self._of(name).rows
        assert rows is not None
        by, on = self._columns(name)
        fraction = min(1.0, wanted / max(rows, 1))
        frame, feed = side.rows(list(dict.fromkeys((*by, on))), coded=by)
        if isinstance(side, FrameSide) and fraction < 1:
            frame, fraction = frame.sample(fraction=fraction, seed=0), 1.0
        return packets(frame, Pick(feed, Content.LEFT if name == "left" else Content.RIGHT, fraction))

    def _weighed(self, name: Name, tables: Sequence[pa.Table]) -> Sample:
        """Return picked rows of one side as a sample, and learn from it."""
        picked = sum(table.num_rows for table in tables)
        by, on = self._columns(name)
        coding = Coding.of(self._join)
        places = [place(table, by, on, coding) for table in tables if table.num_rows]
        hashes = np.concatenate([np.zeros(0, np.uint64), *(hashes[valid] for hashes, _, valid in places)])
        codes = np.concatenate([np.zeros(0, np.int64), *(codes[valid] for _, codes, valid in places)])
        hottest = int(np.unique(hashes, return_counts=True)[1].max(initial=0))
        self._learn(name, f"sample of {picked:,} rows", hottest_share=hottest / max(picked, 1))
        weight = (self._of(name).rows or 0) / max(picked, 1) * (_LEFT_WEIGHT if name == "left" else 1.0)
        return Sample(hashes, codes, np.full(len(hashes), weight))

    def _columns(self, name: Name) -> tuple[tuple[str, ...], str]:
        join = self._join
        return (join.left_by, join.left_on) if name == "left" else (join.right_by, join.right_on)

    def _of(self, name: Name) -> SideStats:
        return self.stats.left if name == "left" else self.stats.right

    def _learn(self, name: Name, source: str, **figures: Any) -> None:
        """Note figures of a side, and where they come from."""
        side = self._of(name)
        sources = {**side.sources, **dict.fromkeys(figures, source)}
        self.stats = replace(self.stats, **{name: replace(side, **figures, sources=sources)})


_FIELDS = ("hashes", "codes", "weights")


def known_side(side: Side, given: SideStats) -> SideStats:
    """Return what is known of an input without a job."""
    figures: dict[str, Any] = {}
    sources = {**dict.fromkeys(("rows", "row_bytes", "hottest_share", "keys"), "given"), **given.sources}
    if given.row_bytes is None:
        variable = any(is_variable(field.type) for field in side.schema)
        figures["row_bytes"] = sum(width_of(field.type) for field in side.schema)
        sources["row_bytes"] = "assumed" if variable else "by its types"
    if isinstance(side, FileSide):
        rows = side.footers.num_rows
        if given.row_bytes is None:
            figures["row_bytes"] = max(figures["row_bytes"], side.footers.bytes_of(side.schema.names) // max(rows, 1))
        figures["rows"] = rows
        sources["rows"] = "Parquet footers"
    return replace(given, **figures, sources=sources)


def width_of(data_type: pa.DataType) -> int:
    """Return about how many bytes a value takes."""
    return _VARIABLE_BYTES if is_variable(data_type) else max(1, int(data_type.bit_width) // 8)


def is_variable(data_type: pa.DataType) -> bool:
    """Tell types whose values differ in size."""
    try:
        return bool(pat.is_nested(data_type) or pat.is_dictionary(data_type) or data_type.bit_width < 0)
    except ValueError:
        return True


def size_of(value: Column, data_type: pa.DataType) -> Column:
    """Return the bytes of a value whose size varies."""
    text = F.to_json(F.struct(value)) if pat.is_nested(data_type) else value
    return F.octet_length(text).cast("long")
