"""Several streams joined to one, the spine: each row of the spine is emitted once it is final in all joins."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.columnar.conversion import with_types
from juncture.columnar.types import plain_type
from juncture.errors import DataError, JunctureError, PlanError, SpecError
from juncture.kernels.array_types import Ints, Mask
from juncture.matching.order import Order
from juncture.matching.output import combined, project
from juncture.runtime.working_types import restore_types, working_type
from juncture.spec.aggregate import Aggregate
from juncture.spec.kinds import KINDS
from juncture.spec.many import ResolvedTable, Right, named, resolve_table
from juncture.spec.resolved import ROW_NUMBERS
from juncture.spec.schema import SIDES, OutputColumn
from juncture.streams import checkpoint
from juncture.streams.checkpoint import Snapshot
from juncture.streams.frontier import Frontier
from juncture.streams.join import SideState, StreamJoin
from juncture.streams.order import orders_of
from juncture.streams.plan import LateRule, Setup, StreamPlan, schema_of
from juncture.streams.reading import batches_of

# Names that cannot clash with those of users.
_NUMBER = ROW_NUMBERS["left"]
_MATCHED = "juncture:matched"


@dataclass(frozen=True)
class ManySetup:
    """The definition of a join of several streams to a spine. ``table`` of each right table is its schema."""

    spine_schema: pa.Schema
    orders: tuple[Order, ...]
    tables: Mapping[str, Right]
    static: tuple[str, ...]  # the tables that have no further rows
    allow_unbounded: bool
    late: LateRule

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        tables = {name: _right_to_dict(right) for name, right in self.tables.items()}
        return {
            "spine_schema": _schema_text(self.spine_schema),
            "order": [order.to_dict() for order in self.orders],
            "tables": tables,
            "static": list(self.static),
            "allow_unbounded": self.allow_unbounded,
            "late": self.late,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the setup that `to_dict` described."""
        tables = {name: _right_of(each) for name, each in values["tables"].items()}
        orders = tuple(Order.from_dict(each) for each in values["order"])
        spine, static = schema_of(values["spine_schema"]), tuple(values["static"])
        return cls(spine, orders, tables, static, values["allow_unbounded"], values["late"])


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _right_to_dict(right: Right) -> dict[str, Any]:
    columns = right.columns
    return {
        "spec": right.spec.to_dict(),
        "schema": _schema_text(right.table),
        "columns": dict(columns) if isinstance(columns, Mapping) else None if columns is None else list(columns),
        "prefix": right.prefix,
        "duplicates": right.duplicates,
        "order": [order.to_dict() for order in orders_of(right.order, "order")],
    }


def _right_of(values: Mapping[str, Any]) -> Right:
    spec = KINDS[values["spec"]["kind"]].from_dict(values["spec"])
    orders = [Order.from_dict(each) for each in values["order"]]
    shown = {name: values[name] for name in ("columns", "prefix", "duplicates")}
    return Right(schema_of(values["schema"]), spec, order=orders, **shown)


