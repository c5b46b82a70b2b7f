"""Slices of JSON: their column types and rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as ndjson
import pyarrow.types as pat

from juncture.files.text.options import TextOptions
from juncture.files.text.types import ColumnType, Numbers, numbers_of

_LONG_NUMBER = re.compile(rb"[0-9]{16}")  # integers with fewer digits are exact as floats
_BLOCK = 1 << 20  # characters of a list that are read at once


class _Number(str):
    """A number as written."""


def types_in(data: bytes, options: TextOptions) -> dict[str, ColumnType]:
    """Return the column types that one slice needs."""
    table = ndjson.read_json(BytesIO(data))
    texts = _parsed(data, {name: pa.string() for name in _texts(table.schema)})
    types: dict[str, ColumnType] = {}
    for field in table.schema:
        name, kind = field.name, field.type
        if name in options.types:
            types[name] = options.types[name]
        elif name in texts.column_names:
            types[name] = _time_type(texts[name])
        else:
            types[name] = numbers_of(table[name].cast(pa.string())) if pat.is_integer(kind) else kind
    floats = [name for name, kind in types.items() if kind == pa.float64() and name not in options.types]
    for name in floats:
        types[name] = Numbers(fits_integers=False, is_plain=False)
    if _LONG_NUMBER.search(data):
        nested = [name for name, kind in types.items() if not isinstance(kind, Numbers) and _holds_floats(kind)]
        if floats or nested:
            types.update(_numbers(data, floats, nested))
    return types


def read(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of a slice. Times are parsed as text and cast here: Arrow's JSON reader drops their zones."""
    types = {
        field.name: pa.string() if pat.is_timestamp(field.type) or pat.is_date(field.type) else field.type
        for field in schema
    }
    return _parsed(data, types).select(schema.names).cast(schema)


def values(data: bytes, column: str) -> pa.ChunkedArray:
    """Return one column of a slice: integers, texts or floats. A missing value is null."""
    for kind in (pa.int64(), pa.string()):
        with suppress(pa.ArrowInvalid):
            return _parsed(data, {column: kind})[column]
    return _parsed(data, {column: pa.float64()})[column]


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the objects of a list, each as a line, without loading the list into memory."""
    decoder, text = json.JSONDecoder(), TextIOWrapper(stream, encoding="utf-8")
    rest, is_first = text.read(_BLOCK).lstrip().removeprefix("["), True
    while True:
        rest = rest.lstrip()
        start = 0 if is_first or not rest.startswith(",") else 1
        if rest.startswith("]"):
            return
        try:
            value, end = decoder.raw_decode(rest, _after_blanks(rest, start))
        except ValueError as error:
            if not (block := text.read(max(_BLOCK, len(rest)))):
                raise ValueError(f"the list ends within an object: {error}") from None
            rest += block
            continue
        if not isinstance(value, dict) or (start == 0 and not is_first):
            raise ValueError(f"expected a list of objects, got {rest[:40]!r}")
        # Line ends within strings are escaped as \n, so the remaining ones are between tokens.
        yield rest[start:end].replace("\n", " ").replace("\r", " ").encode() + b"\n"
        rest, is_first = rest[end:], False


def _after_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _parsed(data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    """Return columns with these types, and no others."""
    return ndjson.read_json(
        BytesIO(data),
        parse_options=ndjson.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pat.is_timestamp(field.type) or pat.is_string(field.type)]


def _holds_floats(data_type: pa.DataType) -> bool:
    """Return whether lists or objects contain floats."""
    inner = [data_type.field(each).type for each in range(data_type.num_fields)] if pat.is_nested(data_type) else []
    return any(pat.is_floating(each) or _holds_floats(each) for each in inner)


def _numbers(data: bytes, floats: list[str], nested: list[str]) -> dict[str, Numbers]:
    """Return what columns of numbers need, from their text. Numbers within lists or objects that would change raise."""
    texts: dict[str, list[str | None]] = {name: [] for name in floats}
    for line in data.splitlines():
        if line.strip():
            row: dict[str, Any] = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
            for name in floats:
                texts[name].append(row.get(name))
            for name in nested:
                _check_numbers(row.get(name), name)
    return {name: numbers_of(pa.chunked_array([pa.array(texts[name], pa.string())])) for name in floats}


def _check_numbers(value: Any, name: str) -> None:
    if isinstance(value, _Number):
        if (
            _LONG_NUMBER.search(value.encode())
            and not numbers_of(pa.chunked_array([pa.array([str(value)])])).fits_floats
        ):
            raise ValueError(f"the nested number {value} in column {name!r} has no exact type; write it as text")
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check_numbers(each, name)


def _time_type(texts: pa.ChunkedArray) -> pa.DataType:
    """Return a date or timestamp type if all texts have it, else text."""
    first = next((value.as_py() for chunk in texts.chunks for value in chunk.drop_null()[:1]), "")
    if not (first[:4].isdigit() and first[4:5] == "-"):
        return texts.type
    for data_type in (
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
    ):
        try:
            return pc.cast(texts, data_type).type
        except pa.ArrowInvalid:
            continue
    return texts.type
