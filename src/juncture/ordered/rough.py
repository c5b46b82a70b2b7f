"""Rough codes, which neighbouring values may share: they only decide where a row goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain
from juncture.columnar.types import plain_type
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.domain import Rough
from juncture.ordered.kinds import domain_of, tuples_of


@dataclass(frozen=True)
class RoughCoder:
    """Codes that neighbouring values may share; any value of `types`, which are of one kind, has one.

    Equal values of either side have equal codes, and greater ones never smaller codes.
    """

    types: tuple[pa.DataType, ...]

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one (neither null nor NaN); None if all have."""
        array = plain(array)
        if pat.is_null(array.type):
            return np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_)
        return self._rough.codes(array)

    @property
    def steps_in_code(self) -> int:
        """Steps of the domain per code, if values count steps."""
        return self._rough.steps

    @property
    def _rough(self) -> Rough:
        types = [plain_type(data_type) for data_type in self.types]
        domain = tuples_of(*types) if pat.is_struct(types[0]) else domain_of(*types)
        assert domain is not None
        return domain.rough(types)
