"""Texts and binary values, ordered by their bytes, without distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import validity
from juncture.columnar.key_encoding import Strings, form_of
from juncture.columnar.types import key_kind
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.domain import Domain
from juncture.ordered.ends import TooWideError

_ROUGH_BYTES = 8


@dataclass(frozen=True)
class Texts(Domain):
    """Texts."""

    kind: ClassVar[str] = "text"
    phrase: ClassVar[str] = "text"
    key_kind: ClassVar[str] = "string"
    has_distances: ClassVar[bool] = False

    @classmethod
    def of(cls, data_type: pa.DataType) -> Self | None:
        """Return the domain of a type."""
        return cls() if key_kind(data_type) == cls.key_kind else None

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:  # noqa: ARG002 - no text fits
        """Raise `TooWideError`, as codes are ranks."""
        raise TooWideError

    def steps(self, array: pa.Array) -> list[Any]:
        """Return the values."""
        return list(array.to_pylist())

    def rough_codes(
        self,
        array: pa.Array,
        types: Sequence[pa.DataType],  # noqa: ARG002 - bytes have one order
    ) -> tuple[Ints, Mask | None]:
        """Return the first bytes as integers in their order."""
        strings = form_of(array.type, array.type).of(array)
        assert isinstance(strings, Strings)
        starts, lengths = strings.offsets[:-1], np.diff(strings.offsets)
        places = np.arange(_ROUGH_BYTES)
        there = places < lengths[:, None]
        data = strings.data if len(strings.data) else np.zeros(1, np.uint8)
        taken = data[np.where(there, starts[:, None] + places, 0)]
        words = np.ascontiguousarray(np.where(there, taken, 0).astype(np.uint8)).view(">u8").reshape(-1)
        # Half of the value, so that the sign bit stays free.
        return (words.astype(np.uint64) >> np.uint64(1)).astype(np.int64), validity(array)


@dataclass(frozen=True)
class Binaries(Texts):
    """Binary values."""

    kind: ClassVar[str] = "binary"
    phrase: ClassVar[str] = "binary"
    key_kind: ClassVar[str] = "binary"
