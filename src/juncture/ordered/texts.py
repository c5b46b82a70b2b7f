"""Texts and binary values, ordered by their bytes, without distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import validity
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Domain, Rough


@dataclass(frozen=True)
class Texts(Domain):
    """Texts."""

    kind: ClassVar[str] = "text"
    phrase: ClassVar[str] = "text"
    has_distances: ClassVar[bool] = False

    def encode(self, _array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Raise `TooWideError`, as codes are ranks."""
        raise TooWideError

    def rough(self, _types: Sequence[pa.DataType], /) -> Rough:
        """Return the first bytes as integers in their order, halved, so that the sign bit stays free."""
        # Specs import this module, and must not take the time to import the encoding of keys.
        from juncture.columnar.key_encoding import first_bytes

        return Rough(lambda array: ((first_bytes(array) >> np.uint64(1)).view(np.int64), validity(array)))


@dataclass(frozen=True)
class Binaries(Texts):
    """Binary values."""

    kind: ClassVar[str] = "binary"
    phrase: ClassVar[str] = "binary"
