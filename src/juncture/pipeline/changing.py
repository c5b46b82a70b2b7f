"""What of a pipeline changes, where it is kept up to date: sources that have changes, and steps that read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from juncture.errors import JunctureError, PlanError, SchemaError
from juncture.incremental.change_batch import WEIGHT, rows_within
from juncture.pipeline.graph import needed_for, steps_in_order
from juncture.pipeline.model import Derived, File, JoinStep, SinkSection, Step
from juncture.pipeline.problems import Problems
from juncture.pipeline.schemas import Schemas
from juncture.pipeline.sources import resolved
from juncture.planner.decision import Engine
from juncture.runtime.sources import ParquetSource
from juncture.spec.asof import Asof
from juncture.spec.resolved import refuse_computed


def changing(file: File) -> frozenset[str]:
    """Return the sources that have changes, and the steps that read what changes."""
    found = {name for name, source in file.sources.items() if source.is_live}
    for name in steps_in_order(file):
        if found.intersection(file.steps[name].inputs):
            found.add(name)
    return frozenset(found)


def changes_schema(folder: str) -> pa.Schema:
    """Return the columns of the Parquet files in a folder of changes."""
    return ParquetSource([folder]).schema


def change_sink(sink: SinkSection) -> SinkSection:
    """Return the sink that takes the changes of another: a folder of Parquet files."""
    plain: dict[str, Any] = {
        "path": sink.changes,
        "table": None,
        "format": "parquet",
        "partition_by": [],
        "options": {},
    }
    return sink.model_copy(update=plain)


def with_marks(step: Derived, marks: Sequence[str]) -> Derived:
    """Return a step that keeps the columns that say what becomes of its rows."""
    if isinstance(step.select, dict):
        return step.model_copy(update={"select": {**step.select, **{mark: mark for mark in marks}}})
    if step.select is None or any(text.strip() == "*" for text in step.select):
        return step
    return step.model_copy(update={"select": [*step.select, *marks]})


def check_changes(file: File, folder: Path, schemas: Schemas, problems: Problems, engine: Engine) -> None:
    """Note what cannot be kept up to date.

    Parameters
    ----------
    file, folder
        The pipeline, and where its file is.
    schemas
        The columns of its sources and steps.
    problems
        Where problems are noted.
    engine
        What is to run it.
    """
    kept = [name for name, sink in file.sinks.items() if sink.is_live]
    if not kept:
        problems.add((), 'No sink takes changes. Write changes = "folder" in the sink that is to be kept up to date.')
    nested = _check_sources(file, folder, schemas, problems, engine)
    live, needed = changing(file), needed_for(file, [file.sinks[name].from_ for name in kept])
    for name in kept:
        if file.sinks[name].from_ not in live:
            why = f"Nothing that {file.sinks[name].from_!r} reads has changes."
            problems.add(("sinks", name, "changes"), f'{why} Write changes = "folder" in a source.')
        elif engine == "local":
            _check_together(file, name, problems)
        else:
            _check_slots(file, name, problems)
    for name in steps_in_order(file):
        if name in live and name in needed:
            step = file.steps[name]
            # What does not fit has been noted before.
            fits = schemas.get(name) is not None
            for key, message in _refusals(step, live, schemas if fits else {}):
                problems.add(("steps", name, *key), message)
            if isinstance(step, Derived) and step.from_ in nested:
                why = f"The changes of {step.from_!r} hold its rows before and after, within columns."
                problems.add(("steps", name, "from"), f"{why} Join them first, or say them by {WEIGHT!r}.")


def _check_together(file: File, sink: str, problems: Problems) -> None:
    """Note sources that nobody can follow at once, since nothing tells which of their changes belong together."""
    reads = needed_for(file, [file.sinks[sink].from_])
    places = {
        name: source.options.get("dsn") if source.format == "postgres" else None
        for name, source in file.sources.items()
        if name in reads and source.is_live
    }
    other = next((name for name, place in places.items() if place != next(iter(places.values()))), None)
    if other is not None:
        why = f"{next(iter(places))!r} and {other!r} lead to one sink, and are not of one database, or both of folders."
        problems.add(("sources", other), f"{why} Have both follow from one place, or write a sink for each.")


def _check_slots(file: File, sink: str, problems: Problems) -> None:
    """Note tables of PostgreSQL that a query of Spark's would read at two places, by the one slot that it has."""
    for name, source in file.sources.items():
        if source.format == "postgres" and _times_read(file, file.sinks[sink].from_, name) > 1:
            why = f"{name!r} leads to {sink!r} by several ways, and a query of Spark's reads its changes once."
            problems.add(("sources", name), f"{why} Keep it up to date by --engine local.")


def _times_read(file: File, name: str, source: str) -> int:
    """Return by how many ways a source leads to a step or a source."""
    if name not in file.steps:
        return int(name == source)
    return sum(_times_read(file, each, source) for each in file.steps[name].inputs)


def _check_sources(file: File, folder: Path, schemas: Schemas, problems: Problems, engine: Engine) -> list[str]:
    """Note changes that are not those of their tables, and return the sources whose changes hold whole rows."""
    nested = []
    for name, source in file.sources.items():
        rows = schemas.get(name)
        if source.changes is None or rows is None:
            continue
        try:
            if engine == "local" and "://" in source.changes:
                raise PlanError(
                    f"changes={source.changes!r} is a URI, and this process follows folders of this machine only. Run "
                    "it on Spark."
                )
            found, marks = rows_within(changes_schema(str(resolved(source, folder).changes)), name)
            nested += [name] if len(marks) > 1 else []
            other = {(field.name, str(field.type)) for field in found} ^ {
                (field.name, str(field.type)) for field in rows
            }
            if other:
                which, kind = min(other)
                raise SchemaError(
                    f"changes={source.changes!r} has other columns than the table: {which!r} ({kind}) is in one of "
                    f"them only. Expected those of the table, and {WEIGHT!r} or another that says what changes."
                )
        except JunctureError as error:
            problems.add(("sources", name, "changes"), error)
    return nested


def _refusals(step: Step, live: frozenset[str], schemas: Schemas) -> list[tuple[tuple[str, ...], str]]:
    """Return why a step that reads what changes cannot be kept up to date, by the keys that say so."""
    if isinstance(step, Derived):
        why = "over rows that change is not kept up to date. Do it in a view of SQL (jn.view), or in batches."
        return [((key,), f"{key}= {why}") for key in ("agg", "distinct", "grid") if getattr(step, key)]
    if not isinstance(step, JoinStep):
        why = "Several tables at once, and values between rows, are not kept up to date. Write a join for each table."
        return [(("join",), why)]
    refused = list[tuple[tuple[str, ...], str]]()
    mend = 'Write changes = "folder" in its source, too.'
    spec = step.spec
    is_held = isinstance(spec, Asof) or spec.how not in (None, "inner", "right") or spec.agg is not None
    if step.left not in live and is_held:
        why = f"{step.right!r} changes, and with it the rows of {step.left!r} that have matches, or which. {mend}"
        refused.append((("left",), why))
    elif step.right not in live and spec.how in ("right", "full"):
        why = f"how={spec.how!r} keeps rows of {step.right!r} by what matches them, and it has no changes. {mend}"
        refused.append((("how",), why))
    if step.algorithm != "auto":
        refused.append((("algorithm",), f"algorithm={step.algorithm!r} joins no changes. Leave it out."))
    left, right = schemas.get(step.left), schemas.get(step.right)
    if left is not None and right is not None:
        try:
            refuse_computed(spec.resolve(left, right), "tables that change")
        except PlanError as error:
            refused.append(((), str(error)))
    return refused
