"""Columns in the names of folders: what ``year=2026/month=1`` says of the files within."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from juncture.errors import DataError
from juncture.runtime.paths import FoundFile

Value = int | str | None

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null in the name of a folder."""

_INT32 = range(-(1 << 31), 1 << 31)


def partitions_of(files: Sequence[FoundFile]) -> tuple[pa.Schema, list[tuple[Value, ...]]]:
    """Return the columns that the folders of some files, at least one, stand for, and their values for each file.

    A column is of 32-bit integers where all its values are whole numbers of that size, and of text otherwise.

    Raises
    ------
    DataError
        If two files have different columns, or a name cannot be read.
    """
    texts = [partition_of(file) for file in files]
    names = list(texts[0])
    for file, found in zip(files, texts, strict=True):
        if list(found) != names:
            raise DataError(
                f"The names of the folders of {file.path!r} stand for {_listed(found)}, and those of "
                f"{files[0].path!r} for {_listed(names)}. All files of one table need the same columns: move one, "
                "or leave it out."
            )
    fields, columns = [], []
    for name in names:
        column = [found[name] for found in texts]
        known = [text for text in column if text is not None]
        whole = bool(known) and all(re.fullmatch("-?[0-9]+", text) and int(text) in _INT32 for text in known)
        fields.append(pa.field(name, pa.int32() if whole else pa.string()))
        columns.append([int(text) if whole and text is not None else text for text in column])
    values: list[tuple[Value, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(files)
    return pa.schema(fields), values


def partition_of(file: FoundFile) -> dict[str, str | None]:
    """Return the columns that the folders of a file stand for, each with its value as text.

    Raises
    ------
    DataError
        If two folders stand for one column, or a name is not UTF-8 once it is decoded.
    """
    found: dict[str, str | None] = {}
    for folder in file.folders:
        name, separator, value = folder.partition("=")
        if not (name and separator):
            continue
        try:
            name, text = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise DataError(
                f"The folder {folder!r} of {file.path!r} stands for a column, and its name is not UTF-8 once its "
                f"escapes are decoded: {error}. Rename it."
            ) from error
        if name in found:
            raise DataError(
                f"Two folders of {file.path!r} stand for the column {name!r}. Expected one: rename the other."
            )
        found[name] = None if value == NULL_NAME else text
    return found


def _listed(names: Sequence[str] | dict[str, str | None]) -> str:
    shown = ", ".join(map(repr, names))
    return f"the columns {shown}" if len(names) > 1 else f"the column {shown}" if names else "no columns"
