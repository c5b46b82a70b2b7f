"""The two kinds of input on Spark: DataFrames, and Parquet files that tasks read themselves, by row group.

Joins by Spark's own operators read such files as a DataFrame. Spark must then read the same rows as tasks do: a
repeated file repeatedly, and with the same values from folder names.

Right rows out of reach of all left rows are not read or shuffled. The least and the greatest left ``on``, widened by
the tolerance, bound the right side. A DataFrame gets a filter, which Spark pushes down to its source. Row groups of
files out of range are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileType, LocalFileSystem
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import is_null_type
from juncture.errors import DataError, PlanError
from juncture.inputs.file_tables import check_tasks_read
from juncture.inputs.files import Files
from juncture.ordered.sql import SqlDomain, sql_domain
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.paths import FoundFile, Value, kind_at
from juncture.runtime.scan import Extent, extent_of, parts_within
from juncture.runtime.stores import path_text, spark_uri_of, uri_of
from juncture.spark.schema import arrow_schema, check_intervals, spark_schema
from juncture.spark.tasks.feed import BatchFeed, Feed, FileFeed, Unit, plain_types
from juncture.spark.tasks.scatter import encoded
from juncture.spec.asof import ResolvedAsof
from juncture.spec.range import ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSide(Protocol):
    """An input."""

    @property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's types."""
        ...

    @property
    def spark_schema(self) -> st.StructType:
        """The schema in Spark's types, as in the result."""
        ...

    @property
    def session(self) -> SparkSession:
        """The session of the input."""
        ...

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return the DataFrame that tasks receive, and the feed that makes rows of it; `coded` may be dictionaries."""
        ...


@dataclass(frozen=True)
class FrameSide:
    """A DataFrame as a side of a join: columns by position, as names may have dots or differ only in case."""

    frame: DataFrame
    schema: pa.Schema

    @classmethod
    def of(cls, frame: DataFrame, side: str) -> FrameSide:
        """Resolve a DataFrame's schema; raise `SchemaError` for types that Python cannot receive."""
        return cls(frame, arrow_schema(frame.schema, side))

    def typed(self, schema: pa.Schema) -> FrameSide:
        """Return the side in another schema, whose columns of the null type have other types."""
        names = [f"c{i}" for i in range(len(schema))]
        columns = []
        for name, field, wanted in zip(names, self.schema, spark_schema(schema), strict=True):
            value = F.lit(None).cast(wanted.dataType) if is_null_type(field.type) else F.col(name)
            columns.append(value.alias(name))
        return FrameSide(self.frame.toDF(*names).select(*columns).toDF(*schema.names), schema)

    @property
    def is_stream(self) -> bool:
        """Whether the DataFrame is streaming, so that no job can read it."""
        return self.frame.isStreaming

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.frame.sparkSession

    @property
    def spark_schema(self) -> st.StructType:
        """The DataFrame's schema."""
        return self.frame.schema

    def rows(
        self,
        columns: Sequence[str],
        coded: Sequence[str] = (),  # noqa: ARG002 - only files can be read that way
    ) -> tuple[DataFrame, Feed]:
        """Return the DataFrame that tasks receive, and the feed that makes rows of it; `coded` may be dictionaries."""
        safe = {name: f"c{i}" for i, name in enumerate(self.schema.names)}
        frame = self.frame.toDF(*safe.values())
        feed = BatchFeed(pa.schema([self.schema.field(name) for name in columns]))
        return frame.select(*(safe[name] for name in columns)), feed


