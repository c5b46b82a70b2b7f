"""Rows of a pipeline's step, maintained in this process while its sources change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.errors import PlanError, StateError
from juncture.incremental.changes.change_batch import WEIGHT, read_changes, write_changes, written_schema
from juncture.incremental.join import ChangeJoin, ChangeSetup
from juncture.incremental.operators.join_runtime import identity_of
from juncture.incremental.operators.operator import Change, Flow, table_of
from juncture.incremental.runtime import ANSWER
from juncture.incremental.state.records import Position
from juncture.incremental.state.store import Store
from juncture.kernels.array_types import Ints
from juncture.pipeline.changing import with_marks
from juncture.pipeline.expressions import derived_batches
from juncture.pipeline.model import Derived, JoinStep
from juncture.planner.statistics import Resources

_log = logging.getLogger(__name__)

Batches = list[pa.RecordBatch]
"""Change batches with a weight column."""


class KeptPipeline:
    """The maintained rows of a step, a query for `juncture.follow`.

    The state stores only the sources' rows; the state of joins is computed from them when it is opened. So an epoch is
    one write of its changes and its output, and all joins have applied it, or none.

    Parameters
    ----------
    steps
        The steps that change and lead to the rows, each after its inputs. The last step has the rows.
    sources
        The sources that change.
    table
        Returns the rows of a source or step that does not change.
    store
        Opens the state, from a description of the pipeline as plain data, and the columns of the sources.
    work
        A folder to spill to.
    """

    def __init__(
        self,
        steps: Mapping[str, Derived | JoinStep],
        schemas: Mapping[str, pa.Schema],
        sources: Sequence[str],
        table: Callable[[str], pa.Table],
        store: Callable[[Mapping[str, Any], Mapping[str, pa.Schema]], Store],
        work: Path,
        resources: Resources,
    ) -> None:
        self._steps, self._schemas, self._work = steps, schemas, work
        self._shown = [*sources, *steps][-1]
        self._live = {*steps, *sources}
        self._table = table
        self.sources = list(sources)
        self.answer_schema = schemas[self._shown]
        self.schema = written_schema(self.answer_schema, "weight")
        self._identities = {
            name: identity_of(schemas[name], repr(name)) for name in dict.fromkeys([*sources, self._shown])
        }
        self._resources = resources
        self._joins: dict[str, ChangeJoin] = {}
        self._joined_epochs: int | None = None
        said = {"steps": repr(list(steps.items()))} | {f"source {name}": str(schemas[name]) for name in sources}
        self._store = store(said, {name: schemas[name] for name in sources})
        try:
            self._load()
        except BaseException:
            self._store.close()
            raise

    def _load(self) -> None:
        """Load the rows of the store into the joins."""
        self._joined_epochs = None
        self._joins = {
            name: ChangeJoin(
                ChangeSetup(step.spec, self._schemas[step.left], self._schemas[step.right]), self._resources
            )
            for name, step in self._steps.items()
            if isinstance(step, JoinStep)
        }
        if self.epoch:
            self._follow({name: list(self._store.rows(name)) for name in self.sources})
        self._joined_epochs = self.epoch

    def check_open(self) -> None:
        """Do nothing, because the next epoch reloads the state after an error."""

    @property
    def epoch(self) -> int:
        """The number of applied epochs."""
        position = self._store.position()
        return 0 if position is None else position.epoch

    @property
    def offset(self) -> Any:
        """The offset of the last epoch."""
        position = self._store.position()
        return None if position is None else position.offset

    def populate(self, *, offset: Any, **tables: Any) -> Batches:
        """Apply the initial rows of the tables, and return the result."""
        return self.apply(offset=offset, **tables)

    def apply(self, *, offset: Any, **changes: Any) -> Batches:
        """Apply the changes of an epoch, and return the changes of the result.

        After an error, the next epoch reloads the previous state from the folder.
        """
        if self._joined_epochs != self.epoch:
            self._load()
        flows = {name: list(read_changes(given, self._schemas[name], name)) for name, given in changes.items()}
        # Until the epoch is written, only some joins may have applied it.
        self._joined_epochs = None
        answer = self._follow(flows)
        position = Position(self.epoch + 1, offset, {})
        (self._store.commit if self.epoch else self._store.replace)(position, flows, {ANSWER: answer})
        self._joined_epochs = position.epoch
        if self._store.wants_checkpoint:
            self._checkpoint(position, answer)
        return answer

    def _checkpoint(self, position: Position, answer: Batches) -> None:
        try:
            self._store.replace(position, {name: [self._rows(name)] for name in self.sources}, {ANSWER: answer})
        except StateError as error:
            # The epoch is in the folder, and the next one retries the checkpoint.
            _log.warning("Checkpoint failed: %s", error)

    def last(self) -> Batches:
        """Return the output of the last epoch."""
        return self._store.last(ANSWER) or []

    def result(self) -> pa.Table:
        """Return the result of the first epoch."""
        if self.epoch > 1:
            raise PlanError(
                f"The result is only available after the first epoch, but the pipeline has applied {self.epoch:,} "
                "epochs. Read its sinks instead.",
                name="JN-RESULT-UNAVAILABLE",
            )
        return table_of([change for batch in self.last() for change in _weighted(batch)], self.answer_schema)

    def table(self, name: str) -> pa.Table:
        """Return the current rows of a source."""
        return table_of([self._rows(name)], self._schemas[name])

    def close(self) -> None:
        """Release the state for other processes."""
        self._store.close()

    def _rows(self, source: str) -> Change:
        """Return the distinct rows of a source with their counts."""
        flow = list(self._store.rows(source)) or [(pa.RecordBatch.from_pylist([], self._schemas[source]), _NO_WEIGHTS)]
        return self._summed(source, flow)

    def _summed(self, name: str, flow: Flow) -> Change:
        weights = np.concatenate([weights for _, weights in flow])
        batch, weights, _ = self._identities[name].consolidated([batch for batch, _ in flow], weights)
        return batch, weights

    def _follow(self, flows: Mapping[str, Flow]) -> Batches:
        """Apply changes of the sources to all steps, and return the consolidated changes of the result."""
        found = {
            name: [write_changes(batch, weights, "weight") for batch, weights in flows.get(name, [])]
            for name in self.sources
        }
        for name, step in self._steps.items():
            if isinstance(step, JoinStep):
                found[name] = self._joined(self._joins[name], step, found)
            else:
                found[name] = self._derived(name, step, found[step.from_])
        changed = [change for batch in found[self._shown] for change in _weighted(batch)]
        if not changed:
            return []
        batch, weights = self._summed(self._shown, changed)
        return [write_changes(batch, weights, "weight")] if batch.num_rows else []

    def _joined(self, join: ChangeJoin, step: JoinStep, found: Mapping[str, Batches]) -> Batches:
        if not join.epoch:
            sides = [found[read] if read in self._live else self._table(read) for read in (step.left, step.right)]
            return join.populate(left=sides[0], right=sides[1])
        # A table without changes was applied in the first epoch.
        left, right = (found.get(read, []) for read in (step.left, step.right))
        return join.apply(left=left, right=right) if left or right else []

    def _derived(self, name: str, step: Derived, changes: Batches) -> Batches:
        if not changes:
            return []
        rows = pa.RecordBatchReader.from_batches(changes[0].schema, changes)
        with derived_batches(name, with_marks(step, [WEIGHT]), rows, self._work) as batches:
            return [batch for batch in batches if batch.num_rows]


_NO_WEIGHTS = np.zeros(0, np.int64)


def _weighted(batch: pa.RecordBatch) -> list[Change]:
    """Return the rows of changes, and their weights."""
    place = batch.schema.get_field_index(WEIGHT)
    weights: Ints = np.asarray(batch.column(place))
    return [(batch.remove_column(place), weights)] if batch.num_rows else []
