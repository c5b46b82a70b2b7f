"""64-bit hashes of keys, equal for equal keys whatever their types on the two sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, validity
from juncture.columnar.key_encoding import Form, Integers, form_of
from juncture.kernels import hash as kernels
from juncture.kernels import keys as key_kernels
from juncture.kernels.array_types import Mask, Words

_NULL = np.uint64(0x2545F4914F6CDD1D)
"""The hash of null, if nulls are equal."""


class KeyHashes:
    """Hashes of the keys of two sides, whose column types are given pair by pair."""

    def __init__(self, left: Sequence[pa.DataType], right: Sequence[pa.DataType], *, nulls_equal: bool = False) -> None:
        self._forms = [form_of(*types) for types in zip(left, right, strict=True)]
        self._nulls_equal = nulls_equal

    def of(self, columns: Sequence[pa.Array]) -> tuple[Words, Mask | None]:
        """Return the hashes of some rows, and which of them can match; None if all can."""
        hashes: Words | None = None
        usable: Mask | None = None
        for form, column in zip(self._forms, columns, strict=True):
            found, here = self._column(form, column)
            if hashes is None:
                hashes = found
            else:
                kernels.combine_hashes(hashes, found)
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
                taken[~there] = _NULL
                return taken, None if here is None else here | ~there
            return taken, there if here is None else here & there
        values = form.of(array)
        hashes = np.empty(len(array), np.uint64)
        if isinstance(values, Integers):
            kernels.hash_integers(values.values, hashes)
        else:
            key_kernels.hash_bytes(values.offsets, values.data, hashes)
        if not self._nulls_equal:
            return hashes, values.valid
        there = validity(plain(array))
        if there is None:
            return hashes, values.valid
        hashes[~there] = _NULL
        return hashes, None if values.valid is None else values.valid | ~there
