"""Joins that store their own rows: outer joins, inequality joins and as-of joins.

They use the operators of `juncture.changes`, over columns that are computed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.errors import JunctureError
from juncture.incremental.changes.result_changes import Changes
from juncture.incremental.expressions.expression import Expression, evaluate
from juncture.incremental.operators.join_runtime import JoinRuntime, join_runtime
from juncture.incremental.operators.operator import Flow, ViewOperator, batch_of
from juncture.incremental.state.arrangement import Delta, Journal, Place
from juncture.incremental.state.tables import StateTable
from juncture.matching.output import Output, project, stored_join
from juncture.spec.base import Spec
from juncture.spec.schema import SIDES, Side


class SpecJoinOperator(ViewOperator):
    """Runs a join spec over computed columns of two inputs.

    ``columns`` has the expressions per side by internal name, ``shown`` the output columns, and ``texts`` the names of
    columns in messages.
    """

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        sources: Mapping[Side, ViewOperator],
        columns: Mapping[Side, Mapping[str, Expression]],
        spec: Spec,
        shown: Sequence[str],
        texts: Mapping[str, str],
    ) -> None:
        super().__init__(label, types, (sources["left"], sources["right"]))
        self._columns = columns
        schemas = {
            side: pa.schema([(name, value.type) for name, value in columns[side].items()]) for side in ("left", "right")
        }
        self._texts = texts
        with self._readable_errors():
            resolved = spec.resolve(schemas["left"], schemas["right"])
            join = stored_join(resolved)
        self._shown = shown
        self._output = Output(join, resolved.user_schema(schemas["left"], schemas["right"]))
        self._runtime: JoinRuntime = join_runtime(join, self._output)
        self._schemas = schemas
        self._journal = Journal()
        self._worked = False

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the inserted and deleted rows of the join."""
        with self._readable_errors():
            deltas = {side: self._located(side, flow) for side, flow in zip(SIDES, flows, strict=True)}
        if not any(len(delta) for delta, _ in deltas.values()):
            return []
        self._journal, changes, self._worked = Journal(), Changes(), True
        take = self._runtime.operator.apply if self.rows else self._runtime.operator.populate
        take(deltas, self._journal, changes)
        result = []
        for batch, weights in changes.gathered():
            start = 0
            for finished in self._output.finished([batch]):
                arrays = [
                    _in_type(finished.column(name), field.type)
                    for name, field in zip(self._shown, self.schema, strict=True)
                ]
                result.append((batch_of(arrays, self.schema), weights[start : start + finished.num_rows]))
                start += finished.num_rows
        return result

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Replace internal column names in messages by those of the query."""
        try:
            yield
        except JunctureError as error:
            # The lines after the first show the internal predicate.
            text = error.message.partition("\n")[0]
            text = re.sub(r"'([lr]\d+)'", lambda match: repr(self._texts.get(match[1], match[1])), text)
            raise type(error)(text, name=error.name) from None

    def _located(self, side: Side, flow: Flow) -> tuple[Delta, list[Place]]:
        arrangement = self._runtime.arrangements[side]
        if not flow:
            return self._runtime.nothing(side), []
        batches = [project(self._worked_out(side, batch), arrangement.schema) for batch, _ in flow]
        weights = np.concatenate([weights for _, weights in flow])
        delta, places, missing = arrangement.locate(
            self._runtime.delta(side, *arrangement.identity.consolidated(batches, weights))
        )
        assert not missing.any(), f"{self.label} received deletes of rows that it does not store"
        return delta, places

    def _worked_out(self, side: Side, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [evaluate(each, batch.columns, batch.num_rows) for each in self._columns[side].values()]
        return batch_of(arrays, self._schemas[side])

    def commit(self) -> None:
        """Commit the rows of both sides."""
        self._journal = Journal()
        if self._worked:
            self._runtime.compact()
        self._worked = False

    def abandon(self) -> None:
        """Restore the rows of both sides."""
        self._journal.undo()
        self._worked = False

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The rows of both sides."""
        runtime = self._runtime
        return {
            side: StateTable(
                arrangement,
                runtime.keys,
                partial(runtime.keys_of, side),
                lambda run: runtime.keys.hashes(run.groups),
                len(runtime.nothing(side).codes),
            )
            for side, arrangement in runtime.arrangements.items()
        }

    @property
    def rows(self) -> int:
        """Number of distinct rows of both sides."""
        return sum(arrangement.rows for arrangement in self._runtime.arrangements.values())


def _in_type(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    return array if array.type == data_type else converted(array, data_type)
