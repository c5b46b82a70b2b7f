"""The values of ``by`` in a form in which equal values have equal bits, whatever their types on the two sides.

There are two forms: 64-bit integers and byte strings. Integers, booleans, dates, times, durations and short decimals
become integers, as do floats by their bits (one NaN, one zero). Strings, binary and long decimals become bytes. Nested
values are encoded value by value, slowly.

A value that the other side's type cannot represent has no form, since it equals no value of the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import WHOLE_ITEMS, both, days, integers_of, plain, raw_values, texts_of, validity
from juncture.columnar.types import TIME_UNITS, plain_type
from juncture.kernels import hash as hash_kernels
from juncture.kernels import keys as kernels
from juncture.kernels.array_types import Mask, Words

_INT64 = pa.int64().id
_INT64_MAX = 2**63 - 1
_SHORT_DIGITS = 18
_LONG_DIGITS = 76
_LONG_BYTES = 32
_CANONICAL_NAN = np.float64("nan").view(np.int64)
_NULL_HASH = np.uint64(0x2545F4914F6CDD1D)  # the hash of null, if nulls are equal


@dataclass(frozen=True)
class Integers:
    """Values as 64-bit integers; ``valid`` marks values with a form; None means all."""

    values: npt.NDArray[np.int64]
    valid: Mask | None

    def to_python(self) -> list[Any]:
        """Return the values as Python objects, None without a form."""
        return _masked(self.values.tolist(), self.valid)


@dataclass(frozen=True)
class Strings:
    """Values as concatenated byte strings, each from its offset to the next."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: Mask | None

    def to_python(self) -> list[Any]:
        """Return the values as Python objects, None without a form."""
        content = self.data.tobytes()
        edges = self.offsets.tolist()
        values = [content[start:end] for start, end in pairwise(edges)]
        return _masked(values, self.valid)


@dataclass(frozen=True)
class Form:
    """Encodes the values of one pair of columns."""

    encode: Callable[[pa.Array, Mask | None], Integers | Strings]  # plain values, and which are not null
    children: tuple[Form, ...] = ()  # those of the parts of nested values

    def of(self, array: pa.Array) -> Integers | Strings:
        """Return the encoded values; nulls have no form."""
        array = plain(array)
        return self.encode(array, validity(array))


def form_of(left: pa.DataType, right: pa.DataType) -> Form:
    """Return the common form of two columns, whose types the spec has validated to be of one kind."""
    left, right = _storage(left), _storage(right)
    if pat.is_integer(left) or pat.is_boolean(left) or pat.is_date(left) or pat.is_duration(left):
        both_unsigned = pat.is_unsigned_integer(left) and pat.is_unsigned_integer(right)
        return Form(partial(_integers_of, reinterpreted=both_unsigned))
    if pat.is_floating(left):
        return Form(_floats)
    if pat.is_decimal(left):
        scale = max(left.scale, right.scale)
        digits = max(side.precision - side.scale for side in (left, right)) + scale
        return Form(partial(_short_decimals if digits <= _SHORT_DIGITS else _long_decimals, scale=scale))
    if pat.is_timestamp(left) or pat.is_time(left):
        return Form(partial(_times, unit=max(left.unit, right.unit, key=TIME_UNITS.index)))
    if pat.is_nested(left):
        children = tuple(form_of(*pair) for pair in zip(_children(left), _children(right), strict=True))
        return Form(partial(_nested, children=children), children)
    if pat.is_null(left):
        return Form(_nulls)
    return Form(_bytes)


def _storage(data_type: pa.DataType) -> pa.DataType:
    """Return a type without its encoding or extension."""
    data_type = plain_type(data_type)
    return _storage(data_type.storage_type) if isinstance(data_type, pa.BaseExtensionType) else data_type


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    if pat.is_struct(data_type):
        return [data_type.field(i).type for i in range(data_type.num_fields)]
    return [data_type.value_type]


def _nulls(array: pa.Array, _valid: Mask | None) -> Integers:
    """Return no value of a column of nulls only."""
    return Integers(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))


