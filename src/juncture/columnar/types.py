"""Arrow types regardless of their encoding, and the units of times."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.types as pat

DAY_S = 86_400
"""Seconds in a day."""

DAY_MS = DAY_S * 1_000
"""Milliseconds in a day."""

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of Arrow timestamps and durations, each a thousand times finer than the one before."""

_NULL = pa.null().id
_ENCODED = frozenset((pa.dictionary(pa.int8(), pa.int8()).id, pa.run_end_encoded(pa.int32(), pa.int8()).id))
_INDIRECT = _ENCODED | {pa.string_view().id, pa.binary_view().id}
_FIXED = frozenset(
    each.id
    for each in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.decimal32(1), pa.decimal64(1), pa.decimal128(1)),
        *(pa.decimal256(1), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("s")),
        *(pa.duration("s"), pa.month_day_nano_interval(), pa.binary(1)),
    )
)
"""Arrow's numbers of types. A look-up takes a fraction of the time of the functions in `pyarrow.types`."""


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, without dictionary or run-end encoding."""
    while data_type.id in _ENCODED:
        data_type = data_type.value_type
    return data_type


def is_plain(data_type: pa.DataType) -> bool:
    """Return whether arrays of a type have its values themselves: no dictionaries, runs, views or extensions."""
    return data_type.id not in _INDIRECT and not isinstance(data_type, pa.BaseExtensionType)


def is_fixed(data_type: pa.DataType) -> bool:
    """Return whether values are whole bytes of one width."""
    return data_type.id in _FIXED and data_type.bit_width > 0


def is_null_type(data_type: pa.DataType) -> bool:
    """Return whether a type has no value except null, in any encoding."""
    return bool(data_type.id == _NULL or (data_type.id in _ENCODED and plain_type(data_type).id == _NULL))


_TYPES = 256  # types whose kinds are remembered, since every join compares some of them

_LISTS = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)
_KINDS = {
    "integer": (pat.is_integer,),
    "float": (pat.is_floating,),
    "decimal": (pat.is_decimal,),
    "date": (pat.is_date,),
    "string": (pat.is_string, pat.is_large_string, pat.is_string_view),
    "binary": (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary),
    "time": (pat.is_time,),
    "map": (pat.is_map,),
}


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values are strings or binary, with offsets into their bytes."""
    kinds = pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary
    return any(kind(data_type) for kind in kinds)


def is_list(data_type: pa.DataType) -> bool:
    """Return whether values are lists of any layout."""
    return any(test(data_type) for test in _LISTS)


@lru_cache(maxsize=_TYPES)
def key_kind(data_type: pa.DataType) -> str:
    """Return the class of types among which values are compared exactly, regardless of width and encoding."""
    data_type = plain_type(data_type)
    for kind, tests in _KINDS.items():
        if any(test(data_type) for test in tests):
            return kind
    if pat.is_timestamp(data_type):
        return "timestamp" if data_type.tz is None else "timestamp with time zone"
    if is_list(data_type):
        return f"list<{key_kind(data_type.value_type)}>"
    if pat.is_struct(data_type):
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return f"struct<{', '.join(key_kind(field.type) for field in fields)}>"
    return str(data_type)
