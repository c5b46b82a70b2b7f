"""Verify a pipeline: its steps in one batch, as streams and over changes have to give the same rows of a sample.

Rows of streams arrive in random batches, as far from their order as they may be. Changes arrive in random epochs, with
rows that are deleted again. Both are interrupted: streams are saved and restored, and maintained steps are closed and
opened from their state.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import JunctureError
from juncture.incremental.changes.change_batch import WEIGHT
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.joins.streaming import stream
from juncture.local.resources import resources_here
from juncture.matching.order import Order
from juncture.pipeline.changing import unmaintainable
from juncture.pipeline.graph import needed_in_order
from juncture.pipeline.local import LocalEngine
from juncture.pipeline.local_changes import MaintainedSteps
from juncture.pipeline.model import Derived, File, JoinStep, SourceSection
from juncture.pipeline.schemas import Schemas
from juncture.pipeline.sources import orders_of
from juncture.spec.schema import SIDES, Side
from juncture.streams.join import StreamJoin
from juncture.streams.order import SideOrder

Way = Literal["stream", "changes"]
Outcome = Literal["equal", "different", "refused"]

_BATCHES, _EPOCHS = 12, 6
_POPULATED_SHARE = 0.3
_DELETED_SHARE = 0.1
_TOLERANCE = 1e-9
"""Relative difference of floats that count as equal: SQL engines add them up in an order of their own."""


@dataclass(frozen=True)
class StepVerification:
    """The comparison of one step in one way with the same step in a batch.

    Attributes
    ----------
    step
        The step.
    way
        ``"stream"`` or ``"changes"``.
    outcome
        ``"equal"`` or ``"different"``; ``"refused"`` if the step cannot run this way.
    rows
        The rows of the step in a batch.
    detail
        The first row that differs, the reason of the refusal, or what was assumed.
    """

    step: str
    way: Way
    outcome: Outcome
    rows: int
    detail: str = ""


@dataclass(frozen=True)
class VerifyReport:
    """The comparison of all steps.

    Attributes
    ----------
    steps
        The comparisons, in the order of the steps.
    sample_rows
        The rows of each source that were read.
    seed
        The seed of batches and epochs: the same seed repeats them.
    """

    steps: tuple[StepVerification, ...]
    sample_rows: Mapping[str, int]
    seed: int

    @property
    def is_equal(self) -> bool:
        """Whether no step differs."""
        return all(each.outcome != "different" for each in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {"equal": self.is_equal, **asdict(self)}


def verified(file: File, schemas: Schemas, sample_rows: int | None, seed: int) -> VerifyReport:
    """Compare the steps of a pipeline over the first rows of its sources."""
    schemas_by_name = {name: schema for name, schema in schemas.items() if schema is not None}
    steps = needed_in_order(file, file.steps)
    with tempfile.TemporaryDirectory(prefix="juncture-") as folder:
        folder_path = Path(folder)
        sample = _sampled(file, schemas, sample_rows, folder_path)
        with closing(LocalEngine(sample, schemas)) as engine:
            rows = {name: engine.computed(name) for name in steps}
        chance = random.Random(seed)
        maintained = _Maintained(sample, schemas_by_name, rows, chance, folder_path / "changes")
        verifications = list[StepVerification]()
        for name in steps:
            step = file.steps.get(name)
            if isinstance(step, JoinStep):
                verifications.append(
                    _compared(name, "stream", rows[name], partial(_streamed, file, step, rows, chance, folder_path))
                )
            if step is not None:
                verifications.append(_compared(name, "changes", rows[name], partial(maintained.answer, name)))
        return VerifyReport(
            tuple(verifications), {name: rows[name].num_rows for name in file.sources if name in rows}, seed
        )


def _sampled(file: File, schemas: Schemas, sample_rows: int | None, folder: Path) -> File:
    """Return the pipeline with the first rows of its sources in Parquet files."""
    sources = dict[str, SourceSection]()
    with closing(LocalEngine(file, schemas)) as engine:
        for name in file.sources:
            target, wanted = folder / f"{name}.parquet", sample_rows
            with engine.reader(name) as batches, pq.ParquetWriter(target, batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch if wanted is None else batch.slice(0, wanted))
                    wanted = None if wanted is None else max(0, wanted - batch.num_rows)
                    if wanted == 0:
                        break
            sources[name] = SourceSection(path=[str(target)], format="parquet")
    return file.model_copy(update={"sources": sources})


class _RefusedError(Exception):
    """A step cannot run in some way."""


Answer = tuple[Counter[tuple[Any, ...]], str]
"""How often each row occurs, and what was assumed."""


def _compared(name: str, way: Way, expected: pa.Table, run: Callable[[], Answer]) -> StepVerification:
    """Run a step in some way, and compare its rows."""
    try:
        actual, assumed = run()
    except _RefusedError as error:
        return StepVerification(name, way, "refused", expected.num_rows, str(error))
    except JunctureError as error:
        return StepVerification(name, way, "different", expected.num_rows, f"It fails: {error}")
    difference = first_difference(counted_rows([expected]), actual, expected.schema.names)
    if difference:
        return StepVerification(name, way, "different", expected.num_rows, f"{difference}{assumed and f' {assumed}'}")
    return StepVerification(name, way, "equal", expected.num_rows, assumed)


def counted_rows(tables: Iterable[pa.Table | pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """Return how often each row occurs in tables, or in changes with weights."""
    rows = Counter[tuple[Any, ...]]()
    for table in tables:
        columns = [_hashable(table.column(name)) for name in table.schema.names if name != WEIGHT]
        weights = table.column(WEIGHT).to_pylist() if WEIGHT in table.schema.names else [1] * table.num_rows
        for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
            rows[row] += weight
    return Counter({row: count for row, count in rows.items() if count})


def _hashable(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values that compare as rows do: NaN equals NaN, and nested values by their text."""
    is_nested = pa.types.is_nested(column.type)
    return [repr(value) if is_nested or value != value else value for value in column.to_pylist()]


