"""Names for the types of plain arrays, which kernels and all that call them share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "Floats", "Ints", "Mask", "Words"]

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
