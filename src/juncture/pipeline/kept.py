"""The rows of a pipeline's step kept up to date in this process, while its sources change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.errors import PlanError, StateError
from juncture.incremental.change_batch import WEIGHT, read_changes, write_changes, written_schema
from juncture.incremental.join import ChangeJoin, ChangeSetup
from juncture.incremental.operator import identity_of
from juncture.incremental.view.operators.operator import Change, Flow, table_of
from juncture.incremental.view.store import ViewPosition, ViewStore
from juncture.kernels.array_types import Ints
from juncture.pipeline.changing import with_marks
from juncture.pipeline.expressions import derived_batches
from juncture.pipeline.model import Derived, JoinStep
from juncture.planner.statistics import Resources

_log = logging.getLogger(__name__)

Batches = list[pa.RecordBatch]
"""Changes, with a column of weights."""


class PipelineStore(ViewStore):
    """The rows of a pipeline's sources that change, and what the last epoch gave."""

    kind = "pipeline"


class KeptPipeline:
    """The rows of a step, as `juncture.follow` has them kept.

    What joins hold follows from the rows of the sources, and is worked out of them again when the state is opened: so
    an epoch is one write of what changed and what it led to, and all joins have taken it, or none.

    Parameters
    ----------
    steps
        The steps that change and lead to the rows, each after those that it reads; the last one has the rows.
    schemas
        The columns of sources and steps.
    sources
        The sources that change.
    table
        Returns the rows of a source or a step that does not change.
    store
        Opens the state, given what the pipeline is, as plain data, and the columns of the sources.
    work
        A folder for what does not fit in memory.
    resources
        What joins may use.

    Attributes
    ----------
    sources
        The sources that change.
    answer_schema, schema
        The columns of the rows, and of changes of them.

    Raises
    ------
    StateError
        If the state is of another pipeline, open in another process, or damaged.
    """

    def __init__(
        self,
        steps: Mapping[str, Derived | JoinStep],
        schemas: Mapping[str, pa.Schema],
        sources: Sequence[str],
        table: Callable[[str], pa.Table],
        store: Callable[[Mapping[str, Any], Mapping[str, pa.Schema]], PipelineStore],
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
        """Have the joins hold what the store has."""
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
        """Do nothing: what an error has left is loaded again by the next epoch."""

    @property
    def epoch(self) -> int:
        """How many epochs have been taken."""
        position = self._store.position()
        return 0 if position is None else position.epoch

    @property
    def offset(self) -> Any:
        """What was passed as ``offset`` last."""
        position = self._store.position()
        return None if position is None else position.offset

    def populate(self, *, offset: Any, **tables: Any) -> Batches:
        """Take the tables as they are at first, and return the rows."""
        return self.apply(offset=offset, **tables)

    def apply(self, *, offset: Any, **changes: Any) -> Batches:
        """Take the changes of an epoch, and return those of the rows.

        After an error, what was taken before is in the folder, from which the next epoch loads it again.

        Raises
        ------
        SchemaError, DataError, StateError
            If changes cannot be taken, or not be written.
        """
        if self._joined_epochs != self.epoch:
            self._load()
        flows = {name: list(read_changes(given, self._schemas[name], name)) for name, given in changes.items()}
        # Until the epoch is written, some joins have taken it, and others have not.
        self._joined_epochs = None
        answer = self._follow(flows)
        position = ViewPosition(self.epoch + 1, offset, {})
        (self._store.commit if self.epoch else self._store.checkpoint)(position, flows, answer)
        self._joined_epochs = position.epoch
        if self._store.wants_checkpoint:
            self._checkpoint(position, answer)
        return answer

    def _checkpoint(self, position: ViewPosition, answer: Batches) -> None:
        try:
            self._store.checkpoint(position, {name: [self._rows(name)] for name in self.sources}, answer)
        except StateError as error:
            # The epoch is in the folder. The next one tries again.
            _log.warning("No checkpoint was made: %s", error)

    def last(self) -> Batches:
        """Return what the last epoch gave."""
        return self._store.last()

    def result(self) -> pa.Table:
        """Return the rows after the first epoch, which are what it gave.

        Raises
        ------
        PlanError
            If there were more.
        """
        if self.epoch > 1:
            raise PlanError(f"The pipeline has taken {self.epoch:,} epochs, and its rows are in its sinks.")
        return table_of([change for batch in self.last() for change in _weighted(batch)], self.answer_schema)

    def table(self, name: str) -> pa.Table:
        """Return the rows of a source as they are."""
        return table_of([self._rows(name)], self._schemas[name])

    def close(self) -> None:
        """Let another process have the state."""
        self._store.close()

    def _rows(self, source: str) -> Change:
        """Return the distinct rows of a source, and how often each is there."""
        flow = list(self._store.rows(source)) or [(pa.RecordBatch.from_pylist([], self._schemas[source]), _NO_WEIGHTS)]
        return self._summed(source, flow)

    def _summed(self, name: str, flow: Flow) -> Change:
        weights = np.concatenate([weights for _, weights in flow])
        batch, weights, _ = self._identities[name].consolidated([batch for batch, _ in flow], weights)
        return batch, weights

    def _follow(self, flows: Mapping[str, Flow]) -> Batches:
        """Bring changes of the sources through all steps, and return those of the rows, each once."""
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
        # A table that does not change has come with the first epoch.
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