def first_difference(expected: Counter[Any], actual: Counter[Any], names: Sequence[str]) -> str:
    """Return the first row that occurs more often in one of two results; nothing if they are equal."""
    missing, extra = _in_order(expected - actual), _in_order(actual - expected)
    # Counters drop negative counts, which are rows that were deleted too often.
    negative = [row for row, count in actual.items() if count < 0]
    if not negative and len(missing) == len(extra) and all(map(_is_close, missing, extra)):
        return ""
    both = zip(missing, extra, strict=False)
    pair = next(((one, other) for one, other in both if not _is_close(one, other)), (None, None))
    parts = []
    for row, rows, what in ((pair[0], missing, "is missing"), (pair[1], extra, "is not a row of the batch")):
        if example := row if row is not None else next(iter(rows), None):
            cells = ", ".join(f"{name}={value!r}" for name, value in zip(names, example, strict=True))
            parts.append(f"{cells} {what}")
    counts = f"{len(missing):,} rows are missing and {len(extra) + len(negative):,} are too many"
    return f"{counts}: {'; '.join(parts) or negative[0]}."


def _in_order(rows: Counter[Any]) -> list[tuple[Any, ...]]:
    return sorted(rows.elements(), key=lambda row: [(value is None, str(type(value)), str(value)) for value in row])


