"""Sort-merge joins in memory: both sides are sorted by key, the left one batch by batch, and walked through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.key_encoding import Integers, form_of
from juncture.columnar.key_table import KeyCodes
from juncture.kernels import hash as kernels
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.hash_table import EMPTY
from juncture.local.equi.hash_index import HashIndex, KeySpans
from juncture.local.output.payload import Holder, read_all
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import order_of
from juncture.runtime.sources import Source
from juncture.runtime.take import nulls, worth_coding


class SortCodes:
    """Integers to sort keys by, the same for equal keys only.

    A key that is a single whole number is its own; any other has the code that a table of right keys assigns.
    """

    def __init__(self, right: Sequence[pa.DataType], left: Sequence[pa.DataType], *, nulls_equal: bool) -> None:
        self._form = form_of(right[0], left[0])
        whole = isinstance(self._form.of(nulls(0, right[0])), Integers)
        self._keys = (
            None if whole and len(right) == 1 and not nulls_equal else KeyCodes(right, left, nulls_equal=nulls_equal)
        )

    def of(self, columns: list[pa.Array], *, new: bool) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
        """Return the codes of some rows, of the right side if new, and which rows can match; None for all."""
        if self._keys is None:
            form = self._form.of(columns[0])
            assert isinstance(form, Integers)
            return form.values, form.valid
        codes = np.empty(len(columns[0]), np.int32)
        (self._keys.add if new else self._keys.find)(columns, codes)
        return codes.astype(np.int64), codes != EMPTY


def spans_by_order(values: Ints, codes: SortCodes, context: JoinContext) -> KeySpans:
    """Return what sorts left keys, and merges them with the ascending codes of the right rows (`values`).

    The context is that of one thread.
    """

    def spans(columns: list[pa.Array], first: Codes, end: Codes) -> None:
        ours, usable = codes.of(columns, new=False)
        rows = _order(ours, usable, context)
        kernels.merge_spans(ours[rows], rows, values, first, end)

    return spans


def read_sorted(
    source: Source,
    names: Sequence[str],
    codes: SortCodes,
    context: JoinContext,
    *,
    holder: Holder,
) -> tuple[HashIndex, Ints]:
    """Read the right side, and sort it by its codes, which are also returned. Arguments as for `read_right`."""
    values = np.empty(source.num_rows, np.int64)
    usable = np.ones(source.num_rows, np.bool_)

    def take(batch: pa.RecordBatch, rows: slice) -> None:
        values[rows], here = codes.of([batch.column(name) for name in names], new=True)
        if here is not None:
            usable[rows] = here

    read_all(source, names, take, context, coded=worth_coding(source, names), phase="right", holder=holder)
    rows = _order(values, usable, context)
    return HashIndex(np.zeros(1, np.int64), rows, source.num_rows), values[rows]


def _order(values: Ints, usable: npt.NDArray[np.bool_] | None, context: JoinContext) -> Codes:
    """Return the rows that can match in the order of their values, stably."""
    if usable is None or bool(usable.all()):
        return order_of([values], context)
    kept = np.flatnonzero(usable).astype(np.int32)
    return kept[order_of([values[kept]], context)]
