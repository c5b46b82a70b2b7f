"""A join of two tables that change, whose answer is kept up to date."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.columnar.conversion import converted
from juncture.errors import DataError, PlanError
from juncture.incremental.answer import Changes
from juncture.incremental.arrangement import Delta, Journal
from juncture.incremental.change_batch import ChangeFormat, read_changes, write_changes, written_schema
from juncture.incremental.operator import SIDES, identity_of, kept_join
from juncture.kernels.array_types import Ints
from juncture.local.plan import plan as plan_local
from juncture.spec.arguments import check_choice
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.streams.output import Output, streaming_join, to_streaming

__all__ = ["ChangeJoin", "ChangeSetup", "SideRows"]


@dataclass(frozen=True)
class ChangeSetup:
    """What a join of changing tables is made of.

    Attributes
    ----------
    spec
        What it means.
    left_schema, right_schema
        The columns of both sides.
    output
        How the changes of the answer are said.
    missing
        What becomes of deletes of rows that are not there.
    """

    spec: Spec
    left_schema: pa.Schema
    right_schema: pa.Schema
    output: ChangeFormat = "weight"
    missing: Literal["error", "count"] = "error"

    def __post_init__(self) -> None:
        check_choice("output", self.output, ("weight", "change_type", "debezium"))
        check_choice("missing", self.missing, ("error", "count"))

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
    missing
        How many deletes found no row.
    """

    rows: int
    bytes: int
    missing: int


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
    >>> [batch.to_pylist() for batch in join.apply(left=renamed)]
    [[{'id': 1, 'name': 'Adam', '_weight': -1}, {'id': 1, 'name': 'Eve', '_weight': 1}]]
    """

    def __init__(self, setup: ChangeSetup, memory_bytes: int | None = None) -> None:
        self.setup = setup
        given: Resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)
        self.answer_schema = given.given_back(setup.left_schema, setup.right_schema)
        self.schema = written_schema(self.answer_schema, setup.output)
        self._memory_bytes = memory_bytes
        self._join = streaming_join(given)
        self._output = Output(self._join, self.answer_schema)
        self._identity = identity_of(self._join.output_schema, "answer's")
        self._kept = kept_join(self._join, self._output)
        self._missing = dict.fromkeys(SIDES, 0)
        self._closed = False
        self.epoch = 0

    def apply(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Take the changes of an epoch, and return those of the answer.

        Parameters
        ----------
        left, right
            What changed on a side: a record batch, a table that speaks Arrow, or a list of these. A column ``_weight``,
            a column ``_change_type``, or the columns ``op``, ``before`` and ``after`` say what comes and what goes;
            with none of them, all rows come. In what order changes come within an epoch makes no difference.

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
        """
        return self._epoch(left, right, first=False)

    def populate(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Take the tables as they are at first, and return the answer: all of its rows come.

        Parameters
        ----------
        left, right
            As for `apply`.

        Raises
        ------
        PlanError
            If there are rows already, or the join is closed.
        SpecError, SchemaError, DataError
            As `apply` does.
        """
        if self.epoch:
            raise PlanError(
                f"The join holds rows already, of {self.epoch:,} epochs: populate(…) is for the first ones. Pass "
                "changes to apply(…)."
            )
        return self._epoch(left, right, first=True)

    def _epoch(self, left: Any, right: Any, *, first: bool) -> list[pa.RecordBatch]:
        self._check_open()
        found = {side: self._delta(side, given) for side, given in zip(SIDES, (left, right), strict=True)}
        located = {side: self._kept.arrangements[side].locate(delta) for side, delta in found.items()}
        if self.setup.missing == "error":
            for side, (_, _, missing) in located.items():
                self._refuse_missing(side, found[side], missing)
        deltas = {side: (delta, places) for side, (delta, places, _) in located.items()}
        journal, changes = Journal(), Changes()
        try:
            take = self._kept.operator.populate if first else self._kept.operator.apply
            take(deltas, journal, changes)
            answer = self._said(changes.gathered() if first else changes.consolidated(self._identity))
        except BaseException:
            journal.undo()
            raise
        for side, (_, _, missing) in located.items():
            self._missing[side] += int(missing.sum())
        self.epoch += 1
        self._kept.compact()
        return answer

    def _delta(self, side: Side, given: Any) -> Delta:
        """Return what was given of a side as changes of distinct rows."""
        arrangement = self._kept.arrangements[side]
        parts = [] if given is None else list(read_changes(given, self.setup.schema(side), side))
        batches = [to_streaming(batch, arrangement.schema) for batch, _ in parts]
        if not batches:
            batches = [pa.RecordBatch.from_pylist([], arrangement.schema)]
        weights = np.concatenate([np.zeros(0, np.int64), *(weights for _, weights in parts)])
        return self._kept.delta(side, *arrangement.identity.consolidated(batches, weights))

    def _refuse_missing(self, side: Side, delta: Delta, missing: Ints) -> None:
        if not missing.any():
            return
        row = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"The {side} changes delete a row that is not there ({int(missing.sum()):,} in all). Nothing of the epoch "
            "has been taken. Pass missing='count' to have such deletes counted. The row is "
            f"{delta.batch.slice(row, 1).to_pylist()[0]}."
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
        self._check_open()
        plan = plan_local(
            self.setup.spec,
            self.table("left"),
            self.table("right"),
            algorithm="auto",
            stats=None,
            memory_bytes=self._memory_bytes,
        )
        table: pa.Table = plan.execute()
        return table

    def table(self, side: Side) -> pa.Table:
        """Return the rows of a side as they are, in no order. Columns that the join does not look at are null."""
        schema = self.setup.schema(side)
        batches = []
        for batch, weights in self._kept.arrangements[side].living():
            rows = np.repeat(np.arange(batch.num_rows), weights)
            expanded = batch if len(rows) == batch.num_rows else rows_of(batch, array_of(rows, pa.int64()))
            columns = [
                converted(expanded.column(field.name), field.type)
                if field.name in batch.schema.names
                else pa.nulls(len(rows), field.type)
                for field in schema
            ]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        return pa.Table.from_batches(batches, schema)

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
        return SideRows(arrangement.rows, arrangement.nbytes, self._missing[side])

    def _check_open(self) -> None:
        if self._closed:
            raise PlanError("The join is closed. Open it again with jn.changes(…).")

    def close(self) -> None:
        """Let go of all that is held. What is in a folder stays there."""
        self._closed = True

    def __enter__(self) -> ChangeJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