class ManyStreamPlan:
    """The plan of each join, over the spine with row numbers. Columns are in the types of stored rows."""

    def __init__(self, setup: ManySetup) -> None:
        self.setup = setup
        self.plans: dict[str, StreamPlan] = {}
        self.tables: dict[str, ResolvedTable] = {}
        spine = setup.spine_schema
        self.left_schema = spine.append(pa.field(_NUMBER, pa.int64()))
        types = {field.name: working_type(plain_type(field.type)) for field in self.left_schema}
        self.waiting_schema = with_types(self.left_schema, types)
        self.spine_schema = pa.schema(list(self.waiting_schema)[:-1])
        taken, fields = set(spine.names), list(spine)
        for name, right in setup.tables.items():
            with _about(name):
                table = resolve_table(name, right, spine, right.table, taken)
                self.tables[name] = table
                self.plans[name] = self._plan(right, table, is_static=name in setup.static)
                fields += table.right_output.user_schema(spine, right.table)
        self.schema = pa.schema(fields, spine.metadata)

    def _plan(self, right: Right, table: ResolvedTable, *, is_static: bool) -> StreamPlan:
        """Return the plan of a join whose output is the row number, the added columns, and whether there is a match."""
        right_schema = right.table if table.aggregates or right.spec.agg else _with_matched(right.table)
        spec = replace(right.spec, how="left")
        orders = self.setup.orders, orders_of(right.order, "order")
        unbounded = is_static or self.setup.allow_unbounded
        setup = Setup(spec, self.left_schema, right_schema, *orders, unbounded, self.setup.late)
        join = spec.resolve(self.left_schema, right_schema)
        output: list[OutputColumn] = [OutputColumn(_NUMBER, "left", _NUMBER), *table.columns]
        aggregates: tuple[Aggregate, ...] = ()
        if join.aggregates:
            windows = getattr(join, "window_names", ()) or (None,)
            counts = [Aggregate(f"{_MATCHED}{i}", None, "count", pa.int64(), window=w) for i, w in enumerate(windows)]
            aggregates = (*table.aggregates, *counts)
        else:
            output.append(OutputColumn(_MATCHED, "right", _MATCHED))
        join = replace(join, output=tuple(output), aggregates=aggregates)
        return StreamPlan(setup, join, right.duplicates if right.spec.is_lookup and not aggregates else None)

    @cached_property
    def described(self) -> dict[str, Any]:
        """The setup as plain data."""
        return self.setup.to_dict()

    def explain(self) -> str:
        """Return the text of `explain()`."""
        parts = []
        for name, plan in self.plans.items():
            static = ", which has no further rows" if name in self.setup.static else ""
            parts += [f"{name}{static}:", *(f"  {line}" for line in plan.explain(dict.fromkeys(SIDES)).splitlines())]
        return "\n".join([*parts, "emitted: rows of the spine once they are final in all tables"])


