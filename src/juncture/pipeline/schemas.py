"""Validation of a pipeline: the columns of all sources and steps, without reading rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from juncture.errors import DataError, JunctureError, SpecError, did_you_mean
from juncture.files.formats import paths_of
from juncture.ordered.duration import duration_ns, is_duration
from juncture.pipeline.engine import Mode
from juncture.pipeline.expressions import ExpressionError, UnknownFunctionError, derived_schema, sql_schema
from juncture.pipeline.graph import changing, steps_in_order
from juncture.pipeline.model import (
    SPARK_ONLY_FORMATS,
    Check,
    Derived,
    DistanceLimits,
    File,
    InterpolateStep,
    JoinStep,
    ManyStep,
    SinkSection,
    SourceSection,
    SqlStep,
    Step,
)
from juncture.pipeline.problems import Path as Keys
from juncture.pipeline.problems import Problems
from juncture.pipeline.sinks import check_sink
from juncture.pipeline.sources import check_location, check_there, format_name, orders_of, source_schema
from juncture.planner.choose import check_algorithm
from juncture.planner.decision import Engine
from juncture.spec.many import named, resolve_table
from juncture.spec.resolved import refuse_orders
from juncture.spec.spines import Grid

Schemas = Mapping[str, pa.Schema | None]
"""The columns of each source and step; None if only Spark knows them."""


_OF_MATCHES = ("min_match_rate", "max_distance", "max_leaked")
_EXPECTATIONS = ("rows", "unique", "not_null", *_OF_MATCHES)


@dataclass(frozen=True)
class _Validation:
    """A validation in progress, with the schemas so far."""

    file: File
    engine: Engine
    problems: Problems
    schemas: dict[str, pa.Schema | None]
    maintained: frozenset[str]  # sources with changes and their steps, if changes are applied


def check_file(
    file: File, problems: Problems, *, engine: Engine, earlier_outputs: Iterable[Path] = (), mode: Mode = "batch"
) -> Schemas:
    """Validate all sections, add their problems, and return the known schemas. ``earlier_outputs`` may exist."""
    validation = _Validation(file, engine, problems, {}, changing(file) if mode == "changes" else frozenset())
    if "://" in file.pipeline.state:
        what = f"state={file.pipeline.state!r} is a URI."
        problems.add(("pipeline", "state"), f"{what} Expected a folder, on this machine or mounted.")
    for name, source in file.sources.items():
        validation.schemas[name] = _source(validation, name, source)
    for name in steps_in_order(file):
        validation.schemas[name] = _step(validation, name, file.steps[name])
    for number, check in enumerate(file.checks):
        _check(validation, ("checks", number), check)
    _sinks(validation, earlier_outputs, mode)
    return validation.schemas


def _source(validation: _Validation, name: str, source: SourceSection) -> pa.Schema | None:
    path: Keys = ("sources", name)
    keys = [*SourceSection.model_fields]
    try:
        orders_of(source)
    except JunctureError as error:
        validation.problems.add((*path, "order"), error)
    try:
        check_there(source)
        check_location(source, validation.engine)
        return source_schema(source)
    except JunctureError as error:
        message = str(error).replace("pass --no-header", "write header = false")
        message = message.replace("or pass --format ", "or write format = ")
        is_about_path = isinstance(error, DataError) or any(each in message for each in source.paths)
        if is_about_path and source.path is not None:
            validation.problems.add((*path, "path"), message)
        else:
            validation.problems.add_named(path, error, [key for key in keys if key in source.model_fields_set])
    except (OSError, pa.ArrowException) as error:
        validation.problems.add((*path, "path"), f"The path cannot be read: {error}")
    return None


def _step(validation: _Validation, name: str, step: Step) -> pa.Schema | None:
    path: Keys = ("steps", name)
    input_schemas = [validation.schemas.get(each) for each in step.inputs]
    schemas = [each for each in input_schemas if each is not None]
    if isinstance(step, JoinStep):
        try:
            check_algorithm(step.spec, step.algorithm, validation.engine)
        except JunctureError as error:
            validation.problems.add((*path, "algorithm"), error)
    if isinstance(step, Derived):
        _check_operations(validation, path, step)
    if isinstance(step, SqlStep) and validation.engine == "spark" and name not in validation.maintained:
        validation.problems.add((*path, "sql"), "sql= runs on Spark only over changes. Run with --engine local.")
    if len(schemas) < len(input_schemas):
        return None
    try:
        return _schema_of(step, schemas, validation.engine)
    except UnknownFunctionError as error:
        # Spark may have the function. Then only Spark knows the columns.
        if validation.engine == "local":
            validation.problems.add((*path, *error.key), error)
    except ExpressionError as error:
        validation.problems.add((*path, *error.key), error)
    except JunctureError as error:
        _add_error(validation, path, step, error)
    return None


def _add_error(validation: _Validation, path: Keys, step: Step, error: JunctureError) -> None:
    """Add an error at the key and table that it names."""
    if isinstance(step, ManyStep):
        for table in step.tables:
            if f"table {table!r}" in str(error):
                path = (*path, "tables", table)
    if isinstance(step, Derived) and step.grid is not None:
        path = (*path, "grid")
    inner = [str(each[-1]) for each in validation.problems.lines if each[:-1] == path]
    validation.problems.add_named(path, error, inner)


def _schema_of(step: Step, schemas: list[pa.Schema], engine: Engine) -> pa.Schema:
    if isinstance(step, JoinStep):
        left, right = schemas
        return step.spec.resolve(left, right).user_schema(left, right)
    if isinstance(step, ManyStep):
        return _schema_of_many(step, schemas, engine)
    if isinstance(step, InterpolateStep):
        left, right = schemas
        lines = step.spec.resolve(left, right)
        for table in step.spec.tables(None).values():
            table.spec.resolve(left, right)
        return pa.schema([*left, *(pa.field(name, pa.float64()) for _, name in lines.columns)])
    if isinstance(step, SqlStep):
        return sql_schema(step, schemas)
    if step.grid is None:
        return derived_schema(step, schemas[0])
    grid = Grid(**step.grid.model_dump()).resolve(schemas[0])
    return pa.schema([*(schemas[0].field(name) for name in grid.by), pa.field(grid.on, grid.type)])


def _schema_of_many(step: ManyStep, schemas: list[pa.Schema], engine: Engine) -> pa.Schema:
    spine, taken, fields = schemas[0], set(schemas[0].names), list(schemas[0])
    for (name, table), schema in zip(step.tables.items(), schemas[1:], strict=True):
        try:
            resolved_table = resolve_table(name, table.definition, spine, schema, taken)
            if engine == "spark":
                refuse_orders(resolved_table.join, "a join of many tables on Spark")
        except JunctureError as error:
            raise named(name, error) from error
        fields += [pa.field(each.name, schema.field(each.source).type) for each in resolved_table.columns]
        fields += [pa.field(each.name, each.type) for each in resolved_table.aggregates]
    return pa.schema(fields)


def _check_operations(validation: _Validation, path: Keys, step: Derived) -> None:
    does = [key for key in ("filter", "agg", "select", "distinct", "grid") if getattr(step, key)]
    if not does:
        validation.problems.add(path, "The step has no operation. Add filter, select, agg, distinct or grid.")
    if step.by and step.agg is None:
        validation.problems.add((*path, "by"), "by= without agg= has no effect. Add agg, or remove by.")
    if step.grid is not None and len(does) > 1:
        validation.problems.add((*path, "grid"), f"grid= and {does[0]}= exclude each other. Write a step for each.")


def _check(validation: _Validation, path: Keys, check: Check) -> None:
    add, read = validation.problems.add, check.from_
    expectations = [key for key in _EXPECTATIONS if key in check.model_fields_set]
    if not expectations:
        add(path, f"The check has no expectation. Add one of {', '.join(_EXPECTATIONS)}.")
    schema = validation.schemas.get(read)
    for key, names in (("unique", check.unique), ("not_null", check.not_null)):
        for name in names:
            if schema is not None and name not in schema.names:
                hint = did_you_mean(name, schema.names)
                add((*path, key), f"Column {name!r} does not exist in {read!r}. {hint}")
    step = validation.file.steps.get(read)
    if isinstance(step, ManyStep) and check.table is None and set(_OF_MATCHES) & set(expectations):
        add(path, f"The step {read!r} joins several tables. Select one: table = {next(iter(step.tables))!r}.")
    if check.table is not None and check.table not in (step.tables if isinstance(step, ManyStep) else ()):
        add((*path, "table"), f"The step {read!r} has no table {check.table!r}. Correct or remove table.")
    spec = step.spec if isinstance(step, JoinStep) else None
    if "min_match_rate" in expectations and not isinstance(step, JoinStep | ManyStep):
        add((*path, "min_match_rate"), f"min_match_rate= applies to joins, but {read!r} is not a join. Remove it.")
    if "max_distance" in expectations:
        if not isinstance(step, ManyStep) and not (spec is not None and spec.ranks_matches):
            add((*path, "max_distance"), f"max_distance= applies to as-of joins, but {read!r} is not one. Remove it.")
        _check_distance(validation, path, check)
    if "max_leaked" in expectations and not isinstance(step, ManyStep):
        add((*path, "max_leaked"), f"max_leaked= applies to joins of many tables, but {read!r} is not one. Remove it.")


def _check_distance(validation: _Validation, path: Keys, check: Check) -> None:
    limits = check.max_distance
    values = limits.model_dump().values() if isinstance(limits, DistanceLimits) else [limits]
    for value in values:
        try:
            if isinstance(value, str) and (not is_duration(value) or duration_ns(value, argument="max_distance") < 0):
                raise SpecError(
                    f'max_distance={value!r} is not a duration. Expected a duration such as "2h", or a number.',
                    name="JN-ARGUMENT-VALUE",
                )
        except JunctureError as error:
            validation.problems.add((*path, "max_distance"), error)


def _sinks(validation: _Validation, earlier_outputs: Iterable[Path], mode: Mode) -> None:
    inputs = _inputs(validation)
    targets: dict[Path | str, str] = {}
    for name, sink in validation.file.sinks.items():
        path: Keys = ("sinks", name)
        target: Path | str = sink.target_path.resolve() if sink.is_here else str(sink.path or sink.table)
        if target in targets and sink.format != "jdbc":
            key = "path" if sink.path else "table"
            validation.problems.add((*path, key), f"The sink {targets[target]!r} has the same {key}. Use another one.")
        targets.setdefault(target, name)
        goes_on = mode != "batch" and validation.file.checkpoint(name).exists()
        if mode == "stream" and not goes_on and sink.mode != "append":
            _refuse_rows(validation, path, sink)
        outputs = [*earlier_outputs, sink.target_path.resolve()] if goes_on else earlier_outputs
        try:
            schema = validation.schemas.get(sink.from_)
            of_changes = mode == "changes"
            check_sink(sink, schema, validation.engine, inputs=inputs, earlier_outputs=outputs, of_changes=of_changes)
        except JunctureError as error:
            fitting = SpecError(error.message.replace("or pass --format ", "or write format = "), name=error.name)
            keys = [key for key in SinkSection.model_fields if key in sink.model_fields_set]
            validation.problems.add_named(path, fitting, keys)


def _refuse_rows(validation: _Validation, path: Keys, sink: SinkSection) -> None:
    target = sink.target_path
    if sink.is_here and target.is_dir() and any(not each.name.startswith((".", "_")) for each in target.iterdir()):
        validation.problems.add(
            (*path, "path"),
            f"path={sink.path!r} contains rows that the stream has not written, and a stream only appends. Use another "
            'folder, remove this one, or write mode = "append".',
        )


def _inputs(validation: _Validation) -> list[Path]:
    files = list[Path]()
    for source in validation.file.sources.values():
        for path in source.paths:
            try:
                is_table = format_name(source) in SPARK_ONLY_FORMATS
                files += [] if "://" in path else [Path(path)] if is_table else paths_of(path, "path")
            except JunctureError:
                continue
    return files
