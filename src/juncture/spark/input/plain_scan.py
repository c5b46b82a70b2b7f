"""DataFrames that only scan Parquet files of this machine, which tasks can read themselves.

Transferring rows from the JVM to Python costs several times as much as a join. If a DataFrame's plan is only a scan,
its files can replace it. Two public methods show it: `inputFiles`, and whether another scan of the same files has the
same semantics.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyarrow.fs import LocalFileSystem

from juncture.errors import JunctureError
from juncture.inputs.files import Files
from juncture.inputs.kinds import is_stream, kind_of
from juncture.runtime.paths import check_folders
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide
from juncture.spark.session.session import is_connect, setting
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_LISTED_FILES_MAX = 32  # above this number of paths, Spark lists them in a job

_OPTIMIZED = "== Optimized Logical Plan =="

_READS_OTHERWISE = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
}
"""Settings under which Spark reads other values than a file contains."""


def open_side(table: Any, name: Side, session: SparkSession, cores: int) -> SparkSide:
    """Return an input, as files that `cores` tasks read if possible; a table may be open already."""
    if isinstance(table, FileSide | FrameSide):
        return table
    if kind_of(table, name) == "path":
        return FileSide.of(session, Files.of(table), cores)
    files = None if is_stream(table) else files_behind(table, cores)
    return files or FrameSide.of(table, name)


def files_behind(frame: DataFrame, cores: int) -> FileSide | None:
    """Return the files that a DataFrame scans, or None if its plan is more than a scan or unknown.

    Needs a classic session whose driver is this process. Runs no job, but analyzes a plan several times if the paths of
    a scan have an unusual spelling. Raises `DataError` for scans of files of a Delta, Iceberg or Hudi table.
    """
    if is_connect(frame) or _is_kept(frame):
        return None
    files = _local_files(frame.inputFiles())
    session = frame.sparkSession
    if not files or any(_is_set(session, name, value) for name, value in _READS_OTHERWISE.items()):
        return None
    if not _is_scan(frame, files):
        return None
    check_folders(
        LocalFileSystem(), {str(Path(each).parent) for file in files for each in (file, os.path.realpath(file))}
    )
    try:
        side = FileSide.of(session, Files(files), cores)
        # Spark must read the same values as Arrow.
        is_alike = side.spark_schema.simpleString() == frame.schema.simpleString()
        return side if is_alike and not side.footers.has_old_calendar else None
    except JunctureError:
        # Spark may be able to read files that cannot be opened here, and otherwise reports the error.
        return None


def _is_scan(frame: DataFrame, files: Sequence[str]) -> bool:
    """Return whether a DataFrame is a scan of files, in any spelling of their paths."""
    reader = frame.sparkSession.read.schema(frame.schema)
    for number, paths in enumerate(_spellings(files)):
        # Analyzing the plan once excludes most other DataFrames; each spelling would cost as much.
        if number == 1 and not _scans_only(frame):
            return False
        if _is_scan_of(frame, reader, paths):
            return True
    return False


def _scans_only(frame: DataFrame) -> bool:
    """Return whether a DataFrame scans one relation and does nothing else; its options may still differ."""
    from pyspark.errors import AnalysisException

    try:
        plan = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()[0][0]
    except AnalysisException:
        # A view cannot have duplicate columns.
        return False
    optimized = plan.partition(_OPTIMIZED)[2].partition("\n==")[0].strip()
    return "\n" not in optimized and optimized.startswith("Relation ")


def _is_scan_of(frame: DataFrame, reader: DataFrameReader, paths: Sequence[str]) -> bool:
    from pyspark.errors import PySparkException

    try:
        return frame.sameSemantics(reader.parquet(*paths))
    except PySparkException:
        # Spark's driver may have another working directory, so a relative path may be missing. Also, files in partition
        # folders are not a table without the folder above them.
        return False


def _is_kept(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return level.useMemory or level.useDisk


def _local_files(uris: Sequence[str]) -> list[str]:
    """Return the paths of files, or none if some are not on this machine."""
    parts = [urlsplit(uri) for uri in uris]
    if any(part.scheme != "file" or part.netloc for part in parts):
        return []
    return sorted(unquote(part.path) for part in parts)


def _spellings(files: Sequence[str]) -> Iterator[list[str]]:
    """Yield possible spellings of the scanned paths, most usual first: Spark compares scans by spelling."""
    roots = {str(Path(file).parent) for file in files}
    if len(roots) == 1:
        yield from ([name] for name in _names(roots.pop()))
    if len(files) == 1:
        yield from ([name] for name in _names(files[0]))
    elif len(files) <= _LISTED_FILES_MAX:
        yield list(files)


def _names(path: str) -> Iterator[str]:
    yield path
    yield from (f"{path}/", Path(path).as_uri(), f"file:{path}")
    relative = os.path.relpath(path)
    yield from (relative, f"./{relative}")


def _is_set(session: SparkSession, name: str, value: str) -> bool:
    return (setting(session, name) or "").upper() == value.upper()