def _integers_of(array: pa.Array, valid: Mask | None, *, reinterpreted: bool) -> Integers:
    """Return integers, booleans, dates and durations. `reinterpreted` is whether both sides are unsigned."""
    if array.type.id == _INT64:
        return Integers(raw_values(array, np.int64), valid)
    if pat.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pat.is_date(array.type):
        return Integers(days(array), valid)
    if pat.is_uint64(array.type) or pat.is_duration(array.type):
        values = raw_values(array, np.int64)
        if pat.is_uint64(array.type) and not reinterpreted:
            valid = both(valid, values >= 0)
        return Integers(values, valid)
    return Integers(raw_values(array, WHOLE_ITEMS[array.type.id]).astype(np.int64), valid)


def _floats(array: pa.Array, valid: Mask | None) -> Integers:
    """Return floats of any width: all NaN are equal, as are both zeros."""
    values = raw_values(array.cast(pa.float64()), np.float64) + 0.0
    return Integers(np.where(np.isnan(values), _CANONICAL_NAN, values.view(np.int64)), valid)


def _times(array: pa.Array, valid: Mask | None, *, unit: str) -> Integers:
    """Return timestamps and times of day, in the finer unit of both sides."""
    factor = 1_000 ** (TIME_UNITS.index(unit) - TIME_UNITS.index(array.type.unit))
    return _multiplied(integers_of(array), factor, valid)


def _short_decimals(array: pa.Array, valid: Mask | None, *, scale: int) -> Integers:
    """Return decimals that fit a 64-bit integer on both sides."""
    if array.type.bit_width <= 64:
        values = integers_of(array)
    else:
        values = np.ascontiguousarray(raw_values(array, np.int64)[:, 0])
    return _multiplied(values, 10 ** (scale - array.type.scale), valid)


def _long_decimals(array: pa.Array, valid: Mask | None, *, scale: int) -> Strings:
    """Return decimals as 256-bit integers of the common scale."""
    try:
        wide = array.cast(pa.decimal256(_LONG_DIGITS, scale))
    except pa.ArrowInvalid:
        # Values may exceed Arrow's decimals.
        return _long_decimals_one_by_one(array, valid, 10 ** (scale - array.type.scale))
    data = np.ascontiguousarray(raw_values(wide, np.uint8))
    if valid is not None:
        data = np.where(valid[:, None], data, np.uint8(0))
    return Strings(np.arange(len(array) + 1, dtype=np.int64) * _LONG_BYTES, data.reshape(-1), valid)


def _long_decimals_one_by_one(array: pa.Array, valid: Mask | None, factor: int) -> Strings:
    texts: list[bytes | None] = []
    for i, raw in enumerate(raw_values(array, np.uint8).reshape(len(array), -1)):
        step = int.from_bytes(raw.tobytes(), "little", signed=True) * factor
        fits = -(2**255) <= step < 2**255 and (valid is None or valid[i])
        texts.append(step.to_bytes(_LONG_BYTES, "little", signed=True) if fits else None)
    return _strings(texts)


def _bytes(array: pa.Array, valid: Mask | None) -> Strings:
    if pat.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    return Strings(*texts_of(array), valid)


def _nested(array: pa.Array, _valid: Mask | None, *, children: tuple[Form, ...]) -> Strings:
    """Return structs and lists, value by value. Nulls inside are equal, as in Spark."""
    never: set[int] = set()
    values = _nested_values(array, children, never)
    return _strings([None if v is None or i in never else repr(v).encode() for i, v in enumerate(values)])


def _nested_values(array: pa.Array, children: tuple[Form, ...], never: set[int]) -> list[Any]:
    """Return nested tuples; mark rows with a part without a form in `never`."""
    valid = validity(array)
    if pat.is_struct(array.type):
        columns = [
            _parts(form, child, list(range(len(array))), never)
            for form, child in zip(children, array.flatten(), strict=True)
        ]
        return _masked(list(zip(*columns, strict=True)) if columns else [()] * len(array), valid)
    lengths = [length or 0 for length in pc.list_value_length(array).to_pylist()]
    owners = [row for row, length in enumerate(lengths) for _ in range(length)]
    items = iter(_parts(children[0], array.flatten(), owners, never))
    return _masked([tuple(next(items) for _ in range(length)) for length in lengths], valid)


