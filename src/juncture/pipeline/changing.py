"""Change maintenance in a pipeline: sources with changes, and the steps that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from juncture.errors import JunctureError, PlanError, SchemaError
from juncture.incremental.changes.change_batch import WEIGHT, rows_within
from juncture.pipeline.graph import changing, needed_for, steps_in_order
from juncture.pipeline.model import Derived, File, JoinStep, SinkSection, SqlStep, Step
from juncture.pipeline.problems import Problems
from juncture.pipeline.schemas import Schemas
from juncture.planner.decision import Engine
from juncture.spec.resolved import refuse_computed

if TYPE_CHECKING:
    from juncture.pipeline.local_changes import StepPlanner


_REMEDY = 'Write changes = "folder" in its source, too, or run with --engine local.'


def is_query(step: Step) -> TypeGuard[Derived | SqlStep]:
    """Return whether an SQL view maintains a step on Spark."""
    return isinstance(step, SqlStep) or (isinstance(step, Derived) and (step.agg is not None or step.distinct))


def change_sink(sink: SinkSection) -> SinkSection:
    """Return the sink for the changes of a sink: a folder of Parquet files."""
    plain: dict[str, Any] = {
        "path": sink.changes,
        "table": None,
        "format": "parquet",
        "partition_by": [],
        "options": {},
    }
    return sink.model_copy(update=plain)


def with_marks(step: Derived, marks: Sequence[str]) -> Derived:
    """Return a step that also selects the columns that describe changes."""
    if isinstance(step.select, dict):
        return step.model_copy(update={"select": {**step.select, **{mark: mark for mark in marks}}})
    if step.select is None or any(text.strip() == "*" for text in step.select):
        return step
    return step.model_copy(update={"select": [*step.select, *marks]})


def check_changes(file: File, schemas: Schemas, problems: Problems, engine: Engine) -> None:
    """Add a problem for each section that cannot be maintained."""
    sinks = [name for name, sink in file.sinks.items() if sink.change_connector is not None]
    if not sinks:
        problems.add((), 'No sink has changes. Write changes = "folder" in the sink to maintain.')
    nested = _check_sources(file, schemas, problems, engine)
    live, needed = changing(file), needed_for(file, [file.sinks[name].from_ for name in sinks])
    for name in sinks:
        if file.sinks[name].from_ not in live:
            why = f"No source of {file.sinks[name].from_!r} has changes."
            problems.add(("sinks", name, "changes"), f'{why} Write changes = "folder" in a source.')
        elif engine == "local":
            _check_together(file, name, problems)
        else:
            _check_readers(file, name, problems)
    planner = None if engine == "spark" else _planner(file, schemas, live)
    for name in steps_in_order(file):
        if name in live and name in needed:
            step = file.steps[name]
            # Steps without a schema have a problem already.
            fits = schemas.get(name) is not None
            refused = _refusals(step, schemas if fits else {})
            if engine == "spark":
                refused += _spark_refusals(step, live, nested)
            elif fits and not refused:
                refused = _unplanned(name, planner)
            for key, message in refused:
                problems.add(("steps", name, *key), message)


def unmaintainable(file: File, schemas: Schemas) -> dict[str, str]:
    """Return why steps cannot be maintained in this process if all sources change, for the steps that cannot."""
    refused = dict[str, str]()
    live = frozenset([*file.sources, *file.steps])
    for name in steps_in_order(file):
        reasons = _refusals(file.steps[name], schemas) or _unplanned(
            name, _planner(file, schemas, live - refused.keys())
        )
        if reasons:
            refused[name] = reasons[0][1]
    return refused


def _check_together(file: File, sink: str, problems: Problems) -> None:
    """Add a problem for sources whose changes cannot be combined into epochs, because they have different origins."""
    reads = needed_for(file, [file.sinks[sink].from_])
    origins = {
        name: (type(connector), connector.origin(source.connected_changes(name)))
        for name, source in file.sources.items()
        if name in reads
        and (connector := source.change_connector) is not None
        # Sources without required options have a problem already.
        and all(option in source.options for option in connector.required)
    }
    first = next(iter(origins), "")
    other = next((name for name, origin in origins.items() if origin != origins[first]), None)
    if other is not None:
        why = f"{first!r} and {other!r} feed one sink, but are neither in one database nor both in folders."
        problems.add(("sources", other), f"{why} Move both to one origin, or write a sink for each.")


def _check_readers(file: File, sink: str, problems: Problems) -> None:
    """Add a problem for tables that a Spark query would read twice, but whose changes can be read once only."""
    for name, source in file.sources.items():
        connector = source.change_connector
        if connector is not None and connector.reads_once and _times_read(file, file.sinks[sink].from_, name) > 1:
            why = f"{name!r} feeds {sink!r} through several steps, but a Spark query reads its changes once."
            problems.add(("sources", name), f"{why} Run it with --engine local.")


def _times_read(file: File, name: str, source: str) -> int:
    if name not in file.steps:
        return int(name == source)
    return sum(_times_read(file, each, source) for each in file.steps[name].inputs)


def _check_sources(file: File, schemas: Schemas, problems: Problems, engine: Engine) -> list[str]:
    """Add a problem for changes that do not fit their tables; return the sources whose changes contain whole rows."""
    nested = []
    for name, source in file.sources.items():
        rows = schemas.get(name)
        if source.changes is None or rows is None:
            continue
        try:
            if engine == "local" and "://" in source.changes:
                raise PlanError(
                    f"changes={source.changes!r} is a URI, but this process reads changes from local folders only. "
                    "Run the pipeline on Spark.",
                    name="JN-CHANGES-REMOTE",
                )
            connector = source.change_connector
            assert connector is not None
            fields, marks = rows_within(connector.schema(source.connected_changes(name)), name)
            nested += [name] if len(marks) > 1 else []
            other = {(field.name, str(field.type)) for field in fields} ^ {
                (field.name, str(field.type)) for field in rows
            }
            if other:
                which, kind = min(other)
                raise SchemaError(
                    f"changes={source.changes!r} has other columns than the table: only one of them has {which!r} "
                    f"({kind}). Expected the columns of the table, and {WEIGHT!r} or other columns that describe "
                    "changes.",
                    name="JN-CHANGES-COLUMNS",
                )
        except JunctureError as error:
            problems.add(("sources", name, "changes"), error)
    return nested


_Refusals = list[tuple[tuple[str, ...], str]]
"""Reasons why a step that depends on changes cannot be maintained, each with its key."""


def _refusals(step: Step, schemas: Schemas) -> _Refusals:
    if isinstance(step, Derived):
        why = "grid= cannot be maintained over changing rows. Run it in batches."
        return [(("grid",), why)] if step.grid is not None else []
    if isinstance(step, SqlStep):
        return []
    if not isinstance(step, JoinStep):
        why = "Joins of many tables and interpolation cannot be maintained over changing rows. Write a join per table."
        return [(("join",), why)]
    refused = _Refusals()
    if step.algorithm != "auto":
        refused.append((("algorithm",), f"algorithm={step.algorithm!r} does not apply to change streams. Remove it."))
    left, right = schemas.get(step.left), schemas.get(step.right)
    if left is not None and right is not None:
        try:
            refuse_computed(step.spec.resolve(left, right), "tables that change")
        except PlanError as error:
            refused.append(((), str(error)))
    return refused


def _spark_refusals(step: Step, live: frozenset[str], nested: Sequence[str]) -> _Refusals:
    refused = _Refusals()
    if is_query(step):
        for name in step.inputs:
            if name not in live:
                why = f"{name!r} has no changes, but Spark maintains sql= over changes only."
                refused.append((("from",), f"{why} {_REMEDY}"))
    elif isinstance(step, Derived) and step.from_ in nested:
        why = f"The changes of {step.from_!r} have the rows before and after in nested columns."
        refused.append((("from",), f"{why} Join them first, or write changes with {WEIGHT!r}."))
    if isinstance(step, JoinStep):
        spec = step.spec
        if step.left not in live and spec.needs_all_matches:
            why = f"{step.left!r} has no changes, but changes of {step.right!r} change the matches of its rows."
            refused.append((("left",), f"{why} {_REMEDY}"))
        elif step.right not in live and spec.how in ("right", "full"):
            why = f"how={spec.how!r} keeps unmatched rows of {step.right!r}, which has no changes. {_REMEDY}"
            refused.append((("how",), why))
    return refused


def _planner(file: File, schemas: Schemas, live: frozenset[str]) -> StepPlanner:
    from juncture.pipeline.local_changes import StepPlanner

    return StepPlanner(file, {name: schema for name, schema in schemas.items() if schema is not None}, live)


def _unplanned(name: str, planner: StepPlanner | None) -> _Refusals:
    try:
        if planner is not None:
            planner.node(name)
    except JunctureError as error:
        return [((), str(error))]
    return []
