"""Parquet files as a DataFrame, for joins by Spark's own operators.

Spark must read the same rows as tasks do: a repeated file repeatedly, and with the same values from folder names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from juncture.runtime.partitions import Value
from juncture.runtime.paths import FoundFile
from juncture.runtime.stores import uri_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""Characters that Spark interprets as a pattern in a path unless they are escaped."""

_READ_ALIKE = re.compile(r"[^=]+=(?:[^%]|%[0-7][0-9A-Fa-f])+")
"""Folder names that Spark reads alike: it has no empty values, and no escapes beyond ASCII."""


@dataclass(frozen=True)
class _Scan:
    """The parameters of one scan.

    `turn` counts earlier scans of the same files, since one scan reads a file only once. `base` is the folder below
    which Spark finds partition columns, if it finds them itself; otherwise `values` has them.
    """

    turn: int
    base: str | None
    values: tuple[tuple[str, Value], ...]


def frame_of(
    session: SparkSession,
    schema: StructType,
    files: Sequence[FoundFile],
    partitions: Sequence[Mapping[str, Value]],
) -> DataFrame:
    """Return the rows of at least one file, with partition columns last; `partitions` has each file's values."""
    scans: dict[_Scan, list[str]] = {}
    turns: Counter[str] = Counter()
    for file, values in zip(files, partitions, strict=True):
        path = uri_of(file.path, file.filesystem)
        base = _base(file) if values else None
        scan = _Scan(turns[path], base, () if base else tuple(values.items()))
        scans.setdefault(scan, []).append(_PATTERN.sub(r"\\\g<0>", path))
        turns[path] += 1
    return reduce(lambda one, other: one.unionAll(other), [_read(session, schema, *each) for each in scans.items()])


def _read(session: SparkSession, schema: StructType, scan: _Scan, paths: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    if scan.base is not None:
        return session.read.option("basePath", scan.base).schema(schema).parquet(*paths)
    inside = len(schema.fields) - len(scan.values)
    frame = session.read.schema(StructType(schema.fields[:inside])).parquet(*paths)
    fields = schema.fields[inside:]
    literals = [
        sf.lit(value).cast(field.dataType).alias(name) for (name, value), field in zip(scan.values, fields, strict=True)
    ]
    return frame.select("*", *literals) if literals else frame


def _base(file: FoundFile) -> str | None:
    """Return the folder below which Spark finds the partition columns of a file, or None if it finds others."""
    places = [number for number, folder in enumerate(file.folders) if not folder.startswith("=") and "=" in folder]
    named = file.folders[places[0] : places[-1] + 1]
    if not all(map(_READ_ALIKE.fullmatch, named)):
        return None
    return uri_of(str(PurePosixPath(file.base, *file.folders[: places[0]])), file.filesystem)
