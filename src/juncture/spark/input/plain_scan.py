"""DataFrames that are nothing but Parquet files of this machine, which the tasks can read themselves.

Handing rows from the JVM to Python costs several times what a join costs. Where a DataFrame's plan is a scan and no
more, its files are as good as the DataFrame. Both are known by public means: which files it reads, and whether another
scan of the same files has the same meaning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyarrow.fs import LocalFileSystem

from juncture.errors import JunctureError
from juncture.inputs.files import Files
from juncture.runtime.lake_tables import check_folders
from juncture.spark.input.files import FileSide
from juncture.spark.session.session import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_LISTED_FILES_MAX = 32
"""Spark lists more paths than these in a job of its own."""

_OPTIMIZED = "== Optimized Logical Plan =="

_READS_OTHERWISE = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
}
"""Settings under which Spark reads other values from a file than it holds."""


def files_behind(frame: DataFrame, cores: int) -> FileSide | None:
    """Return the files that a DataFrame consists of, or None if it is more than a scan, or nobody can tell.

    Parameters
    ----------
    frame
        Any DataFrame. Files are found where the session is a classic one, and its driver and ours the same process.
    cores
        How many tasks run at once.

    Raises
    ------
    DataError
        If it scans the files of a Delta, Iceberg or Hudi table, which Spark reads by another format.

    Notes
    -----
    Runs no job. It costs a few analyses of a plan, most where the paths of a scan are spelled in an unusual way.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    if not isinstance(frame, ClassicFrame) or _is_kept(frame):
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
        return side if side.is_read_alike(frame.schema) else None
    except JunctureError:
        # What is wrong with the files is Spark's to say: it may well be able to read them.
        return None


def _is_scan(frame: DataFrame, files: Sequence[str]) -> bool:
    """Tell whether a DataFrame is a scan of files, however they were named."""
    reader = frame.sparkSession.read.schema(frame.schema)
    for number, paths in enumerate(_spellings(files)):
        # One look at the plan tells most others apart; each spelling would cost as much.
        if number == 1 and not _scans_only(frame):
            return False
        if _is_scan_of(frame, reader, paths):
            return True
    return False


def _scans_only(frame: DataFrame) -> bool:
    """Tell whether a DataFrame scans one relation and does nothing else; it may still read it in a way of its own."""
    from pyspark.errors import AnalysisException

    try:
        plan = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()[0][0]
    except AnalysisException:
        # No view can be made of columns with one name.
        return False
    optimized = plan.partition(_OPTIMIZED)[2].partition("\n==")[0].strip()
    return "\n" not in optimized and optimized.startswith("Relation ")


def _is_scan_of(frame: DataFrame, reader: DataFrameReader, paths: Sequence[str]) -> bool:
    from pyspark.errors import PySparkException

    try:
        return frame.sameSemantics(reader.parquet(*paths))
    except PySparkException:
        # The working directory of Spark's driver may be another one than ours, so that a relative path leads nowhere.
        # And files of folders that stand for columns are no table without the folder above them.
        return False


def _is_kept(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return level.useMemory or level.useDisk


def _local_files(uris: Sequence[str]) -> list[str]:
    """Return the paths of files, or nothing if some are not of this machine."""
    parts = [urlsplit(uri) for uri in uris]
    if any(part.scheme != "file" or part.netloc for part in parts):
        return []
    return sorted(unquote(part.path) for part in parts)


def _spellings(files: Sequence[str]) -> Iterator[list[str]]:
    """Yield how a user may have named the files: Spark takes scans for the same only if they are spelled alike.

    The most usual comes first.
    """
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
