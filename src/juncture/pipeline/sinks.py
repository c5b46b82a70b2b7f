"""Sinks: their formats, validation of their targets, and writing that appears completely or not at all."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import PlanError, SchemaError, SpecError, did_you_mean
from juncture.files.formats import format_of
from juncture.files.output import check_target, replacing
from juncture.pipeline.model import SPARK_ONLY_FORMATS, SinkSection
from juncture.pipeline.sources import check_named
from juncture.planner.decision import Engine


def sink_format(sink: SinkSection) -> str:
    """Return the format of a sink: as named, by its path's extension, or Parquet."""
    if sink.format is not None:
        return sink.format
    if sink.table is not None or sink.path is None or not Path(sink.path).suffix:
        return "parquet"
    return format_of(sink.path, named=None, argument="path")


def check_sink(
    sink: SinkSection,
    schema: pa.Schema | None,
    engine: Engine,
    *,
    inputs: Sequence[Path],
    earlier_outputs: Iterable[Path],
    of_changes: bool = False,
) -> None:
    """Refuse a sink that cannot be written. `earlier_outputs` are outputs of earlier runs, which may exist."""
    name = sink_format(sink)
    check_named(sink, "sink", name)
    if sink.connector is not None:
        _check_connected(sink, schema, engine, of_changes=of_changes)
    if engine == "local" and sink.connector is None and (sink.table is not None or name in SPARK_ONLY_FORMATS):
        raise SpecError(
            f"table= and format={name!r} are written by Spark only. Run the pipeline on Spark, or write Parquet to a "
            "path.",
            name="JN-PIPELINE-ENGINE",
        )
    if engine == "spark" and name == "arrow":
        raise SpecError(
            "format='arrow' is written in this process only. Run with --engine local, or write Parquet.",
            name="JN-PIPELINE-ENGINE",
        )
    _check_uris(sink, engine, of_changes=of_changes)
    if schema is not None:
        _check_columns(sink, schema, name)
    if sink.is_here:
        _check_path(sink, inputs, set(earlier_outputs))


def _check_uris(sink: SinkSection, engine: Engine, *, of_changes: bool) -> None:
    written = sink.changes if of_changes else sink.path
    if engine == "local" and written is not None and "://" in written:
        key = "changes" if of_changes else "path"
        raise SpecError(
            f"{key}={written!r} is a URI, but this process writes to local folders only. Run the pipeline on Spark, "
            "or write to a folder and copy it.",
            name="JN-ARGUMENT-VALUE",
        )
    if sink.checkpoint is not None and "://" in sink.checkpoint:
        raise SpecError(
            f"checkpoint={sink.checkpoint!r} is a URI. Expected a folder, on this machine or mounted.",
            name="JN-ARGUMENT-VALUE",
        )


def _check_connected(sink: SinkSection, schema: pa.Schema | None, engine: Engine, *, of_changes: bool) -> None:
    """Refuse a sink with a connector that this run cannot write."""
    if engine == "spark":
        raise SpecError(
            f"format={sink.format!r} is written in this process only. Run with --engine local, or use format='jdbc'.",
            name="JN-PIPELINE-ENGINE",
        )
    if not of_changes:
        raise SpecError(
            f"format={sink.format!r} is written with --changes only. Run with --changes --engine local, or write files "
            "in a run without it.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if not sink.keys:
        raise SpecError(
            f'format="{sink.format}" needs key = "…", the columns that identify a row.', name="JN-ARGUMENT-CONFLICT"
        )
    if schema is not None:
        _check_names(sink, schema, sink.keys, "key")


def _check_names(sink: SinkSection, schema: pa.Schema, names: Sequence[str], argument: str) -> None:
    for name in names:
        if name not in schema.names:
            raise SchemaError(
                f"{argument} names column {name!r}, which does not exist in {sink.from_!r}. "
                f"{did_you_mean(name, schema.names)}",
                name="JN-COLUMN-MISSING",
            )
        if names.count(name) > 1:
            raise SchemaError(
                f"{argument} names column {name!r} {names.count(name)} times. Name it once.",
                name="JN-SINK-COLUMN-REPEATED",
            )


def _check_columns(sink: SinkSection, schema: pa.Schema, name: str) -> None:
    repeated = next((each for each in schema.names if schema.names.count(each) > 1), None)
    if repeated is not None:
        raise SchemaError(
            f"from={sink.from_!r} has several columns named {repeated!r}. Rename one of them with select, in a step.",
            name="JN-COLUMN-DUPLICATE",
        )
    _check_names(sink, schema, sink.partition_by, "partition_by")
    if sink.partition_by and len(sink.partition_by) == len(schema.names):
        raise SchemaError(
            f"partition_by names all columns of {sink.from_!r}. Expected at least one other column, because "
            "files contain only the other columns. Remove one.",
            name="JN-PARTITION-COLUMNS",
        )
    for column in sink.partition_by:
        if pat.is_nested(schema.field(column).type):
            raise SchemaError(
                f"partition_by names column {column!r} of type {schema.field(column).type}. Expected a number, text, "
                "date or time, which can be a folder name.",
                name="JN-TYPE-UNSUPPORTED",
            )
    nested = [field for field in schema if pat.is_nested(field.type)]
    if name in ("csv", "tsv") and nested:
        raise SchemaError(
            f"format={name!r} does not support column {nested[0].name!r} of type {nested[0].type}. Write Parquet.",
            name="JN-TYPE-UNSUPPORTED",
        )


def _check_path(sink: SinkSection, inputs: Sequence[Path], earlier_outputs: set[Path]) -> None:
    target = sink.target_path
    if sink.mode == "append" and target.is_file():
        raise PlanError(
            f"path={sink.path!r} is a file, but mode='append' adds files to a folder. Use a folder.",
            name="JN-OUTPUT-APPEND",
        )
    if sink.mode == "append" and not sink.partition_by and target.suffix:
        raise PlanError(
            f"path={sink.path!r} names a file, but mode='append' adds files to a folder. Use a folder.",
            name="JN-OUTPUT-APPEND",
        )
    if sink.mode == "error" and target.exists() and target.resolve() not in earlier_outputs:
        raise PlanError(
            f'path={sink.path!r} exists. Write mode = "overwrite" to replace it, "append" to add to it, or use '
            "another path.",
            name="JN-OUTPUT-EXISTS",
        )
    if target.exists() and target.resolve() in earlier_outputs:
        return
    above = next(each for each in target.absolute().parents if each.exists())
    if not above.is_dir():
        raise PlanError(
            f"path={sink.path!r} cannot be written, because {above} is not a folder. Use another path.",
            name="JN-OUTPUT-FOLDER",
        )
    if target.exists():
        try:
            check_target(target, overwrite=True, inputs=inputs)
        except PlanError as error:
            # The message is that of the command line, which names an option where a pipeline has a key.
            message = error.message.replace(str(target), f"path={sink.path!r}")
            raise PlanError(message.replace("Pass another -o.", "Use another path."), name=error.name) from error
    elif any(target.resolve() in each.resolve().parents for each in inputs):
        raise PlanError(f"path={sink.path!r} contains an input. Use another path.", name="JN-OUTPUT-INPUT")


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file or folder, which replaces it if the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as fresh:
        yield fresh


@contextmanager
def adding(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files are moved to `folder` if the block succeeds. Their names must be unique."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.new")
    moved = list[Path]()
    try:
        yield fresh
        for file in sorted(
            path for path in fresh.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        ):
            target = folder / file.relative_to(fresh)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
            moved.append(target)
    except BaseException:
        for target in moved:
            target.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