def _is_close(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two rows are equal, apart from the last digits of floats."""
    for a, b in zip(one, other, strict=True):
        is_near = isinstance(a, float) and isinstance(b, float) and isclose(a, b, rel_tol=_TOLERANCE)
        if not is_near and a != b:
            return False
    return True


def _streamed(file: File, step: JoinStep, rows: Mapping[str, pa.Table], chance: random.Random, folder: Path) -> Answer:
    """Join two tables as streams, in random batches, saved and restored between some of them."""
    tables, orders, assumed = dict[Side, pa.Table](), dict[Side, list[Order] | None](), list[str]()
    for side, name, keys in zip(SIDES, step.inputs, step.spec.ordered_keys(), strict=True):
        tables[side], orders[side] = rows[name], _declared_orders(file, name)
        if orders[side] is None and keys and str(keys[0]) in rows[name].schema.names:
            orders[side], tables[side] = [Order(str(keys[0]))], rows[name].sort_by(str(keys[0]))
            assumed.append(name)
        if declared := orders[side]:
            tables[side] = _disordered(tables[side], declared, side, chance)
    schemas = tables["left"].schema, tables["right"].schema
    try:
        join = stream(*schemas, step.spec, left_order=orders["left"], right_order=orders["right"], late="error")
    except JunctureError as error:
        raise _RefusedError(str(error)) from error
    answer = list[pa.RecordBatch]()
    for side, piece in _turns(tables, chance):
        answer += join.push(**{side: piece})
        if chance.random() < 1 / _BATCHES:
            join.save(folder / "stream")
            join = StreamJoin.restore(folder / "stream", expected=join)
    answer += join.close()
    names = " and ".join(map(repr, assumed))
    return counted_rows(answer), f"Assumed that {names} arrive in the order of the join." if assumed else ""


def _declared_orders(file: File, name: str) -> list[Order] | None:
    """Return the orders of a source, which filters keep; None if none is declared."""
    step = file.steps.get(name)
    if step is None:
        return orders_of(file.sources[name])
    is_filter = isinstance(step, Derived) and not (step.agg or step.select or step.distinct or step.grid)
    return _declared_orders(file, step.inputs[0]) if is_filter else None


def _disordered(rows: pa.Table, orders: Sequence[Order], side: Side, chance: random.Random) -> pa.Table:
    """Return rows with as much disorder as their order allows; as they are if they have more, or several orders."""
    order = SideOrder.of(orders[0], side, rows.schema)
    batch = rows.combine_chunks().to_batches()
    if len(orders) > 1 or not order.steps or len(batch) != 1:
        return rows
    codes, valid = order.codes(batch[0])
    if valid is not None or (np.maximum.accumulate(codes) - codes > order.steps).any():
        return rows
    generator = np.random.default_rng(chance.getrandbits(32))
    arrivals = codes + generator.integers(0, order.steps, rows.num_rows, endpoint=True)
    return rows.take(pa.array(np.argsort(arrivals, kind="stable")))


def _turns(tables: Mapping[Side, pa.Table], chance: random.Random) -> Iterator[tuple[Side, pa.Table]]:
    """Yield batches of both sides of random sizes, each side in its order."""
    pushed = dict.fromkeys(tables, 0)
    while open_sides := [side for side, table in tables.items() if pushed[side] < table.num_rows]:
        side = chance.choice(open_sides)
        piece = tables[side].slice(pushed[side], chance.randint(1, 2 * tables[side].num_rows // _BATCHES + 1))
        pushed[side] += piece.num_rows
        yield side, piece


class _Maintained:
    """All steps over changes at once: the rows of each, after random epochs."""

    def __init__(
        self,
        file: File,
        schemas: Mapping[str, pa.Schema],
        rows: Mapping[str, pa.Table],
        chance: random.Random,
        folder: Path,
    ) -> None:
        self._refused = unmaintainable(file, schemas)
        live = frozenset([*file.sources, *file.steps]) - self._refused.keys()
        sinks = {name: name for name in file.steps if name in live}
        self._rows = {name: Counter[tuple[Any, ...]]() for name in sinks}
        self._error: JunctureError | None = None
        policy = MemoryPolicy.of(resources_here(None).memory_bytes)
        opener = partial(store_opener, folder, "pipeline", policy)
        begin = partial(MaintainedSteps, file, schemas, live, sinks, rows.__getitem__, opener)
        try:
            self._run(begin, rows, chance)
        except JunctureError as error:
            if error.name == "JN-PACKAGE-MISSING":
                raise
            self._error = error

    def _run(self, begin: Callable[[], MaintainedSteps], rows: Mapping[str, pa.Table], chance: random.Random) -> None:
        with ExitStack() as stack:
            steps = stack.enter_context(closing(begin()))
            epochs = {name: _epochs(rows[name], chance) for name in steps.sources}
            for number in range(_EPOCHS):
                changes = {name: each[number] for name, each in epochs.items()}
                answers = (steps.apply if number else steps.populate)(offset=number, **changes)
                for name, batches in answers.items():
                    self._rows[name].update(counted_rows(batches))
                if chance.random() < 1 / 2:
                    stack.close()
                    steps = stack.enter_context(closing(begin()))

    def answer(self, name: str) -> Answer:
        """Return the rows of a step."""
        if name in self._refused:
            raise _RefusedError(self._refused[name])
        if self._error is not None:
            raise self._error
        return Counter({row: count for row, count in self._rows[name].items() if count}), ""


def _epochs(rows: pa.Table, chance: random.Random) -> list[pa.Table]:
    """Return the rows as the changes of epochs, the first one without deletes. Some rows come twice and go once."""
    generator = np.random.default_rng(chance.getrandbits(32))
    arrives = generator.integers(1, _EPOCHS, rows.num_rows)
    arrives[generator.random(rows.num_rows) < _POPULATED_SHARE] = 0
    passing = np.flatnonzero(generator.random(rows.num_rows) < _DELETED_SHARE)
    comes = generator.integers(0, _EPOCHS - 1, len(passing))
    goes = generator.integers(comes + 1, _EPOCHS)
    epochs = []
    for number in range(_EPOCHS):
        parts = np.flatnonzero(arrives == number), passing[comes == number], passing[goes == number]
        weights = np.repeat([1, 1, -1], [len(part) for part in parts])
        order = generator.permutation(len(weights))
        table = rows.take(pa.array(np.concatenate(parts)[order]))
        epochs.append(table.append_column(WEIGHT, pa.array(weights[order])))
    return epochs
