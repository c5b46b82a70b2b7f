"""The operators of views: a step that can be undone, then a commit that cannot fail. Some have no state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import true_rows
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.expressions.expression import Expression, InputColumn, evaluate
from juncture.incremental.operators.eviction import Frontiers, Future, final_rows
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Words


class ViewOperator:
    """A node of a dataflow. A source is one without inputs, and never steps. Counts cover all epochs."""

    is_stateless = False
    multiplies = False
    """Whether one row may become any number of rows."""

    def __init__(self, label: str, types: Sequence[pa.DataType], inputs: Sequence[ViewOperator]) -> None:
        self.label = label
        self.schema = schema_of(types)
        self.inputs = tuple(inputs)
        self.seconds = 0.0
        self.emitted_rows = 0
        self.is_output_read = True
        self.futures: dict[str, Future] = {}  # by table, all changes that can need its rows; none if they are kept
        self.retention = ""  # when rows are forgotten, as text

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the output changes for the changes of each input. `abandon` must be able to undo the step.

        The lists are those of the operator, which may empty them to release rows early. It is not run again then.
        """
        raise NotImplementedError

    @property
    def reads(self) -> Collection[ViewOperator]:
        """The operators whose stored rows it reads."""
        return ()

    @property
    def has_parts(self) -> bool:
        """Whether rows whose `part_hashes` differ do not meet, so that they can be in different epochs."""
        return True

    def part_hashes(self, _input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return hashes that divide the rows of an input into parts, in the order in which they are stored."""
        return np.zeros(batch.num_rows, np.uint64)

    @property
    def waits(self) -> bool:
        """Whether a step without input changes can be skipped."""
        return bool(self.inputs)

    def expected_rows(self, rows: Sequence[float]) -> float:
        """Return about how many rows a step emits for some rows of each input: the share of earlier epochs."""
        before = sum(each.emitted_rows for each in self.inputs)
        return sum(rows) * (self.emitted_rows / before if before else 1.0)

    def commit(self) -> None:
        """Commit the last step."""

    def abandon(self) -> None:
        """Undo the last step."""

    def forget(self, frontiers: Frontiers) -> None:
        """Remove rows that no future change can need, once they may be the majority."""
        for name, table in self.tables.items() if self.futures else ():
            if name in self.futures and table.arrangement.may_evict:
                table.arrangement.evict(partial(final_rows, self.futures[name], frontiers=frontiers))

    def restored(self) -> None:
        """Restore what is derived from rows, after the tables were opened."""

    def living(self) -> Iterator[ChangeBatch]:
        """Yield the distinct rows of the output with their weights, if the operator stores them."""
        raise NotImplementedError

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The stored rows of the operator, by name."""
        return {}

    @property
    def rows(self) -> int:
        """Number of stored rows or groups."""
        return 0

    @property
    def rows_on_disk(self) -> int:
        """Number of stored rows on disk."""
        return sum(len(run) for table in self.tables.values() for run in table.stored)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of memory that cannot spill."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory in total."""
        return self.fixed_bytes + sum(table.arrangement.nbytes for table in self.tables.values())


def schema_of(types: Sequence[pa.DataType]) -> pa.Schema:
    """Return a schema with columns named by position."""
    return pa.schema([(str(index), data_type) for index, data_type in enumerate(types)])


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as a batch."""
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


class FilterOperator(ViewOperator):
    """Returns the columns ``output_columns`` of the rows for which a condition is true."""

    is_stateless = True

    def __init__(self, label: str, source: ViewOperator, condition: Expression, output_columns: Sequence[int]) -> None:
        super().__init__(label, [source.schema.types[column] for column in output_columns], (source,))
        self._condition = condition
        self._output_columns = output_columns

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the matching rows."""
        changes = []
        for batch, weights in input_changes[0]:
            rows = true_rows(evaluate(self._condition, batch.columns, batch.num_rows))
            columns = batch_of([batch.column(column) for column in self._output_columns], self.schema)
            passed = ChangeBatch(columns, weights)
            if len(rows):
                changes.append(passed if len(rows) == len(weights) else passed.some(rows))
        return changes


class ProjectOperator(ViewOperator):
    """Computes expressions for each row."""

    is_stateless = True

    def __init__(self, label: str, source: ViewOperator, columns: Sequence[Expression]) -> None:
        super().__init__(label, [each.type for each in columns], (source,))
        self._columns = columns

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return one row per input row."""
        return [ChangeBatch(self._projected(batch), weights) for batch, weights in input_changes[0]]

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            batch.column(each.index) if isinstance(each, InputColumn) else evaluate(each, batch.columns, batch.num_rows)
            for each in self._columns
        ]
        return batch_of(arrays, self.schema)


class UnionOperator(ViewOperator):
    """Concatenates its inputs."""

    is_stateless = True

    @property
    def has_parts(self) -> bool:
        """Rows need no parts."""
        return False

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the rows of all inputs."""
        return [change for batches in input_changes for change in batches]
