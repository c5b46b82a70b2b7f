"""Sinks: their formats, and whether rows may go there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import PlanError, SchemaError, SpecError, did_you_mean
from juncture.files.formats import format_of
from juncture.files.output import check_target
from juncture.pipeline.model import KEPT_FORMATS, File, SinkSection
from juncture.pipeline.postgres import check_options
from juncture.planner.decision import Engine


def sink_format(sink: SinkSection) -> str:
    """Return the format of a sink: that of its name or of its path's ending, or else Parquet.

    Raises
    ------
    SpecError
        If the ending is that of none.
    """
    if sink.format is not None:
        return sink.format
    if sink.table is not None or sink.path is None or not Path(sink.path).suffix:
        return "parquet"
    return format_of(sink.path, named=None, argument="path")


def is_here(sink: SinkSection) -> bool:
    """Tell whether a sink is a file or a folder of this machine, or of one that it shares."""
    return sink.path is not None and "://" not in sink.path and sink.format not in KEPT_FORMATS


def sink_place(sink: SinkSection, folder: Path) -> Path:
    """Return the file or folder of a sink that has one, from where the pipeline's file is."""
    return folder / Path(sink.path or "").expanduser()


def checkpoint_of(file: File, name: str, folder: Path) -> Path:
    """Return where the stream that writes a sink keeps how far it is."""
    return folder / (file.sinks[name].checkpoint or Path(file.pipeline.state, "checkpoints", name))


def check_sink(
    sink: SinkSection,
    schema: pa.Schema | None,
    engine: Engine,
    folder: Path,
    *,
    inputs: Sequence[Path],
    own: Iterable[Path],
    of_changes: bool = False,
) -> None:
    """Refuse a sink that cannot be written.

    Parameters
    ----------
    sink
        The sink.
    schema
        Of the rows, if it is known.
    engine
        What writes it.
    folder
        Where the pipeline's file is.
    inputs
        The files that are read.
    own
        Places that this pipeline has written before, which may be there.
    of_changes
        Whether it gets what changes of its rows.

    Raises
    ------
    JunctureError
        With what to write instead.
    """
    name = sink_format(sink)
    if name == "postgres":
        _check_postgres(sink, schema, engine, of_changes=of_changes)
    if name == "jdbc":
        if not {"url", "dbtable"} <= set(sink.options):
            raise SpecError('format="jdbc" needs options = { url = "jdbc:…", dbtable = "…" }.')
    elif (sink.path is None) == (sink.table is None):
        given = "both path= and table=" if sink.path else "neither path= nor table="
        raise SpecError(f'The sink has {given}. Expected one of them, such as path = "joined.parquet".')
    if engine == "local" and name != "postgres" and (sink.table is not None or name in KEPT_FORMATS):
        raise SpecError("table= and format= name what only Spark writes. Run it on Spark, or write Parquet to a path.")
    if engine == "spark" and name == "arrow":
        raise SpecError("format='arrow' is written in this process only. Run it with --engine local, or write Parquet.")
    _check_uris(sink, engine, of_changes=of_changes)
    if schema is not None:
        _check_columns(sink, schema, name)
    if is_here(sink):
        _check_path(sink, folder, inputs, set(own))


def _check_uris(sink: SinkSection, engine: Engine, *, of_changes: bool) -> None:
    """Refuse URIs that would be taken for folders of this machine."""
    written = sink.changes if of_changes else sink.path
    if engine == "local" and written is not None and "://" in written:
        key = "changes" if of_changes else "path"
        raise SpecError(
            f"{key}={written!r} is a URI, and this process writes to folders of this machine only. Run it on Spark, or "
            "write to a folder and copy it."
        )
    if sink.checkpoint is not None and "://" in sink.checkpoint:
        raise SpecError(
            f"checkpoint={sink.checkpoint!r} is a URI. Expected a folder of this machine, or one that it shares."
        )


def _check_postgres(sink: SinkSection, schema: pa.Schema | None, engine: Engine, *, of_changes: bool) -> None:
    check_options(sink)
    if engine == "spark":
        raise SpecError(
            "format='postgres' is written in this process: run it with --engine local. On Spark, write by format = "
            '"jdbc".'
        )
    if not of_changes:
        raise SpecError(
            "format='postgres' names a table that is kept up to date: juncture run --changes --engine local. A batch "
            "run writes files."
        )
    if not sink.keys:
        raise SpecError('format="postgres" needs key = "…": the columns that tell its rows apart.')
    if schema is not None:
        _check_names(sink, schema, sink.keys, "key")


def _check_names(sink: SinkSection, schema: pa.Schema, names: Sequence[str], argument: str) -> None:
    """Refuse names that are not those of different columns."""
    for name in names:
        if name not in schema.names:
            raise SchemaError(
                f"{argument} names column {name!r}, which {sink.from_!r} does not have. "
                f"{did_you_mean(name, schema.names)}"
            )
        if names.count(name) > 1:
            raise SchemaError(f"{argument} names column {name!r} {names.count(name)} times. Name it once.")


def _check_columns(sink: SinkSection, schema: pa.Schema, name: str) -> None:
    repeated = next((each for each in schema.names if schema.names.count(each) > 1), None)
    if repeated is not None:
        raise SchemaError(
            f"from={sink.from_!r} has more than one column {repeated!r}. Rename one of them with select, in a step."
        )
    _check_names(sink, schema, sink.partitions, "partition_by")
    if sink.partitions and len(sink.partitions) == len(schema.names):
        raise SchemaError(
            f"partition_by names all columns of {sink.from_!r}. Expected fewer, since files hold the others. Leave one "
            "out."
        )
    for column in sink.partitions:
        if pat.is_nested(schema.field(column).type):
            raise SchemaError(
                f"partition_by names column {column!r} of type {schema.field(column).type}. Expected a column whose "
                "values can be the names of folders: a number, a text, a date or a time."
            )
    nested = [field for field in schema if pat.is_nested(field.type)]
    if name in ("csv", "tsv") and nested:
        raise SchemaError(
            f"format={name!r} cannot hold the column {nested[0].name!r} of type {nested[0].type}. Write Parquet."
        )


def _check_path(sink: SinkSection, folder: Path, inputs: Sequence[Path], own: set[Path]) -> None:
    place = sink_place(sink, folder)
    if sink.mode == "append" and place.is_file():
        raise PlanError(f"path={sink.path!r} is a file, and mode='append' adds files to a folder. Name a folder.")
    if sink.mode == "append" and not sink.partitions and place.suffix:
        raise PlanError(f"path={sink.path!r} names a file, and mode='append' adds files to a folder. Name a folder.")
    if sink.mode == "error" and place.exists() and place.resolve() not in own:
        raise PlanError(
            f'path={sink.path!r} exists. Say mode = "overwrite" to replace it, "append" to add to it, or name another.'
        )
    if place.exists() and place.resolve() in own:
        return
    above = next(each for each in place.absolute().parents if each.exists())
    if not above.is_dir():
        raise PlanError(f"path={sink.path!r} cannot be written, since {above} is no folder.")
    if place.exists():
        try:
            check_target(place, overwrite=True, inputs=inputs)
        except PlanError as error:
            raise PlanError(
                str(error).replace(str(place), f"path={sink.path!r}").replace("Pass another -o.", "Name another.")
            ) from error
    elif any(place.resolve() in each.resolve().parents for each in inputs):
        raise PlanError(f"path={sink.path!r} holds an input. Name another.")
