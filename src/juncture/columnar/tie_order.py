"""The order among right rows at the same ``on``: column by column, nulls lowest, NaN highest.

Booleans order False before True; strings and binary by their bytes; structs and lists by their parts, a prefix before
longer values; maps as the list of their entries by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import float_codes, floats, plain, validity
from juncture.columnar.key_encoding import first_bytes, form_of
from juncture.columnar.row_bytes import encode_rows
from juncture.columnar.types import is_text, plain_type
from juncture.kernels.array_types import Ints

CODES_MOST = 4
"""Most columns whose codes are stored with each candidate."""

_LEAST = -(2**63)
_OTHER_TEXT = (pat.is_fixed_size_binary, pat.is_string_view, pat.is_binary_view)
_TYPES = 256  # types that are remembered, since every search for ties reads some of them


class UndecidedError(Exception):
    """Two different values of a column have the same code, so equal codes do not mean equal rows."""


def order_keys(columns: Sequence[pa.ChunkedArray]) -> list[Ints]:
    """Return numbers that order rows by columns, the most significant first: winning rows have greater ones.

    Arrow sorts the distinct values of strings and long decimals, and those of nested types by their bytes.
    """
    keys = [key for column in columns for key in _keys_of(column)]
    # Equal maps may list their entries in different orders, which decides last of all.
    with_maps = [column for column in columns if pat.is_nested(column.type) and "map<" in str(column.type)]
    return keys + [_nested_ranks(column.chunks, by_key=False) for column in with_maps]


def _keys_of(column: pa.ChunkedArray) -> list[Ints]:
    """Return the numbers of a column; nulls have the least."""
    chunks = [plain(chunk) for chunk in column.chunks]
    kind = _coding(chunks[0].type) if chunks else "null"
    if kind == "null":
        return []
    if kind == "nested":
        return [_nested_ranks(chunks, by_key=True)]
    parts = [_whole_codes(chunk) for chunk in chunks] if kind == "whole" else [_text_ranks(chunks)]
    codes = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not any(chunk.null_count for chunk in chunks):
        return [codes]
    present = np.concatenate([np.ones(len(c), np.bool_) if (v := validity(c)) is None else v for c in chunks])
    return [present.astype(np.int64), np.where(present, codes, 0)]


def _text_ranks(chunks: list[pa.Array]) -> Ints:
    """Return the ranks of strings, binary or long decimals; those under nulls are undefined."""
    wide = pa.large_binary() if _coding(chunks[0].type) == "start" else chunks[0].type
    encoded = pa.concat_arrays([chunk.cast(wide) for chunk in chunks]).dictionary_encode()
    rank_of = np.empty(len(encoded.dictionary) + 1, np.int64)
    rank_of[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    ranks: Ints = rank_of[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return ranks


def _nested_ranks(chunks: list[pa.Array], *, by_key: bool) -> Ints:
    """Return the rank of each value; of maps by their entries in the order of keys, or as they are listed."""
    return _text_ranks([encode_rows([chunk], by_key=by_key).to_arrow() for chunk in chunks])


@lru_cache(maxsize=_TYPES)
def _coding(data_type: pa.DataType) -> str:
    """Return how much of a value fits 64 bits in order: ``"whole"``, its ``"start"``, or why nothing does."""
    if pat.is_null(data_type):
        return "null"
    if pat.is_nested(data_type) or pat.is_interval(data_type):
        return "nested"
    if pat.is_decimal(data_type):
        return "whole" if data_type.precision <= 18 else "long"
    if is_text(data_type) or any(test(data_type) for test in _OTHER_TEXT):
        return "start"
    return "whole" if pat.is_primitive(data_type) else "long"


def _whole_codes(array: pa.Array) -> Ints:
    """Return the values of a plain array as integers in their order; those under nulls are undefined."""
    if pat.is_floating(array.type):
        return float_codes(floats(array))
    form = form_of(array.type, array.type).of(array)
    values: Ints = form.values  # type: ignore[union-attr]  # "whole" types have integer forms
    return values ^ np.int64(_LEAST) if pat.is_uint64(array.type) else values


def code_columns(schema: pa.Schema, columns: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the leading columns whose codes can break ties, none after a string, and whether they break all."""
    chosen: list[str] = []
    for name in columns[:CODES_MOST]:
        kind = _coding(plain_type(schema.field(name).type))
        if kind in ("whole", "start"):
            chosen.append(name)
        if kind != "whole":
            return tuple(chosen), False
    return tuple(chosen), len(chosen) == len(columns)


def order_codes(array: pa.Array, *, decided: bool) -> Ints:
    """Return codes in the order of values; null has the least.

    With `decided`, different values must have different codes: raises `UndecidedError` for a value with null's.
    """
    array = plain(array)
    is_whole = _coding(array.type) == "whole"
    codes = _whole_codes(array) if is_whole else (first_bytes(array) ^ np.uint64(1 << 63)).view(np.int64)
    valid = validity(array)
    if decided and ((codes == _LEAST) if valid is None else (codes == _LEAST) & valid).any():
        raise UndecidedError
    return codes if valid is None else np.where(valid, codes, _LEAST)