_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""Characters that Spark interprets as a pattern in a path unless they are escaped."""

_READ_ALIKE = re.compile(r"[^=]+=(?:[^%]|%[0-7][0-9A-Fa-f])+")
"""Folder names that Spark reads alike: it has no empty values, and no escapes beyond ASCII."""


@dataclass(frozen=True)
class _Scan:
    """The parameters of one scan."""

    turn: int  # counts earlier scans of the same files, since one scan reads a file only once
    base: str | None  # the folder below which Spark finds partition columns, if it finds them itself
    values: tuple[tuple[str, Value], ...]  # of partition columns, where Spark does not find them


def frame_of(
    session: SparkSession,
    schema: st.StructType,
    files: Sequence[FoundFile],
    partitions: Sequence[Mapping[str, Value]],
) -> DataFrame:
    """Return the rows of files; `partitions` has the values of each file's partition columns."""
    if not files:
        return session.createDataFrame([], schema)
    scans: dict[_Scan, list[str]] = {}
    turns: Counter[str] = Counter()
    for file, values in zip(files, partitions, strict=True):
        path = spark_uri_of(file.path, file.filesystem)
        base = _base(file) if values else None
        scan = _Scan(turns[path], base, () if base else tuple(values.items()))
        scans.setdefault(scan, []).append(_PATTERN.sub(r"\\\g<0>", path))
        turns[path] += 1
    return reduce(lambda one, other: one.unionAll(other), [_read(session, schema, *each) for each in scans.items()])


def _read(session: SparkSession, schema: st.StructType, scan: _Scan, paths: Sequence[str]) -> DataFrame:
    if scan.base is not None:
        return session.read.option("basePath", scan.base).schema(schema).parquet(*paths)
    values = dict(scan.values)
    inside = [field for field in schema.fields if field.name not in values]
    frame = session.read.schema(st.StructType(inside)).parquet(*paths)
    if not values:
        return frame
    # By position, since names may have dots.
    stored = {field.name: F.col(f"c{index}") for index, field in enumerate(inside)}
    columns = [
        stored[field.name] if field.name in stored else F.lit(values[field.name]).cast(field.dataType)
        for field in schema.fields
    ]
    return frame.toDF(*(f"c{index}" for index in range(len(inside)))).select(*columns).toDF(*schema.names)


def _base(file: FoundFile) -> str | None:
    """Return the folder below which Spark finds the partition columns of a file, or None if it finds others."""
    indices = [number for number, folder in enumerate(file.folders) if not folder.startswith("=") and "=" in folder]
    if not indices:
        # The log of the table has the values.
        return None
    named = file.folders[indices[0] : indices[-1] + 1]
    if not all(map(_READ_ALIKE.fullmatch, named)):
        return None
    return spark_uri_of(str(PurePosixPath(file.base, *file.folders[: indices[0]])), file.filesystem)


_TABLE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*){0,2}")
"""Pattern of a catalog table's name, with optional schema and catalog."""

_SHARE_BYTES = 128 << 20  # most encoded bytes of a task, as far as row groups allow

_Join = TypeVar("_Join", bound=Resolved)