def _parts(form: Form, array: pa.Array, owners: list[int], never: set[int]) -> list[Any]:
    """Return the parts of nested values; mark the owners of parts without a form, other than null, in `never`."""
    array = plain(array)
    if pat.is_nested(array.type):
        inner: set[int] = set()
        values = _nested_values(array, form.children, inner)
        never.update(owners[i] for i in inner)
        return values
    values, present = form.of(array).to_python(), validity(array)
    for i, value in enumerate(values):
        if value is None and (present is None or present[i]):
            never.add(owners[i])
    return values


def _strings(texts: list[bytes | None]) -> Strings:
    offsets = np.cumsum([0] + [len(text or b"") for text in texts]).astype(np.int64)
    data = np.frombuffer(b"".join(text or b"" for text in texts), np.uint8)
    return Strings(offsets, data, np.array([text is not None for text in texts], np.bool_))


def _multiplied(values: npt.NDArray[np.int64], factor: int, valid: Mask | None) -> Integers:
    """Multiply, and clear `valid` for products beyond 64 bits."""
    if factor == 1:
        return Integers(values, valid)
    most = _INT64_MAX // factor
    return Integers(values * np.int64(factor), both(valid, (values <= most) & (values >= -most)))


def _masked(values: list[Any], valid: Mask | None) -> list[Any]:
    if valid is None:
        return values
    return [value if ok else None for value, ok in zip(values, valid.tolist(), strict=True)]


def first_bytes(array: pa.Array) -> Words:
    """Return the first eight bytes of strings or binary values as integers in their order, zero-padded."""
    strings = form_of(array.type, array.type).of(array)
    assert isinstance(strings, Strings)
    starts, lengths = strings.offsets[:-1], np.diff(strings.offsets)
    data = np.append(strings.data, np.uint8(0))
    words = np.zeros(len(array), np.uint64)
    for offset in range(8):
        following = data[np.where(lengths > offset, starts + offset, len(data) - 1)]
        words = (words << np.uint64(8)) | following.astype(np.uint64)
    return words


class KeyHashes:
    """64-bit hashes of the keys of two sides, equal for equal keys. The column types are given pair by pair."""

    def __init__(self, left: Sequence[pa.DataType], right: Sequence[pa.DataType], *, nulls_equal: bool = False) -> None:
        self._forms = [form_of(*types) for types in zip(left, right, strict=True)]
        self._nulls_equal = nulls_equal

    def of(self, columns: Sequence[pa.Array]) -> tuple[Words, Mask | None]:
        """Return the hashes of some rows, and which of them can match; None if all can."""
        hashes: Words | None = None
        usable: Mask | None = None
        for form, column in zip(self._forms, columns, strict=True):
            column_hashes, here = self._column(form, column)
            if hashes is None:
                hashes = column_hashes
            else:
                hash_kernels.combine_hashes(hashes, column_hashes)
            if here is not None:
                usable = here if usable is None else usable & here
        assert hashes is not None
        return hashes, usable

    def _column(self, form: Form, array: pa.Array) -> tuple[Words, Mask | None]:
        if pat.is_dictionary(array.type) and len(array.dictionary) < len(array):
            hashes, usable = self._column(form, array.dictionary)
            there = validity(array.indices)
            indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
            if len(hashes) == 0:
                hashes, usable = np.zeros(1, np.uint64), None
            taken = hashes[indices]
            here = None if usable is None else usable[indices]
            if there is None:
                return taken, here
            if self._nulls_equal:
                taken[~there] = _NULL_HASH
                return taken, None if here is None else here | ~there
            return taken, there if here is None else here & there
        values = form.of(array)
        hashes = np.empty(len(array), np.uint64)
        if isinstance(values, Integers):
            hash_kernels.hash_integers(values.values, hashes)
        else:
            kernels.hash_bytes(values.offsets, values.data, hashes)
        if not self._nulls_equal:
            return hashes, values.valid
        there = validity(plain(array))
        if there is None:
            return hashes, values.valid
        hashes[~there] = _NULL_HASH
        return hashes, None if values.valid is None else values.valid | ~there
