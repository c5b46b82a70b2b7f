"""A join of two tables that change, whose answer is kept up to date."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.columnar.conversion import converted
from juncture.errors import DataError, PlanError, StateError
from juncture.incremental.answer import Changes
from juncture.incremental.arrangement import Delta, Journal
from juncture.incremental.change_batch import ChangeFormat, read_changes, write_changes, written_schema
from juncture.incremental.operator import SIDES, Deltas, identity_of, kept_join
from juncture.incremental.population import Weighted, gathered, in_parts
from juncture.incremental.run import EndToEnd
from juncture.incremental.state import StoredState
from juncture.incremental.store.saved import Position, Store
from juncture.kernels.array_types import Ints
from juncture.local.plan import plan as plan_local
from juncture.planner.statistics import Resources
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import Side
from juncture.streams.output import Output, streaming_join, to_streaming


@dataclass(frozen=True)
class ChangeSetup:
    """What a join of changing tables is made of."""

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
    """What a join holds of one side.

    Attributes
    ----------
    rows
        How many distinct rows, or a few more.
    bytes
        How much memory they take.
    unmatched_deletes
        How many deletes found no row.
    """

    rows: int
    bytes: int
    unmatched_deletes: int


class ChangeJoin:
    """A join of two tables that change. It is made by `juncture.changes`.

    Changes go in with `apply`, epoch by epoch, and the changes of the answer come out: added to the answer as it was,
    they make it the join of the two tables as they are.

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
        store: Callable[[Mapping[Side, pa.Schema]], Store] | None = None,
    ) -> None:
        self.setup = setup
        given: Resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)
        refuse_computed(given, "tables that change")
        self.answer_schema = given.given_back(setup.left_schema, setup.right_schema)
        self.schema = written_schema(self.answer_schema, setup.output)
        self._resources = resources
        self._join = streaming_join(given)
        self._output = Output(self._join, self.answer_schema)
        self._kept = kept_join(self._join, self._output)
        self._identity = identity_of(self._join.output_schema, "answer's")
        self._nothing = {side: self._kept.nothing(side) for side in SIDES}
        self._closed = False
        self._is_whole = True
        self._last: list[pa.RecordBatch] = []
        self._position = Position(0, None, dict.fromkeys(SIDES, 0))
        self._state: StoredState | None = None
        if store is not None:
            opened = store({side: held.schema for side, held in self._kept.arrangements.items()})
            self._state = StoredState(self._kept, opened, resources.memory_bytes)
            try:
                self._position = self._state.load() or self._position
            except BaseException:
                opened.close()
                raise

    @property
    def epoch(self) -> int:
        """How many epochs the join has taken."""
        return self._position.epoch

    @property
    def offset(self) -> Any:
        """What was passed as ``offset`` last."""
        return self._position.offset

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave, which may not have arrived after a crash or an error.

        What `populate` gave is not kept, since `result` makes it again.
        """
        self.check_open()
        return self._last if self._state is None else self._state.store.last()

    def apply(self, *, left: Any = None, right: Any = None, offset: Any = None) -> list[pa.RecordBatch]:
        """Take the changes of an epoch, and return those of the answer.

        Parameters
        ----------
        left, right
            What changed on a side: a record batch, a table that speaks Arrow, or a list of these. A column ``_weight``,
            a column ``_change_type``, or the columns ``op``, ``before`` and ``after`` say what comes and what goes;
            with none of them, all rows come. In what order changes come within an epoch makes no difference.
        offset
            Where the sources are by these changes, as plain data: it is kept with them, so that `offset` tells where to
            go on. None leaves it as it was.

        Returns
        -------
        list of pyarrow.RecordBatch
            The changes of the answer, in no order: each row once, and none that comes and goes.

        Raises
        ------
        SpecError, SchemaError
            If what is given is no table, or has other columns.
        DataError
            If a change is of no known kind, deletes what is not there (unless that is to be counted), or makes the join
            one that has no answer. Then nothing of the epoch has been taken.
        PlanError
            If the join is closed.
        StateError
            If the epoch cannot be written to its folder. Then it has not been taken either. After an error that leaves
            open what has been taken the join is closed: opened again, it has whole epochs, and `epoch` tells how many.
        """
        self.check_open()
        changes = {side: list(self._read(side, given)) for side, given in zip(SIDES, (left, right), strict=True)}
        return self._epoch(changes, offset)

    def populate(
        self, *, left: Any = None, right: Any = None, offset: Any = None, progress: Report | None = None
    ) -> list[pa.RecordBatch]:
        """Take the tables as they are at first, and return the answer: all of its rows come, equal ones one by one.

        Tables that are larger than ``memory=`` may come as a reader of batches. If the state is in a folder and rows
        have a key, they are joined part by part, and the answer lies in a file that is gone once nobody holds it. If
        the process ends before it is done, the folder is as it was.

        Parameters
        ----------
        left, right, offset
            As for `apply`.
        progress
            Called with what is being done (``"left"``, ``"right"``: rows are read, ``"output"``: they are joined), how
            much of it is done, and how much there is, 0 if that is not known.

        Raises
        ------
        PlanError
            If there are rows already, or the join is closed.
        SpecError, SchemaError, DataError, StateError
            As `apply` does.
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
            return self._at_once(taken, offset)
        parts = {side: chain(taken[side], streams[side]) for side in SIDES}
        return self._by_parts(self._state, parts, offset, progress)

    def _at_once(self, changes: Mapping[Side, list[Weighted]], offset: Any) -> list[pa.RecordBatch]:
        """Take the first rows, which fit in memory."""
        lacking, answer = dict(self._position.missing), []
        writers = {} if self._state is None else self._state.writers(is_sorted=False)
        arrangements = self._kept.arrangements
        self._is_whole = False
        try:
            joined = {side: self._end_to_end(side, changes[side]) for side in SIDES}
            for part in in_parts(self._kept, changes):
                answer += self._take_part({side: self._delta(side, part[side]) for side in SIDES}, lacking)
                if self._state is not None:
                    self._state.write(writers)
                for side in SIDES:
                    # No row of another part looks for them.
                    for run in arrangements[side].memory:
                        joined[side].add(run)
                    arrangements[side].memory = []
            for side in SIDES:
                with _one_piece(side):
                    held = joined[side].run()
                arrangements[side].memory = [] if held is None else [held]
            position = Position(1, offset, lacking)
            if self._state is not None:
                self._state.begin(position, writers)
        except BaseException:
            self._hold_nothing()
            raise
        self._position = position
        self._tidy()
        return answer

    def _end_to_end(self, side: Side, changes: Sequence[Weighted]) -> EndToEnd:
        """Return what makes one run of the first rows of a side."""
        arrangement = self._kept.arrangements[side]
        batches = [batch for batch, _ in changes]
        whole = [
            all(not batch.column(place).null_count for batch in batches) for place in range(len(arrangement.schema))
        ]
        lines = len(self._nothing[side].codes), arrangement.lines
        rows = sum(batch.num_rows for batch in batches)
        return EndToEnd(rows, arrangement.schema, whole, lines, arrangement.matching)

    def _by_parts(
        self, state: StoredState, changes: Mapping[Side, Iterable[Weighted]], offset: Any, report: Report | None
    ) -> list[pa.RecordBatch]:
        """Take the first rows, which are too many to be taken at once."""
        lacking = dict(self._position.missing)
        self._is_whole = False
        try:
            writers = state.writers(is_sorted=True)
            answer = state.parted(report).run(changes, partial(self._take_part, lacking=lacking), writers)
            position = Position(1, offset, lacking)
            state.take_in(position, writers)
        except BaseException:
            self._hold_nothing()
            raise
        self._position = position
        self._is_whole = True
        return answer

    def _take_part(self, found: Mapping[Side, Delta], lacking: dict[Side, int]) -> list[pa.RecordBatch]:
        """Take some of the first rows, whose keys no others have, and return their answer."""
        deltas, missing = self._located(found)
        lacking.update({side: lacking[side] + missing[side] for side in SIDES})
        given = Changes()
        self._kept.operator.populate(deltas, Journal(), given)
        return self._said(given.gathered())

    def _hold_nothing(self) -> None:
        """Be as before the first rows."""
        for arrangement in self._kept.arrangements.values():
            arrangement.memory = []
        self._check_whole()

    def _located(self, found: Mapping[Side, Delta]) -> tuple[Deltas, dict[Side, int]]:
        """Return what changes do, and how many deletes of each side find nothing."""
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
            answer = self._said(given.consolidated(self._identity))
            lacking = {side: self._position.missing[side] + missing[side] for side in SIDES}
            position = Position(self.epoch + 1, self.offset if offset is None else offset, lacking)
            if self._state is not None:
                self._state.keep(position, deltas, answer)
        except BaseException:
            journal.undo()
            if self._state is not None:
                self._state.drop()
            self._check_whole()
            raise
        self._position, self._last = position, answer
        self._tidy()
        return answer

    def _tidy(self) -> None:
        """Tidy up after an epoch that has been taken."""
        try:
            if self._state is None:
                self._kept.compact()
            else:
                self._state.settle(self._position)
        except BaseException:
            # A caller that tries again would have the epoch counted twice.
            self.close()
            raise
        self._is_whole = True

    def _check_whole(self) -> None:
        """Go on with what has been put back, unless the folder has the epoch nevertheless."""
        stored = self._position if self._state is None else self._state.store.position()
        self._is_whole = self.epoch == (0 if stored is None else stored.epoch)
        if not self._is_whole:
            self.close()

    def _read(self, side: Side, given: Any) -> Iterator[Weighted]:
        """Yield what was given of a side, in the types that rows are held in."""
        schema = self._kept.arrangements[side].schema
        for batch, weights in [] if given is None else read_changes(given, self.setup.schema(side), side):
            if batch.num_rows:
                yield to_streaming(batch, schema), weights

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
            f"{delta.batch.slice(row, 1).to_pylist()[0]}. The epoch was not applied. Correct the changes, or pass "
            "unmatched_deletes='count' to skip and count such deletes.",
            name="JN-DELETE-UNMATCHED",
        )

    def _said(self, answer: Iterator[tuple[pa.RecordBatch, Ints]]) -> list[pa.RecordBatch]:
        """Return the rows of the answer as users get them."""
        said = []
        for batch, weights in answer:
            first = 0
            for given in self._output.finished([batch]):
                said.append(write_changes(given, weights[first : first + given.num_rows], self.setup.output))
                first += given.num_rows
        return said

    def result(self) -> pa.Table:
        """Return the answer as it is: the join of the two tables as they are, by the batch engine."""
        self.check_open()
        plan = plan_local(
            self.setup.spec,
            self._now("left"),
            self._now("right"),
            algorithm="auto",
            stats=None,
            resources=self._resources,
        )
        table: pa.Table = plan.execute()
        return table

    def table(self, side: Side) -> pa.Table:
        """Return the rows of a side as they are, in no order. Columns that the join does not look at are null."""
        return pa.Table.from_batches(list(self._rows(side)), self.setup.schema(side))

    def _now(self, side: Side) -> pa.Table | pa.RecordBatchReader:
        """Return the same, but for rows that are on disk, which come as they are read."""
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
        """What is held of the left side."""
        return self._held("left")

    @property
    def right(self) -> SideRows:
        """What is held of the right side."""
        return self._held("right")

    def _held(self, side: Side) -> SideRows:
        arrangement = self._kept.arrangements[side]
        return SideRows(arrangement.rows, arrangement.nbytes, self._position.missing[side])

    def check_open(self) -> None:
        """Refuse to go on with a join that is closed.

        Raises
        ------
        PlanError
            If it has been closed.
        StateError
            If an error has left it with less than whole epochs.
        """
        if not self._is_whole:
            again = "Populate a new one" if self._state is None else "Close it and open its folder again"
            raise StateError(
                f"The join is incomplete in memory, because an error interrupted an epoch. {again} with jn.changes(…).",
                name="JN-STATE-CLOSED",
            )
        if self._closed:
            raise PlanError("The join is closed. Open it again with jn.changes(…).", name="JN-STATE-CLOSED")

    def close(self) -> None:
        """Let go of all that is held. What is in a folder stays there."""
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
    """Say so if a type cannot hold the values of a column in one piece."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"The {side} changes are too large for one epoch: {error}. Split them into several epochs, or cast the "
            "column to a large type, such as pa.large_string().",
            name="JN-EPOCH-SIZE",
        ) from error


def store_in(folder: Path, setup: ChangeSetup) -> Callable[[Mapping[Side, pa.Schema]], Store]:
    """Return what opens the state of a join in a folder, given the columns that are held of both sides."""
    try:
        rocksdb = import_module("juncture.incremental.store.rocksdb")
    except ImportError as error:
        raise PlanError(
            f"state={str(folder)!r} needs RocksDB, whose Python package is not installed ({error}). Run pip install "
            "'juncture[changes]', or pass state=None.",
            name="JN-PACKAGE-MISSING",
        ) from error
    return partial(rocksdb.RocksStore, folder, described(setup))


def described(setup: ChangeSetup) -> dict[str, Any]:
    """Return what a join is, as plain data."""
    schemas = {f"{side}_schema": _shown(setup.schema(side)) for side in SIDES}
    return {"spec": json.loads(json.dumps(setup.spec.to_dict())), **schemas}


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)