_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = frozenset((b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"))


class _Footers(ParquetSource):
    """The row groups of files, for tasks."""

    @property
    def file_schema(self) -> pa.Schema:
        """The schema in the files, which may differ from the types of the rows."""
        return self._stored

    def units(self) -> list[Unit]:
        """Return each row group as a unit; one unit for files without row groups."""
        groups = [self._unit(group.file, (group.number,)) for group in self._groups]
        return groups or [self._unit(number, ()) for number in range(len(self._files))[:1]]

    def _unit(self, number: int, row_groups: tuple[int, ...]) -> Unit:
        file, partition = self._files[number], self._partitions[number]
        store = None if isinstance(file.filesystem, LocalFileSystem) else file.filesystem
        path = file.path if store else uri_of(file.path, file.filesystem)
        return Unit(path, row_groups, self._footers[number].digest, tuple(partition.items()), store)

    def frame(self, session: SparkSession, schema: st.StructType) -> DataFrame:
        """Return the rows of the files as a DataFrame, including pruned row groups."""
        numbers = list(dict.fromkeys(group.file for group in self._groups)) or range(len(self._files))[:1]
        files = [self._files[number] for number in numbers]
        return frame_of(session, schema, files, [self._partitions[number] for number in numbers])

    @property
    def has_old_calendar(self) -> bool:
        """Whether dates may be Julian, as in files from old Spark versions and legacy modes."""
        for footer in self._footers:
            notes = footer.metadata.metadata or {}
            if not _OLD_CALENDAR.isdisjoint(notes) or notes.get(_SPARK_VERSION, b"3").startswith((b"1.", b"2.")):
                return True
        return False


@dataclass(frozen=True)
class FileSide:
    """Parquet files as a side of a join; `cores` is the number of tasks that run at once."""

    session: SparkSession
    footers: _Footers
    cores: int

    @classmethod
    def of(cls, session: SparkSession, files: Files, cores: int) -> FileSide:
        """Read the footers of files; raise `PlanError` for other formats, `DataError` for bad or differing files."""
        check_tasks_read(files)
        _check_no_name(files)
        footers = _Footers(
            files.paths, union_by_name=files.union_by_name, version=files.version, filesystem=files.store
        )
        if footers.has_deleted_rows:
            folder = path_text(files.paths[0])
            raise PlanError(
                f"The table {folder!r} has deletion vectors, but Spark tasks read whole files. Pass "
                f"spark.read.format('delta').load({folder!r}), or compact the table.",
                name="JN-LAKE-TABLE",
            )
        return cls(session, footers.converted(plain_types(footers.schema)), cores)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows in tasks."""
        return self.footers.schema

    @property
    def spark_schema(self) -> st.StructType:
        """The schema in Spark's types; raises `SchemaError` for types that Spark lacks."""
        return spark_schema(self.schema)

    @property
    def given_schema(self) -> pa.Schema:
        """The schema of the rows in the files."""
        stored = self.footers.file_schema
        return pa.schema([stored.field(name) for name in self.schema.names], stored.metadata)

    def selecting(self, columns: Sequence[str]) -> FileSide:
        """Return the side with some of its columns."""
        return replace(self, footers=self.footers.selecting(columns))

    def only(self, parts: Sequence[int]) -> FileSide:
        """Return the side with some of its row groups."""
        return replace(self, footers=self.footers.only(parts)) if len(parts) < len(self.footers.part_rows) else self

    def units(self) -> tuple[Unit, ...]:
        """Return all row groups, in the order of the rows."""
        return tuple(self.footers.units())

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return the numbers of the tasks' shares, and the feed that reads a share."""
        schema = encoded(pa.schema([self.schema.field(name) for name in columns]), coded)
        shares = self._shares(columns)
        frame = self.session.range(0, len(shares), 1, len(shares))
        return frame, FileFeed(schema, self.footers.file_schema, shares)

    def _shares(self, columns: Sequence[str]) -> tuple[tuple[Unit, ...], ...]:
        """Divide the row groups into shares of about the same number of rows, equally many for each core."""
        units = self.footers.units()
        if not self.footers.num_rows:
            return (tuple(units),)
        rounds = -(-self.footers.bytes_of(columns) // (_SHARE_BYTES * self.cores))
        wanted = min(len(units), max(1, rounds) * self.cores)
        middles = (self.footers.bounds[:-1] + self.footers.bounds[1:]) / 2
        numbers = np.minimum((middles * wanted // max(self.footers.num_rows, 1)).astype(int), wanted - 1)
        shares: dict[int, list[Unit]] = {}
        for number, unit in zip(numbers.tolist(), units, strict=True):
            shares.setdefault(number, []).append(unit)
        return tuple(merged(share) for share in shares.values())


def _check_no_name(files: Files) -> None:
    """Raise `DataError` for a missing path that looks like the name of a catalog table."""
    for path in files.paths:
        if _TABLE_NAME.fullmatch(path) and files.filesystem is None and kind_at(path) == FileType.NotFound:
            raise DataError(
                f"Path {path!r} does not exist. If it is the name of a table in Spark's catalog, pass "
                f"spark.table({path!r}).",
                name="JN-FILE-MISSING",
            )


def merged(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Merge consecutive units of a file, so that it is opened once."""
    result: list[Unit] = []
    for unit in units:
        if result and result[-1].file == unit.file:
            result[-1] = replace(unit, row_groups=result[-1].row_groups + unit.row_groups)
        else:
            result.append(unit)
    return tuple(result)


def as_frames(join: _Join, left: SparkSide, right: SparkSide) -> tuple[_Join, FrameSide, FrameSide]:
    """Return a join with its inputs as DataFrames; raise as `check_intervals` does. Needs no job."""
    check_intervals(join, left.session)
    frames = in_jvm(left, "left"), in_jvm(right, "right")
    if isinstance(left, FileSide) or isinstance(right, FileSide):
        join = join.retyped(frames[0].schema, frames[1].schema)
    return join, *frames


def in_jvm(side: SparkSide, name: Side) -> FrameSide:
    """Return an input as a DataFrame."""
    if isinstance(side, FrameSide):
        return side
    assert isinstance(side, FileSide)
    schema = side.spark_schema
    # Spark cannot read a column of the null type.
    read = [field for field in schema.fields if field.dataType != st.NullType()]
    frame = side.footers.frame(side.session, st.StructType(read))
    if len(read) < len(schema):
        numbered = frame.toDF(*(f"c{i}" for i in range(len(read))))
        columns = [F.col(f"c{read.index(field)}") if field in read else F.lit(None) for field in schema.fields]
        frame = numbered.select(*columns).toDF(*schema.names)
    return FrameSide.of(frame, name)


def reachable(join: ResolvedAsof, left: Extent, right: SparkSide) -> tuple[SparkSide, str]:
    """Return the right side without rows that no left row can match by ``on``, and what was pruned, in words.

    `left` is the extent of the left side. The join must not keep unmatched right rows.
    """
    tolerance, distance = join.tolerance, None
    if tolerance is not None and tolerance.column is None:
        distance = tolerance.constant
    low, high = join.right_range(*left, distance)
    if isinstance(right, FileSide):
        return _files_within(right, join, low, high)
    assert isinstance(right, FrameSide)
    number = right.schema.names.index(join.right_on)
    data_type = right.spark_schema.fields[number].dataType
    names = [f"c{i}" for i in range(len(right.schema))]
    frame, on = right.frame.toDF(*names), F.col(names[number])
    domain = sql_domain(join.domain, [])
    conditions = [_limited(on, end, data_type, domain, up=up) for end, up in ((low, True), (high, False))]
    used = [condition for condition in conditions if condition is not None]
    if not used:
        return right, ""
    for condition in used:
        frame = frame.where(condition)
    narrowed = FrameSide(frame.toDF(*right.schema.names), right.schema)
    return narrowed, f"right rows whose {join.spec.on_names()[1]} is out of reach of all left rows"


def reachable_files(join: ResolvedRange, left: SparkSide, right: SparkSide) -> tuple[SparkSide, str]:
    """Return the right side of a range join without row groups that no left row reaches, and what was pruned.

    Both sides must be files, so that footers suffice and no job runs.
    """
    if not (isinstance(left, FileSide) and isinstance(right, FileSide)) or join.how in ("right", "full"):
        return right, ""
    ends = left.footers.ends(join.left_on)
    extent = None if ends is None else extent_of(ends, join.domain)
    return (right, "") if extent is None else _files_within(right, join, *join.right_range(*extent))


def _files_within(side: FileSide, join: ResolvedAsof | ResolvedRange, low: Any, high: Any) -> tuple[FileSide, str]:
    """Prune row groups outside of limits, and report it. Row groups without statistics stay."""
    fewer = side.only(parts_within(side.footers, join.right_on, join.domain, low, high))
    groups, remaining = (len(each.footers.part_rows) for each in (side, fewer))
    return fewer, f"{groups - remaining:,} of {groups:,} row groups of the right side" if remaining < groups else ""


def _limited(on: Column, limit: Any, data_type: st.DataType, domain: SqlDomain, *, up: bool) -> Column | None:
    """Return the condition that a value is at least (`up`) or at most a limit; None if every value is."""
    if limit is None:
        return None
    literal = domain.literal(limit, data_type, up=up)
    if isinstance(literal, Column):
        return on >= literal if up else on <= literal
    return F.lit(False) if literal == (1 if up else -1) else None
