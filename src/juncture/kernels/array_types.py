"""The types of plain arrays, shared by kernels and their callers.

A kernel writes only to arrays whose type ends in *Out*. `Codes` are any 32-bit integers, also row numbers. `Words` are
any 64-bit words, such as codes packed from two values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
BytesOut = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
CodesOut = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
FloatTableOut = npt.NDArray[np.float64]
HalvesOut = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]
IntsOut = npt.NDArray[np.int64]
IntTable = npt.NDArray[np.int64]
IntTableOut = npt.NDArray[np.int64]
IntCube = npt.NDArray[np.int64]
IntCubeOut = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.signedinteger]
Words = npt.NDArray[np.uint64]
WordsOut = npt.NDArray[np.uint64]
