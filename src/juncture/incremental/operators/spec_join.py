"""Joins that store their own rows: those of `juncture.changes`, and outer, inequality and as-of joins in queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.errors import JunctureError
from juncture.incremental.changes.identity import Changes
from juncture.incremental.expressions.expression import Expression, evaluate
from juncture.incremental.operators.join_runtime import JoinRuntime, join_runtime
from juncture.incremental.operators.operator import Change, Flow, ViewOperator, batch_of
from juncture.incremental.state.arrangement import Arrangement, Delta, Journal, Place
from juncture.incremental.state.tables import StateTable
from juncture.matching.output import Output, project, stored_join
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side


class StoredJoinOperator(ViewOperator):
    """A join of two inputs that stores their rows, in their types. It returns rows before ``output`` finishes them."""

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        sources: Mapping[Side, ViewOperator],
        join: Resolved,
        output: Output,
    ) -> None:
        super().__init__(label, types, (sources["left"], sources["right"]))
        self.runtime: JoinRuntime = join_runtime(join, output)
        self.sides: dict[Side, JoinSide] = {side: JoinSide(side, self.runtime) for side in SIDES}
        self._journal = Journal()
        self._worked = False

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the inserted and deleted rows of the join."""
        for side, flow in zip(SIDES, flows, strict=True):
            if not self.sides[side].is_located:
                _, (_, unmatched) = self.sides[side].located(flow)
                assert not unmatched.any(), f"{self.label} received deletes of rows that it does not store"
        deltas = {side: (each.delta, each.places) for side, each in self.sides.items()}
        if not any(len(delta) for delta, _ in deltas.values()):
            return []
        self._journal, changes, self._worked = Journal(), Changes(are_wanted=self.is_output_read), True
        take = self.runtime.operator.apply if self.rows else self.runtime.operator.populate
        take(deltas, self._journal, changes)
        return self._output_rows(changes.gathered())

    def _output_rows(self, changes: Iterable[Change]) -> Flow:
        return list(changes)

    def commit(self) -> None:
        """Commit the rows of both sides."""
        self._journal = Journal()
        if self._worked:
            self.runtime.compact()
        self._forget_step()

    def abandon(self) -> None:
        """Restore the rows of both sides."""
        self._journal.undo()
        self._forget_step()

    def _forget_step(self) -> None:
        self._worked = False
        for each in self.sides.values():
            each.clear()

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The rows of both sides."""
        runtime = self.runtime
        return {
            side: StateTable(
                each.arrangement,
                runtime.keys,
                partial(runtime.keys_of, side),
                lambda run: runtime.keys.hashes(run.groups),
                len(each.nothing.codes),
                numbers_of=partial(runtime.numbers, side),
            )
            for side, each in self.sides.items()
        }

    @property
    def rows(self) -> int:
        """Number of distinct rows of both sides."""
        return sum(each.arrangement.rows for each in self.sides.values())

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the keys."""
        return self.runtime.keys.nbytes


class JoinSide:
    """The rows of one side, and their changes in this epoch."""

    def __init__(self, side: Side, runtime: JoinRuntime) -> None:
        self._side = side
        self._runtime = runtime
        self.arrangement: Arrangement = runtime.arrangements[side]
        self.nothing = runtime.nothing(side)
        self.clear()

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return self.arrangement.schema

    def located(self, flow: Flow) -> tuple[Delta, Change]:
        """Return distinct changes that can be applied, for the next step, and rows with their unmatched deletes."""
        self.clear()
        self.is_located = True
        if not flow:
            return self.nothing, (self.nothing.batch, self.nothing.weights)
        weights = np.concatenate([weights for _, weights in flow])
        delta = self._runtime.summed_delta(self._side, [batch for batch, _ in flow], weights)
        self.delta, self.places, unmatched = self.arrangement.locate(delta)
        return self.delta, (delta.batch, unmatched)

    def clear(self) -> None:
        """Discard the changes."""
        self.delta, self.places, self.is_located = self.nothing, list[Place](), False


class SpecJoinOperator(StoredJoinOperator):
    """Runs a join spec over computed ``columns`` of two inputs, by internal name; ``texts`` are names for messages."""

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
        self._columns = columns
        self._schemas: Mapping[Side, pa.Schema] = {
            side: pa.schema([(name, value.type) for name, value in columns[side].items()]) for side in SIDES
        }
        self._texts = texts
        with self._readable_errors():
            resolved = spec.resolve(self._schemas["left"], self._schemas["right"])
            join = stored_join(resolved)
        self._shown = shown
        self._output = Output(join, resolved.user_schema(self._schemas["left"], self._schemas["right"]))
        super().__init__(label, types, sources, join, self._output)

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the inserted and deleted rows of the join."""
        with self._readable_errors():
            return super().step([self._computed(side, flow) for side, flow in zip(SIDES, flows, strict=True)])

    def _computed(self, side: Side, flow: Flow) -> Flow:
        schema = self.sides[side].schema
        rows = []
        for batch, weights in flow:
            arrays = [evaluate(each, batch.columns, batch.num_rows) for each in self._columns[side].values()]
            rows.append((project(batch_of(arrays, self._schemas[side]), schema), weights))
        return rows

    def _output_rows(self, changes: Iterable[Change]) -> Flow:
        result = []
        for batch, weights in changes:
            start = 0
            for finished in self._output.finished([batch]):
                fields = zip(self._shown, self.schema, strict=True)
                arrays = [converted(finished.column(name), field.type) for name, field in fields]
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
