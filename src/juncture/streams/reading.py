"""Reads rows of two streams: validates pushed rows, and reads readers in turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from juncture.columnar.arrays import memory_pool
from juncture.errors import SpecError
from juncture.matching.input import arrow_batches, in_schema
from juncture.matching.output import combined
from juncture.spec.schema import Side, other_side
from juncture.streams.frontier import Frontier
from juncture.streams.plan import Setup


def batches_of(table: Any, side: str, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return pushed rows as record batches of the schema."""
    batches = arrow_batches(table)
    if batches is None:
        raise SpecError(
            f"push({side}=…) is of type {type(table).__name__}. Expected a pyarrow.RecordBatch, or a table with the "
            "Arrow PyCapsule interface.",
            name="JN-ARGUMENT-TYPE",
        )
    return [in_schema(batch, schema, side, f"a {side} batch") for batch in batches]


def gathered(batches: list[pa.RecordBatch], side: Side, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return many small batches as one, if their types allow it. Validates like `batches_of`."""
    if len(batches) < 2:
        return [each for batch in batches for each in batches_of(batch, side, schema)]
    try:
        # Building a table compares the schemas at once, which is faster than one by one.
        table = pa.Table.from_batches(batches).combine_chunks(memory_pool())
    except pa.ArrowException:
        return combined([each for batch in batches for each in batches_of(batch, side, schema)])
    return batches_of(table, side, schema)


class Turns:
    """Reads two streams in turns. A table without rows means that its reader has none at the moment."""

    def __init__(
        self, readers: Mapping[Side, Iterable[Any]], setup: Setup, frontiers: Mapping[Side, Frontier], rows: int
    ) -> None:
        self._open: dict[Side, Iterator[Any]] = {side: iter(reader) for side, reader in readers.items()}
        self._setup = setup
        self._frontiers = frontiers
        self._rows = max(rows, 1)

    def __iter__(self) -> Iterator[tuple[Side, list[pa.RecordBatch], bool]]:
        """Yield a side, its next rows, and whether they are its last."""
        side: Side = "right"
        is_idle = False
        while self._open:
            side = self._next(side, is_idle=is_idle)
            found, ended, is_idle = self._read(side)
            if ended:
                del self._open[side]
            yield side, gathered(found, side, self._setup.schema(side)), ended

    def _read(self, side: Side) -> tuple[list[pa.RecordBatch], bool, bool]:
        """Return the next rows of a side, whether they are its last, and whether it has no more at the moment."""
        found: list[pa.RecordBatch] = []
        count = 0
        while count < self._rows:
            table = next(self._open[side], None)
            if table is None:
                return found, True, False
            if isinstance(table, pa.RecordBatch):
                rows = table.num_rows
                found.append(table)
            else:
                batches = batches_of(table, side, self._setup.schema(side))
                rows = sum(batch.num_rows for batch in batches)
                found += batches
            if not rows:
                return found, False, True
            count += rows
        return found, False, False

    def _next(self, turn: Side, *, is_idle: bool) -> Side:
        if len(self._open) == 1:
            return next(iter(self._open))
        left, right = self._place("left"), self._place("right")
        if is_idle or left is None or right is None or left == right:
            return other_side(turn)
        return "left" if left < right else "right"

    def _place(self, side: Side) -> float | None:
        """Return the position of a side in a measure that both sides share; None if unknown."""
        orders = {each: self._frontiers[each].orders for each in self._frontiers}
        if not (orders["left"] and orders["right"]):
            return None
        if orders["left"][0].measure != orders["right"][0].measure:
            return None
        code = self._frontiers[side].least[0]
        return None if code is None else orders[side][0].measured(code)
