"""Names for the types of plain arrays, which kernels and all that call them share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Bytes", "Codes", "Floats", "Ints", "Mask", "Rows", "Words"]

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
