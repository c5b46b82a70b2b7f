"""The operators of a query, run for one epoch at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.errors import DataError
from juncture.incremental.changes.change_batch import (
    ChangeBatch,
    ChangeBatches,
    ChangesByName,
    read_changes,
    table_of,
)
from juncture.incremental.changes.identity import consolidated
from juncture.incremental.changes.source import Source
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.operators.order import SourceOrder
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.state.records import Position
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Words
from juncture.ordered.arithmetic import MIN_CODE

Batches = dict[str, list[pa.RecordBatch]]
"""What a query returns, by the name of the answer."""

ANSWER = "answer"
"""The name of the only answer of a query."""


@contextmanager
def one_epoch(what: str) -> Iterator[None]:
    """Raise `DataError` if the values of a column do not fit one Arrow array. ``what`` names the changes."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"The {what} are too large for one epoch: {error}. Split them into several epochs, or cast the column to a "
            "large type, such as pa.large_string().",
            name="JN-EPOCH-SIZE",
        ) from error


class Dataflow:
    """Runs operators.

    ``most_rows`` is the largest output of a join in the last epoch. ``bridges`` replace inputs of operators, by their
    positions. ``ordered`` has the sources with an order by the names of their scans.
    """

    def __init__(self, graph: OperatorGraph, ordered: Mapping[str, Source] = MappingProxyType({})) -> None:
        self.graph = graph
        self.bridges: dict[tuple[ViewOperator, int], ViewOperator] = {}
        self.most_rows = 0
        self._orders: dict[str, tuple[int, SourceOrder, Source]] = {}
        for name, source in ordered.items():
            types = dict(graph.scans[name].columns) if name in graph.scans else {}
            column = SourceOrder.of(name, source).column
            if column in types:
                order = SourceOrder.of(name, source, types[column])
                self._orders[name] = list(types).index(column), order, source

    @property
    def tables(self) -> dict[str, StateTable]:
        """The stored rows of all operators, by their names in a store."""
        return {
            self.table_name(operator, name): table
            for operator in self.graph.operators
            for name, table in operator.tables.items()
        }

    def table_name(self, operator: ViewOperator, name: str) -> str:
        """Return the name in a store of the rows that an operator has under a name."""
        return f"{self.graph.operators.index(operator)} {operator.label}: {name}"

    def run(self, changes: ChangesByName, *, wants_answers: bool = True) -> ChangesByName:
        """Return the output of an epoch, or raise `DataError` for a failed value. `commit` or `abandon` must follow."""
        readers = Counter(each for operator in self.graph.operators for each in self._inputs(operator))
        waiting = readers + Counter(self.graph.answers.values())
        outputs: dict[ViewOperator, ChangeBatches] = {}
        for source, entry in self.graph.inputs.items():
            outputs[entry] = [each for each in changes.get(source, []) if each[0].num_rows]
            entry.emitted_rows += sum(len(weights) for _, weights in outputs[entry])
        self.most_rows = 0
        for operator in self.graph.operators:
            if operator in outputs:
                continue
            operator.is_output_read = wants_answers or operator in readers
            input_changes = []
            for each in self._inputs(operator):
                waiting[each] -= 1
                # Rows are released with their last reader.
                input_changes.append(list(outputs.get(each, [])) if waiting[each] else outputs.pop(each, []))
            if operator.waits and not any(input_changes):
                outputs[operator] = []
                continue
            start = time.perf_counter()
            with self._readable_errors(operator):
                output = _step(operator, input_changes)
            rows = sum(len(weights) for _, weights in output)
            operator.emitted_rows += rows
            if operator.multiplies:
                self.most_rows = max(self.most_rows, rows)
            operator.seconds += time.perf_counter() - start
            outputs[operator] = output
        return {name: outputs[operator] for name, operator in self.graph.answers.items()}

    def _inputs(self, operator: ViewOperator) -> list[ViewOperator]:
        return [self.bridges.get((operator, index), each) for index, each in enumerate(operator.inputs)]

    def read(self, source: str, changes: Any, schema: pa.Schema, name: str) -> Iterator[ChangeBatch]:
        """Yield the changes of a source, named in messages: the columns that are read, in their working types."""
        scan = self.graph.scans.get(source)
        columns = () if scan is None else [(_index_of(schema.names, column), each) for column, each in scan.columns]
        for batch, weights in read_changes(changes, schema, name):
            if scan is not None and batch.num_rows:
                arrays = [converted(batch.column(index), data_type) for index, data_type in columns]
                yield ChangeBatch(batch_of(arrays, self.graph.inputs[source].schema), weights)

    def table(self, source: str) -> pa.Table:
        """Return the stored rows of a source, with the columns that are read."""
        rows = self.graph.source_rows[source]
        table = table_of(rows.arrangement.living(), rows.schema)
        return table.rename_columns([column for column, _ in self.graph.scans[source].columns])

    def part_hashes(self, operator: ViewOperator, index: int, batch: pa.RecordBatch) -> Words:
        """Return the hashes that divide the rows of an input of an operator into parts."""
        with self._readable_errors(operator):
            return operator.part_hashes(index, batch)

    @contextmanager
    def _readable_errors(self, operator: ViewOperator) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, DataError) as error:
            if not self.graph.scans and len(self.graph.operators) == 1 + len(self.graph.inputs):
                # The only operator needs no name.
                raise
            text, name = f"{error}. Correct the value, or protect it with CASE in the query.", ""
            if isinstance(error, DataError):
                text, name = error.message, error.name
            raise DataError(
                f"Operator {operator.label!r} failed, and these changes were not applied: {text}",
                name=name or "JN-VIEW-VALUE",
            ) from error

    # Orders

    def in_time(self, name: str, batches: ChangeBatches, before: Position, after: Position, what: str) -> ChangeBatches:
        """Return the changes of a source that are in time or repaired, and count late ones.

        ``what`` is the name of the changes in messages. The frontier is that before the epoch, so that changes of one
        epoch have no order among each other.
        """
        if name not in self._orders:
            return batches
        index, order, source = self._orders[name]
        frontier = least = MIN_CODE
        if name in before.greatest:
            frontier, least = (each(before.greatest[name]) for each in (order.frontier, order.repair_frontier))
        changes = []
        for change in batches:
            batch, weights = change
            codes = order.codes(batch.column(index))
            if codes is None:
                raise DataError(
                    f"The {what} have null or NaN in their order {order.column!r}, so the view cannot forget rows by "
                    "it. These changes were not applied. Drop such rows, or declare the source without an order.",
                    name="JN-ORDER-NULL",
                )
            rows = np.flatnonzero(codes >= least)
            counts = np.abs(weights)
            after.late[name] = after.late.get(name, 0) + int(counts[codes < least].sum())
            is_repaired = (codes >= least) & (codes < frontier)
            after.repaired[name] = after.repaired.get(name, 0) + int(counts[is_repaired].sum())
            if len(rows) < len(codes) and source.late == "error":
                value = batch.column(index)[int(np.argmin(codes))]
                raise DataError(
                    f"The {what} are late: {order.column!r} is {value}, but the frontier is {order.value(least)[0]}. "
                    "These changes were not applied. Pass a greater delay to jn.Order, or late='count'.",
                    name="JN-ROW-LATE",
                )
            changes.append(change if len(rows) == len(codes) else change.some(rows))
            greatest = int(codes[weights > 0].max(initial=MIN_CODE))
            if greatest > MIN_CODE:
                after.greatest[name] = max(greatest, after.greatest.get(name, greatest))
        return changes

    def forget(self, position: Position) -> None:
        """Remove rows that no changes after a position can need."""
        frontiers = {}
        for name, (_, order, _) in self._orders.items():
            if name in position.greatest:
                frontiers[name] = order.value(order.repair_frontier(position.greatest[name]))
        for operator in self.graph.operators if frontiers else ():
            start = time.perf_counter()
            operator.forget(frontiers)
            operator.seconds += time.perf_counter() - start

    # Commits

    def commit(self) -> None:
        """Commit the last epoch."""
        for operator in self.graph.operators:
            start = time.perf_counter()
            operator.commit()
            operator.seconds += time.perf_counter() - start
        for domain in self.graph.domains:
            domain.forget()

    def abandon(self) -> None:
        """Discard the last epoch."""
        for operator in self.graph.operators:
            operator.abandon()

    @property
    def others_bytes(self) -> int:
        """Bytes of memory that are not rows: keys and caches."""
        caches = sum(operator.fixed_bytes for operator in self.graph.operators)
        return caches + sum(domain.nbytes for domain in self.graph.domains)

    def restored(self) -> None:
        """Restore what operators derive from their rows, after these were opened."""
        for operator in self.graph.operators:
            operator.restored()


def _step(operator: ViewOperator, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
    """Return the output of an operator; if it fails, without rows whose weights cancel.

    In changes of a join, an old row of one table and a new row of another one may meet, for which an expression fails.
    """
    rows = _rows(input_changes)
    try:
        return operator.step(input_changes)
    except (pa.ArrowException, DataError):
        remaining = [
            consolidated(batches, source.schema) for source, batches in zip(operator.inputs, input_changes, strict=True)
        ]
        if _rows(input_changes) < rows or _rows(remaining) == rows:
            raise
    operator.abandon()
    return operator.step(remaining)


def _index_of(names: Sequence[str], column: str) -> int:
    """Return the position of a column, whose name in SQL may have another case."""
    return names.index(column) if column in names else [name.lower() for name in names].index(column.lower())


def _rows(input_changes: Sequence[ChangeBatches]) -> int:
    return sum(len(weights) for batches in input_changes for _, weights in batches)