def _with_matched(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(_MATCHED, pa.bool_()))


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Name the table in errors."""
    try:
        yield
    except JunctureError as error:
        raise named(name, error) from error


class _NumberedRows:
    """Rows by the number of their row of the spine, until it is complete."""

    def __init__(self, schema: pa.Schema) -> None:
        self._place = schema.get_field_index(_NUMBER)
        self.schema = schema
        self.batches: list[pa.RecordBatch] = []

    def numbers(self, batch: pa.RecordBatch) -> Ints:
        """Return the row numbers of a batch."""
        numbers: Ints = batch.column(self._place).to_numpy()
        return numbers

    def take(self, wanted: Mask, first: int) -> pa.RecordBatch:
        """Remove and return rows by their number, given a mask of the numbers from ``first`` on."""
        taken, kept = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for batch in self.batches:
            mask = wanted[self.numbers(batch) - first]
            if mask.any():
                taken.append(rows_at(batch, np.flatnonzero(mask)))
            if not mask.all():
                kept.append(rows_at(batch, np.flatnonzero(~mask)) if mask.any() else batch)
        self.batches = combined(kept) if len(kept) > _BATCHES_MOST else kept
        joined = joined_batches(taken)
        return rows_at(joined, np.argsort(self.numbers(joined)))

    @property
    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches, self.schema)


def _is_positive(column: pa.Array) -> Mask:
    """Return where a column has true or a positive number."""
    mask: Mask = column.cast(pa.int64()).fill_null(0).to_numpy() > 0
    return mask


_BATCHES_MOST = 32
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class ManyState:
    """State of a join of several streams.

    Attributes
    ----------
    spine
        The rows of the spine that wait for their answers, and late ones.
    tables
        The stored rows of each table, and late ones.
    """

    spine: SideState
    tables: Mapping[str, SideState]


class ManyStreamJoin:
    """A join of several streams to a spine, created by `juncture.stream_many`.

    Pass rows to `push` in any order of the streams. It returns rows of the spine with the columns of all tables once
    they are final in each. All results together equal `juncture.join_many` of all rows that were not late. Memory: as
    of a `StreamJoin` per table, and the rows of the spine that wait for one of them.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> spine, prices = pa.schema({"ts": pa.int64()}), pa.schema({"ts": pa.int64(), "price": pa.int64()})
    >>> tables = {"prices": jn.Right(prices, jn.Asof(on="ts"), order=jn.Order("ts"))}
    >>> join = jn.stream_many(spine, tables, order=jn.Order("ts"))
    >>> join.push(spine=pa.table({"ts": [3, 7]}), prices=pa.table({"ts": [1], "price": [10]}))
    []
    >>> [batch.to_pylist() for batch in join.push(prices=pa.table({"ts": [5], "price": [11]}))]
    [[{'ts': 3, 'price': 10}]]
    """

    def __init__(self, plan: ManyStreamPlan) -> None:
        self._plan = plan
        self.setup = plan.setup
        self.schema = plan.schema
        self._joins = {name: StreamJoin(each) for name, each in plan.plans.items()}
        # The orders of the spine are the same in all joins.
        self._first_join = next(iter(self._joins.values()))
        self._frontier = Frontier(self._first_plan.orders["left"])
        self._spine = _NumberedRows(plan.waiting_schema)
        self._answers = {name: _NumberedRows(each.schema) for name, each in plan.plans.items()}
        self._missing = np.zeros(0, np.int32)  # how many tables have not answered; -1 for emitted rows
        self._first = 0  # the row number of its first entry
        self._unreturned: list[pa.RecordBatch] = []
        self._closed = self._failed = False

    @property
    def _first_plan(self) -> StreamPlan:
        return next(iter(self._plan.plans.values()))

    def push(self, *, spine: Any = None, **tables: Any) -> list[pa.RecordBatch]:
        """Apply rows of the spine, of tables, or both, and return the rows of the spine that are final.

        Parameters
        ----------
        spine
            New rows: a ``pyarrow.RecordBatch``, or a table with the Arrow PyCapsule interface. They are applied first.
        **tables
            New rows of tables, by name.

        Returns
        -------
        list of pyarrow.RecordBatch
            Result rows, in no order.

        Raises
        ------
        SpecError, SchemaError
            If there is no such table, or the columns differ from its schema.
        DataError
            As `StreamJoin.push`. The batch of a table is then not applied. A row of the spine with an invalid value,
            a tie with ``ties="error"`` and several matches with ``duplicates="error"`` end the join.
        PlanError
            If the join is closed, or has ended.
        """
        self._check_open()
        self._check_names("push", tables)
        own = [] if spine is None else batches_of(spine, "spine", self.setup.spine_schema)
        for batch in own:
            if batch.num_rows:
                self._push_spine(batch)
        for name, rows in tables.items():
            if name in self.setup.static:
                raise PlanError(
                    f"push({name}=…): table {name!r} was passed with its rows, so it has no further ones. Pass its "
                    "schema to jn.stream_many(…) to push rows.",
                    name="JN-TABLE-STATIC",
                )
            if rows is not None:
                self._push_table(name, rows)
        return self._results()

    def _push_table(self, name: str, rows: Any) -> None:
        marks = _MATCHED in self._plan.plans[name].setup.right_schema.names
        with self._ending(name):
            for batch in batches_of(rows, name, self.setup.tables[name].table):
                marked = batch.append_column(_MATCHED, pa.repeat(True, batch.num_rows)) if marks else batch
                self._add(name, self._joins[name].push(right=marked))

    def add_static(self, name: str, rows: Any) -> None:
        """Apply all rows of a table, which has no further ones."""
        self._push_table(name, rows)
        self._add(name, self._joins[name].end("right"))

    def _push_spine(self, batch: pa.RecordBatch) -> None:
        before = self._frontier.to_dict()
        late, _ = self._frontier.take(project(batch, self._plan.spine_schema))
        numbers = np.full(batch.num_rows, -1)
        rows = np.arange(batch.num_rows) if late is None else np.flatnonzero(~late)
        first = self._first + len(self._missing)
        numbers[rows] = np.arange(first, first + len(rows))
        numbered = batch.append_column(_NUMBER, pa.array(numbers))
        # Slices, since `take` does not support some types.
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        in_time = pa.Table.from_batches([numbered.slice(run[0], len(run)) for run in runs if len(run)], numbered.schema)
        is_applied = False
        # The first join counts and collects late rows for all.
        for name, join in self._joins.items():
            try:
                with _about(name):
                    answers = join.push(left=in_time if is_applied else numbered)
            except DataError:
                # Nothing is applied if the first join refuses the rows.
                self._frontier.restore(before)
                self._failed = is_applied or join.has_failed
                raise
            if not is_applied:
                self._missing = np.concatenate([self._missing, np.full(len(rows), len(self._joins), np.int32)])
                self._spine.batches += [project(each, self._plan.waiting_schema) for each in in_time.to_batches()]
            is_applied = True
            self._add(name, answers)

    def _add(self, name: str, answers: list[pa.RecordBatch]) -> None:
        """Store the answers of a table."""
        waiting = self._answers[name]
        for batch in answers:
            self._missing[waiting.numbers(batch) - self._first] -= 1
            waiting.batches.append(batch)

    def _results(self) -> list[pa.RecordBatch]:
        """Return the rows of the spine that all tables have answered, and those of earlier calls that failed."""
        results, self._unreturned = self._unreturned, []
        complete = np.flatnonzero(self._missing == 0)
        for start in range(0, len(complete), _ROWS_AT_ONCE):
            wanted = np.zeros(len(self._missing), np.bool_)
            wanted[complete[start : start + _ROWS_AT_ONCE]] = True
            results += self._beside(wanted)
        self._missing[complete] = -1
        open_rows = np.flatnonzero(self._missing >= 0)
        gone = int(open_rows[0]) if len(open_rows) else len(self._missing)
        self._missing, self._first = self._missing[gone:], self._first + gone
        return results

    def _beside(self, wanted: Mask) -> list[pa.RecordBatch]:
        """Remove rows of the spine and their answers, and return them side by side."""
        spine = self._spine.take(wanted, self._first)
        columns, kept = spine.columns[:-1], np.ones(spine.num_rows, np.bool_)
        for name, waiting in self._answers.items():
            answer, table = waiting.take(wanted, self._first), self._plan.tables[name]
            columns += [answer.column(each) for each in table.names]
            if table.drops_unmatched:
                marks = [answer.column(each) for each in answer.schema.names if each.startswith(_MATCHED)]
                kept &= np.logical_or.reduce([_is_positive(mark) for mark in marks])
        names = self.schema.names
        rows = pa.RecordBatch.from_arrays(columns, names=names)
        rows = rows if kept.all() else rows_at(rows, np.flatnonzero(kept))
        return list(restore_types([rows], self.schema)) if rows.num_rows else []

    @contextmanager
    def _ending(self, name: str) -> Iterator[None]:
        """Name the table in errors, and keep in mind whether one ends the join."""
        try:
            with _about(name):
                yield
        finally:
            self._failed = self._failed or self._joins[name].has_failed

    def advance(self, *, spine: Any = None, **tables: Any) -> list[pa.RecordBatch]:
        """Declare that a stream has no future rows before some values of its orders, and return the final rows.

        Parameters
        ----------
        spine
            A value of the spine's order; with several orders, a list with one value each. None leaves it unchanged.
        **tables
            The same for tables, by name.

        Raises
        ------
        SpecError, PlanError
            As `StreamJoin.advance`.
        """
        self._check_open()
        self._check_names("advance", tables)
        if spine is not None:
            for name, join in self._joins.items():
                with self._ending(name):
                    self._add(name, join.advance(left=spine))
            self._frontier.advance(self._first_join.codes_of("left", spine))
        for name, value in tables.items():
            if value is not None:
                with self._ending(name):
                    self._add(name, self._joins[name].advance(right=value))
        return self._results()

    def close(self) -> list[pa.RecordBatch]:
        """End all streams, and return all remaining rows, unless the join is closed or has ended (`PlanError`)."""
        self._check_open()
        for name, join in self._joins.items():
            with self._ending(name):
                self._add(name, join.close())
        self._closed = True
        return self._results()

    def _check_open(self) -> None:
        if self._closed:
            raise PlanError("The join is closed. Create another one with jn.stream_many(…).", name="JN-STATE-CLOSED")
        if self._failed:
            raise PlanError(
                "The join has ended after an error in its rows. Create another one, or restore it from a folder.",
                name="JN-STATE-CLOSED",
            )

    def _check_names(self, method: str, names: Mapping[str, Any] | Sequence[str]) -> None:
        for name in names:
            if name not in self._joins:
                raise SpecError(
                    f"{method}({name}=…) is no table of the join. Expected spine or one of {list(self._joins)}.",
                    name="JN-ARGUMENT-UNKNOWN",
                )

    @property
    def state(self) -> ManyState:
        """Number and memory of the stored rows, and numbers of evicted and late rows."""
        first = self._first_join.state.left
        rows = sum(batch.num_rows for batch in self._spine.batches)
        nbytes = sum(batch.nbytes for each in (self._spine, *self._answers.values()) for batch in each.batches)
        nbytes += sum(join.state.left.bytes for join in self._joins.values())
        spine = replace(first, rows=rows, bytes=nbytes, evicted_rows=self._first + len(self._missing) - rows)
        return ManyState(spine, {name: join.state.right for name, join in self._joins.items()})

    def late(self, name: str = "spine") -> pa.Table:
        """Return the late rows of the spine or of a table, with ``late="collect"``."""
        if name == "spine":
            return self._first_join.late.left.drop_columns([_NUMBER])
        self._check_names("late", [name])
        return self._joins[name].late.right.select(self.setup.tables[name].table.names)

    def explain(self) -> str:
        """Return which rows of each table are kept and for how long."""
        return self._plan.explain()

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the state of the join to a folder, which is replaced atomically. Raises `StateError` if that fails."""
        snapshots = {name: join.snapshot() for name, join in self._joins.items()}
        tables = {
            f"{number}_{kind}": table
            for number, snapshot in enumerate(snapshots.values())
            for kind, table in snapshot.tables.items()
        }
        tables |= {f"{number}_answers": each.table for number, each in enumerate(self._answers.values())}
        progress = {
            "joins": [snapshot.progress for snapshot in snapshots.values()],
            "frontier": self._frontier.to_dict(),
            "next": self._first + len(self._missing),
            "closed": self._closed,
            "failed": self._failed,
        }
        checkpoint.write(Snapshot(self._plan.described, progress, tables | {"spine": self._spine.table}), folder)

    @classmethod
    def restore(cls, folder: str | PathLike[str], *, expected: ManyStreamJoin | None = None) -> ManyStreamJoin:
        """Return the join that was saved to a folder.

        Parameters
        ----------
        folder, expected
            The folder, and a join with the expected setup. None accepts any.

        Raises
        ------
        StateError
            If the folder is missing or damaged, or belongs to another join.
        """
        snapshot = checkpoint.read(folder)
        if expected is not None:
            checkpoint.check_same(folder, snapshot, expected._plan.described)
        with checkpoint.reading(folder):
            plan = ManyStreamPlan(ManySetup.from_dict(snapshot.setup)) if expected is None else expected._plan
            join = cls(plan)
            join._load(snapshot)
            return join

    def _load(self, snapshot: Snapshot) -> None:
        progress, tables = snapshot.progress, snapshot.tables
        self._closed, self._failed = progress["closed"], progress["failed"]
        self._frontier.restore(progress["frontier"])
        self._spine.batches = tables["spine"].to_batches()
        waiting = [self._spine.numbers(batch) for batch in self._spine.batches if batch.num_rows]
        self._first = min((int(numbers.min()) for numbers in waiting), default=progress["next"])
        self._missing = np.full(progress["next"] - self._first, -1, np.int32)
        for numbers in waiting:
            self._missing[numbers - self._first] = len(self._joins)
        for number, (name, plan) in enumerate(self._plan.plans.items()):
            own = {key.partition("_")[2]: table for key, table in tables.items() if key.startswith(f"{number}_")}
            self._add(name, [batch for batch in own.pop("answers").to_batches() if batch.num_rows])
            self._joins[name] = StreamJoin.of(plan, Snapshot({}, progress["joins"][number], own))
        self._first_join = next(iter(self._joins.values()))
