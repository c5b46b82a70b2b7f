"""A maintained join of two tables that change."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.columnar.conversion import converted
from juncture.errors import DataError, PlanError, StateError
from juncture.incremental.changes.change_batch import ChangeFormat, read_changes, write_changes, written_schema
from juncture.incremental.changes.result_changes import Changes
from juncture.incremental.operators.join_runtime import Deltas, identity_of, join_runtime
from juncture.incremental.placement import StoredState
from juncture.incremental.population import Weighted, gathered, in_parts
from juncture.incremental.state.arrangement import Delta, Journal
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.incremental.state.records import Position
from juncture.incremental.state.run import RunConcatenator
from juncture.kernels.array_types import Ints
from juncture.local.plan import plan as plan_local
from juncture.matching.output import Output, project, stored_join
from juncture.planner.statistics import Resources
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store


@dataclass(frozen=True)
class ChangeSetup:
    """The definition of a join of changing tables."""

    spec: Spec
    left_schema: pa.Schema
    right_schema: pa.Schema
    output: ChangeFormat = "weight"
    unmatched_deletes: Literal["error", "count"] = "error"

    def __post_init__(self) -> None:
        check_choice("output", self.output, ("weight", "change_type", "debezium"))
        check_choice("unmatched_deletes", self.unmatched_deletes, ("error", "count"))

    def schema(self, side: Side) -> pa.Schema:
        """Return the columns of a side."""
        return self.left_schema if side == "left" else self.right_schema


@dataclass(frozen=True)
class SideRows:
    """The stored rows of one side.

    Attributes
    ----------
    rows
        Number of distinct rows, or a few more.
    bytes
        Memory of the rows.
    unmatched_deletes
        Number of deletes that found no row.
    """

    rows: int
    bytes: int
    unmatched_deletes: int


class ChangeJoin:
    """A join of two tables that change, created by `juncture.changes`.

    Pass the changes of each epoch to `apply`. It returns the changes of the result: added to the previous result, they
    give the join of the two tables as they are now. The cost of an epoch follows the number of changes and their
    matches. Memory: the rows of both sides; with ``state=`` at most ``memory=``, and the rest on disk.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> customers, sales = pa.schema({"id": pa.int64(), "name": pa.string()}), pa.schema({"id": pa.int64()})
    >>> join = jn.changes(customers, sales, jn.Equi(on="id"))
    >>> [batch.to_pylist() for batch in join.apply(left=pa.table({"id": [1], "name": ["Adam"]}))]
    []
    >>> [batch.to_pylist() for batch in join.apply(right=pa.table({"id": [1]}))]
    [[{'id': 1, 'name': 'Adam', '_weight': 1}]]
    >>> renamed = pa.table({"id": [1, 1], "name": ["Adam", "Eve"], "_weight": [-1, 1]})
    >>> [sorted(batch.to_pylist(), key=lambda row: row["_weight"]) for batch in join.apply(left=renamed)]
    [[{'id': 1, 'name': 'Adam', '_weight': -1}, {'id': 1, 'name': 'Eve', '_weight': 1}]]
    """

    def __init__(
        self,
        setup: ChangeSetup,
        resources: Resources,
        store: Callable[[Mapping[str, pa.Schema]], Store] | None = None,
    ) -> None:
        self.setup = setup
        given: Resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)
        refuse_computed(given, "tables that change")
        self.answer_schema = given.user_schema(setup.left_schema, setup.right_schema)
        self.schema = written_schema(self.answer_schema, setup.output)
        self._resources = resources
        self._join = stored_join(given)
        self._output = Output(self._join, self.answer_schema)
        self._kept = join_runtime(self._join, self._output)
        self._identity = identity_of(self._join.output_schema, "answer's")
        self._nothing = {side: self._kept.nothing(side) for side in SIDES}
        self._closed = False
        self._is_whole = True
        self._last: list[pa.RecordBatch] = []
        self._position = Position(0, None, dict.fromkeys(SIDES, 0))
        self._state: StoredState | None = None
        if store is not None:
            opened = store({side: held.schema for side, held in self._kept.arrangements.items()})
            self._state = StoredState(self._kept, opened)
            try:
                self._position = self._state.load() or self._position
            except BaseException:
                opened.close()
                raise

    @property
    def epoch(self) -> int:
        """Number of epochs applied."""
        return self._position.epoch

    @property
    def offset(self) -> Any:
        """The last ``offset``."""
        return self._position.offset

    def last(self) -> list[pa.RecordBatch]:
        """Return the changes of the last epoch, which may not have been processed before a crash or an error.

        The result of `populate` is not stored. Use `result` for it.
        """
        self.check_open()
        return self._last if self._state is None else self._state.store.last() or []

    def apply(self, *, left: Any = None, right: Any = None, offset: Any = None) -> list[pa.RecordBatch]:
        """Apply the changes of an epoch, and return those of the result.

        Parameters
        ----------
        left, right
            Changes of a side: a ``pyarrow.RecordBatch``, a table with the Arrow PyCapsule interface, or a list of
            them. A column ``_weight`` or ``_change_type``, or the columns ``op``, ``before`` and ``after``, mark
            inserts and deletes; without them, all rows are inserted. The order of changes within an epoch does not
            matter.
        offset
            Position of the sources after these changes, as plain data. It is committed with them and returned by
            `offset`. None leaves it unchanged.

        Returns
        -------
        list of pyarrow.RecordBatch
            Changes of the result, in no order. Each row appears once, and changes that cancel do not appear.

        Raises
        ------
        SpecError, SchemaError
            If an argument is not a table, or has other columns.
        DataError
            If a change is invalid, deletes a row that does not exist (unless these are counted), or causes a tie that
            is an error. The epoch is then not applied.
        PlanError
            If the join is closed.
        StateError
            If the epoch cannot be written to its folder. It is then not applied. If it is unknown whether it was
            committed, the join is closed: opened again, `epoch` returns the number of committed epochs.
        """
        self.check_open()
        changes = {side: list(self._read(side, given)) for side, given in zip(SIDES, (left, right), strict=True)}
        return self._epoch(changes, offset)

    def populate(
        self, *, left: Any = None, right: Any = None, offset: Any = None, progress: Report | None = None
    ) -> list[pa.RecordBatch]:
        """Load the initial tables, and return the result. Equal rows are returned separately.

        Tables larger than ``memory=`` can be passed as readers of batches. If the state is in a folder and the join
        has keys, they are joined in parts, and the result is in a temporary file that exists as long as the returned
        batches. After a crash, the folder is unchanged.

        Parameters
        ----------
        left, right, offset
            As in `apply`.
        progress
            Called with a phase (``"left"`` and ``"right"`` while rows are read, ``"output"`` while they are joined),
            the work done, and the total work, 0 if unknown.

        Returns
        -------
        list of pyarrow.RecordBatch
            The result, as inserts in no order.

        Raises
        ------
        PlanError
            If the join already has rows, or is closed.
        SpecError, SchemaError, DataError, StateError
            Like `apply`.
        """
        if self.epoch:
            raise PlanError(
                f"populate(…) needs an empty join, but this one has applied {self.epoch:,} epochs. Pass changes to "
                "apply(…).",
                name="JN-STATE-NOT-EMPTY",
            )
        self.check_open()
        streams = {side: self._read(side, given) for side, given in zip(SIDES, (left, right), strict=True)}
        taken: dict[Side, list[Weighted]] = {side: [] for side in SIDES}
        left_bytes = math.inf if self._state is None else self._state.first_bytes
        for side in SIDES:
            if left_bytes > 0:
                taken[side], left_bytes = gathered(streams[side], left_bytes)
        if self._state is None or left_bytes > 0:
            return self._load_in_memory(taken, offset)
        parts = {side: chain(taken[side], streams[side]) for side in SIDES}
        return self._load_in_parts(self._state, parts, offset, progress)

    def _load_in_memory(self, changes: Mapping[Side, list[Weighted]], offset: Any) -> list[pa.RecordBatch]:
        """Load initial rows that fit in memory."""
        unmatched, answer = dict(self._position.missing), []
        writers = {} if self._state is None else self._state.writers(is_sorted=False)
        arrangements = self._kept.arrangements
        self._is_whole = False
        try:
            joined = {side: self._concatenator(side, changes[side]) for side in SIDES}
            for part in in_parts(self._kept, changes):
                answer += self._load_part({side: self._delta(side, part[side]) for side in SIDES}, unmatched)
                if self._state is not None:
                    self._state.write(writers)
                for side in SIDES:
                    # Rows of other parts have other keys.
                    for run in arrangements[side].memory:
                        joined[side].add(run)
                    arrangements[side].memory = []
            for side in SIDES:
                with _one_piece(side):
                    held = joined[side].run()
                arrangements[side].memory = [] if held is None else [held]
            position = Position(1, offset, unmatched)
            if self._state is not None:
                self._state.begin(position, writers)
        except BaseException:
            self._remove_initial_rows()
            raise
        self._position = position
        self._compact()
        return answer

    def _concatenator(self, side: Side, changes: Sequence[Weighted]) -> RunConcatenator:
        """Return what concatenates the initial rows of a side into one run."""
        arrangement = self._kept.arrangements[side]
        batches = [batch for batch, _ in changes]
        whole = [
            all(not batch.column(place).null_count for batch in batches) for place in range(len(arrangement.schema))
        ]
        lines = len(self._nothing[side].codes), arrangement.lines
        rows = sum(batch.num_rows for batch in batches)
        return RunConcatenator(rows, arrangement.schema, whole, lines, arrangement.matching)

    def _load_in_parts(
        self, state: StoredState, changes: Mapping[Side, Iterable[Weighted]], offset: Any, report: Report | None
    ) -> list[pa.RecordBatch]:
        """Load initial rows that do not fit in memory."""
        unmatched = dict(self._position.missing)
        self._is_whole = False
        try:
            writers = state.writers(is_sorted=True)
            answer = state.parted(report).run(changes, partial(self._load_part, unmatched=unmatched), writers)
            position = Position(1, offset, unmatched)
            state.take_in(position, writers)
        except BaseException:
            self._remove_initial_rows()
            raise
        self._position = position
        self._is_whole = True
        return answer

    def _load_part(self, found: Mapping[Side, Delta], unmatched: dict[str, int]) -> list[pa.RecordBatch]:
        """Load some of the initial rows, whose keys no other part has, and return their result."""
        deltas, missing = self._located(found)
        unmatched.update({side: unmatched[side] + missing[side] for side in SIDES})
        given = Changes()
        self._kept.operator.populate(deltas, Journal(), given)
        return self._formatted(given.gathered())

    def _remove_initial_rows(self) -> None:
        """Remove the initial rows after an error."""
        for arrangement in self._kept.arrangements.values():
            arrangement.memory = []
        self._check_committed()

    def _located(self, found: Mapping[Side, Delta]) -> tuple[Deltas, dict[Side, int]]:
        """Return located changes, and the number of unmatched deletes of each side."""
        located = {side: self._kept.arrangements[side].locate(delta) for side, delta in found.items()}
        if self.setup.unmatched_deletes == "error":
            for side, (_, _, missing) in located.items():
                self._refuse_missing(side, found[side], missing)
        deltas = {side: (delta, places) for side, (delta, places, _) in located.items()}
        return deltas, {side: int(missing.sum()) for side, (_, _, missing) in located.items()}

    def _epoch(self, changes: Mapping[Side, list[Weighted]], offset: Any) -> list[pa.RecordBatch]:
        journal, given = Journal(), Changes()
        self._is_whole = False
        try:
            deltas, missing = self._located({side: self._delta(side, changes[side]) for side in SIDES})
            self._kept.operator.apply(deltas, journal, given)
            answer = self._formatted(given.consolidated(self._identity))
            unmatched: dict[str, int] = {side: self._position.missing[side] + missing[side] for side in SIDES}
            position = Position(self.epoch + 1, self.offset if offset is None else offset, unmatched)
            if self._state is not None:
                self._state.keep(position, deltas, answer)
        except BaseException:
            journal.undo()
            if self._state is not None:
                self._state.drop()
            self._check_committed()
            raise
        self._position, self._last = position, answer
        self._compact()
        return answer

    def _compact(self) -> None:
        """Compact and merge after an epoch."""
        try:
            if self._state is None:
                self._kept.compact()
            else:
                self._state.after_epoch(self._position)
        except BaseException:
            # A caller that retries would apply the epoch twice.
            self.close()
            raise
        self._is_whole = True

    def _check_committed(self) -> None:
        """Close the join after an error if the folder has the epoch although memory does not."""
        stored = self._position if self._state is None else self._state.store.position()
        self._is_whole = self.epoch == (0 if stored is None else stored.epoch)
        if not self._is_whole:
            self.close()

    def _read(self, side: Side, given: Any) -> Iterator[Weighted]:
        """Yield changes of a side, in the types of stored rows."""
        schema = self._kept.arrangements[side].schema
        for batch, weights in [] if given is None else read_changes(given, self.setup.schema(side), side):
            if batch.num_rows:
                yield project(batch, schema), weights

    def _delta(self, side: Side, changes: Sequence[Weighted]) -> Delta:
        """Return changes of a side as those of distinct rows."""
        if not changes:
            return self._nothing[side]
        batches = [batch for batch, _ in changes]
        weights = np.concatenate([weights for _, weights in changes])
        with _one_piece(side):
            return self._kept.summed_delta(side, batches, weights)

    def _refuse_missing(self, side: Side, delta: Delta, missing: Ints) -> None:
        if not missing.any():
            return
        row = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"The {side} changes delete a row that does not exist ({int(missing.sum()):,} in all): "
            f"{delta.batch.slice(row, 1).to_pylist()[0]}. These changes were not applied. Correct them, or pass "
            "unmatched_deletes='count' to skip and count such deletes.",
            name="JN-DELETE-UNMATCHED",
        )

    def _formatted(self, answer: Iterator[tuple[pa.RecordBatch, Ints]]) -> list[pa.RecordBatch]:
        """Return result rows in the format that users get."""
        formatted = []
        for batch, weights in answer:
            first = 0
            for given in self._output.finished([batch]):
                formatted.append(write_changes(given, weights[first : first + given.num_rows], self.setup.output))
                first += given.num_rows
        return formatted

    def result(self) -> pa.Table:
        """Return the current result. It is computed by a batch join of the current tables."""
        self.check_open()
        plan = plan_local(
            self.setup.spec,
            self._current("left"),
            self._current("right"),
            algorithm="auto",
            stats=None,
            resources=self._resources,
        )
        table: pa.Table = plan.execute()
        return table

    def table(self, side: Side) -> pa.Table:
        """Return the current rows of a side, in no order. Columns that the join does not read are null."""
        return pa.Table.from_batches(list(self._rows(side)), self.setup.schema(side))

    def _current(self, side: Side) -> pa.Table | pa.RecordBatchReader:
        """Return the current rows of a side; rows on disk as a reader."""
        if self._kept.arrangements[side].pages is None:
            return self.table(side)
        return pa.RecordBatchReader.from_batches(self.setup.schema(side), self._rows(side))

    def _rows(self, side: Side) -> Iterator[pa.RecordBatch]:
        schema = self.setup.schema(side)
        for batch, weights in self._kept.arrangements[side].living():
            rows = np.repeat(np.arange(batch.num_rows), weights)
            expanded = batch if len(rows) == batch.num_rows else rows_of(batch, array_of(rows, pa.int64()))
            columns = [
                converted(expanded.column(field.name), field.type)
                if field.name in batch.schema.names
                else pa.nulls(len(rows), field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def left(self) -> SideRows:
        """Number and memory of the stored left rows."""
        return self._held("left")

    @property
    def right(self) -> SideRows:
        """Number and memory of the stored right rows."""
        return self._held("right")

    def _held(self, side: Side) -> SideRows:
        arrangement = self._kept.arrangements[side]
        return SideRows(arrangement.rows, arrangement.nbytes, self._position.missing[side])

    def check_open(self) -> None:
        """Raise an error if the join is closed.

        Raises
        ------
        PlanError
            If the join is closed.
        StateError
            If an error has interrupted an epoch.
        """
        if not self._is_whole:
            again = "Populate a new one" if self._state is None else "Close it and open its folder again"
            raise StateError(
                f"The join is incomplete in memory, because an error interrupted an epoch. {again} with jn.changes(…).",
                name="JN-STATE-INCOMPLETE",
            )
        if self._closed:
            raise PlanError("The join is closed. Open it again with jn.changes(…).", name="JN-STATE-CLOSED")

    def close(self) -> None:
        """Close the join, and release its memory. State in a folder is preserved."""
        if self._closed:
            return
        self._closed = True
        if self._state is not None:
            self._state.close()

    def __enter__(self) -> ChangeJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _one_piece(side: Side) -> Iterator[None]:
    """Raise an error if the values of a column do not fit one Arrow array."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"The {side} changes are too large for one epoch: {error}. Split them into several epochs, or cast the "
            "column to a large type, such as pa.large_string().",
            name="JN-EPOCH-SIZE",
        ) from error


def store_in(folder: Path, setup: ChangeSetup, policy: MemoryPolicy) -> Callable[[Mapping[str, pa.Schema]], Store]:
    """Return a function that opens the state of a join in a folder, given the stored columns of both sides."""
    return store_opener(folder, "join", policy, described(setup))


def described(setup: ChangeSetup) -> dict[str, Any]:
    """Return the definition of a join as plain data."""
    schemas = {f"{side}_schema": schema_text(setup.schema(side)) for side in SIDES}
    return {"spec": json.loads(json.dumps(setup.spec.to_dict())), **schemas}


def schema_text(schema: pa.Schema) -> str:
    """Return the columns of a schema with their types."""
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)
