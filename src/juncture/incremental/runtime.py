"""A running query: its operators apply an epoch completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import DataError
from juncture.incremental.operators.operator import Change, Flow, table_of
from juncture.incremental.plan.nodes import PlanNode
from juncture.incremental.plan.physical import operators_of
from juncture.incremental.state.arrangement import Delta
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Ints


class Dataflow:
    """The operators of a plan. ``most_rows`` is the largest output of one operator in the last epoch."""

    def __init__(self, plan: PlanNode, static: Collection[str]) -> None:
        self.built = operators_of(plan, static)
        self.most_rows = 0

    @property
    def tables(self) -> dict[str, StateTable]:
        """The stored rows of all operators, by the number and label of the operator and their name in it."""
        return {
            f"{number} {operator.label}: {name}": table
            for number, operator in enumerate(self.built.operators)
            for name, table in operator.tables.items()
        }

    def located(self, source: str, flow: Flow) -> tuple[Delta, Ints]:
        """Return the applicable changes of a source and the unmatched deletes. `run` or `abandon` must follow."""
        return self.built.source_rows[source].located(flow)

    def run(self, changes: Mapping[str, Flow]) -> Flow:
        """Return the output of an epoch, or raise `DataError` for a failed value. `commit` or `abandon` must follow."""
        for source, entry in self.built.inputs.items():
            entry.put = [each for each in changes.get(source, []) if each[0].num_rows]
        outputs: dict[int, Flow] = {}
        self.most_rows = 0
        for operator in self.built.operators:
            flows = [outputs[id(each)] for each in operator.inputs]
            if operator.waits and not any(flows):
                outputs[id(operator)] = []
                continue
            start = time.perf_counter()
            try:
                output = operator.step(flows)
            except (pa.ArrowException, DataError) as error:
                text, name = f"{error}. Correct the value, or protect it with CASE in the query.", ""
                if isinstance(error, DataError):
                    text, name = error.message, error.name
                raise DataError(
                    f"Operator {operator.label!r} failed, and these changes were not applied: {text}",
                    name=name or "JN-VIEW-VALUE",
                ) from error
            rows = sum(len(weights) for _, weights in output)
            operator.emitted_rows += rows
            self.most_rows = max(self.most_rows, rows)
            operator.seconds += time.perf_counter() - start
            outputs[id(operator)] = output
        return outputs[id(self.built.answer)]

    def commit(self) -> None:
        """Commit the last epoch."""
        for operator in self.built.operators:
            start = time.perf_counter()
            operator.commit()
            operator.seconds += time.perf_counter() - start
        for domain in self.built.domains:
            domain.forget()

    def abandon(self) -> None:
        """Discard the last epoch."""
        for operator in self.built.operators:
            operator.abandon()

    @property
    def others_bytes(self) -> int:
        """Bytes of memory that are not rows: keys and caches."""
        caches = sum(operator.fixed_bytes for operator in self.built.operators)
        return caches + sum(domain.nbytes for domain in self.built.domains)

    def restored(self) -> None:
        """Restore what operators derive from their rows, after these were opened."""
        for operator in self.built.operators:
            operator.restored()

    @property
    def answers(self) -> Iterator[Change]:
        """Distinct rows of the result with their weights."""
        return self.built.answer.arrangement.living()

    def answer(self, names: Sequence[str]) -> pa.Table:
        """Return the rows of the result in no order, repeated by weight."""
        return table_of(self.answers, self.built.answer.schema).rename_columns(list(names))

    def rows(self, source: str) -> Iterator[Change]:
        """Yield the distinct rows of a source with their weights."""
        return self.built.source_rows[source].arrangement.living()

    def source(self, source: str) -> pa.Table:
        """Return the rows of a source in no order, repeated by weight."""
        return table_of(self.rows(source), self.built.source_rows[source].schema)


# Initial rows

Piece = dict[str, Flow]
"""Rows by source."""

_ROW_BYTES = 60
"""Approximate bytes of a row in memory besides its columns."""

_FOLLOWING = 4
"""Output rows per input row in a piece of full size. They have fewer columns, and are short-lived."""

_CAREFUL = 16
"""The first piece of a source is smaller by this factor, and pieces grow by it at most."""


class PieceSize:
    """The bytes of a source to load at once. ``most_bytes`` limits the rows and the rows that follow from them."""

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.now_bytes = most_bytes

    def begin(self) -> None:
        """Reset for the next source, whose rows may have any number of matches."""
        self.now_bytes = self.most_bytes / _CAREFUL

    def adapt(self, rows: int, most_rows: int) -> None:
        """Adapt the size to the rows of the last piece and the largest output of one operator."""
        self.now_bytes = min(
            _CAREFUL * self.now_bytes, self.most_bytes * min(1.0, _FOLLOWING * rows / max(most_rows, 1))
        )


def pieces(streams: Mapping[str, Iterable[Change]], together: Collection[str], size: PieceSize) -> Iterator[Piece]:
    """Yield at least one piece of rows. The sources in ``together`` are in the first piece, whatever their size."""
    piece: Piece = {}
    taken, is_first = 0.0, True
    for source in sorted(streams, key=lambda each: each not in together):
        if not is_first:
            if piece:
                yield piece
            piece, taken = {}, 0.0
            size.begin()
        for batch, weights in streams[source]:
            row_bytes = _ROW_BYTES + batch.nbytes / max(batch.num_rows, 1)
            first = 0
            while first < batch.num_rows:
                if taken >= size.now_bytes and source not in together:
                    yield piece
                    piece, taken, is_first = {}, 0.0, False
                room = batch.num_rows if source in together else (size.now_bytes - taken) / row_bytes
                count = min(batch.num_rows - first, int(max(1, min(room, batch.num_rows))))
                piece.setdefault(source, []).append((batch.slice(first, count), weights[first : first + count]))
                taken += row_bytes * count
                first += count
    if piece or is_first:
        yield piece


def combined(epochs: Iterable[Mapping[str, Flow]], most_rows: int) -> Iterator[list[Mapping[str, Flow]]]:
    """Yield consecutive epochs together, with about ``most_rows`` changes or one epoch."""
    some: list[Mapping[str, Flow]] = []
    rows = 0
    for epoch in epochs:
        some.append(epoch)
        rows += sum(len(weights) for flow in epoch.values() for _, weights in flow)
        if rows >= most_rows:
            yield some
            some, rows = [], 0
    if some:
        yield some


def deletes_last(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes with deletes last, when the rows that they delete exist."""
    deletes: Flow = []
    for batch, weights in changes:
        is_delete = weights < 0
        if not is_delete.any():
            yield batch, weights
            continue
        inserts: Flow = []
        for mask, target in ((is_delete, deletes), (~is_delete, inserts)):
            rows = np.flatnonzero(mask)
            target.append((rows_of(batch, array_of(rows, pa.int64())), weights[rows]))
        yield from inserts
    yield from deletes
