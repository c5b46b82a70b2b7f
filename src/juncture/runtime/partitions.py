"""Partition columns in folder names, such as ``year=2026/month=1``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from juncture.errors import DataError
from juncture.runtime.paths import FoundFile

Value = int | str | None

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The folder name of null."""

_INT32 = range(-(1 << 31), 1 << 31)


def partitions_of(files: Sequence[FoundFile]) -> tuple[pa.Schema, list[tuple[Value, ...]]]:
    """Return the partition columns of files, at least one, and their values for each file.

    A column has 32-bit integers if all its values are such, and text otherwise.
    """
    texts = [partition_of(file) for file in files]
    names = list(texts[0])
    for file, partition in zip(files, texts, strict=True):
        if list(partition) != names:
            raise DataError(
                f"The folders of {file.path!r} define {_listed(partition)}, but the folders of {files[0].path!r} "
                f"define {_listed(names)}. Expected the same partition columns for all files of a table. Move or "
                "exclude a file.",
                name="JN-FILE-COLUMNS",
            )
    fields, columns = [], []
    for name in names:
        column = [partition[name] for partition in texts]
        known = [text for text in column if text is not None]
        whole = bool(known) and all(re.fullmatch("-?[0-9]+", text) and int(text) in _INT32 for text in known)
        fields.append(pa.field(name, pa.int32() if whole else pa.string()))
        columns.append([int(text) if whole and text is not None else text for text in column])
    values: list[tuple[Value, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(files)
    return pa.schema(fields), values


def partition_of(file: FoundFile) -> dict[str, str | None]:
    """Return the partition columns of a file, each with its value as text."""
    values: dict[str, str | None] = {}
    for folder in file.folders:
        name, separator, value = folder.partition("=")
        if not (name and separator):
            continue
        try:
            name, text = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise DataError(
                f"The folder {folder!r} of {file.path!r} defines a column whose decoded name is not UTF-8: {error}. "
                "Rename the folder.",
                name="JN-PARTITION-NAME",
            ) from error
        if name in values:
            raise DataError(
                f"The folders of {file.path!r} define the column {name!r} twice. Expected one folder per column. "
                "Rename one of them.",
                name="JN-PARTITION-NAME",
            )
        values[name] = None if value == NULL_NAME else text
    return values


def _listed(names: Sequence[str] | dict[str, str | None]) -> str:
    shown = ", ".join(map(repr, names))
    return f"the columns {shown}" if len(names) > 1 else f"the column {shown}" if names else "no columns"
