"""Pipelines in this process. Each step is written to a Parquet file in a temporary folder, so memory is bounded."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.columnar.arrays import with_fields
from juncture.columnar.conversion import converted_columns, with_types
from juncture.errors import DataError
from juncture.files.arrow import arrow_rows, arrow_schema
from juncture.files.formats import FORMATS, Format, files_of, paths_of
from juncture.files.text.options import TextOptions
from juncture.files.text.read import TextFiles
from juncture.files.text.write import write_rows
from juncture.inputs.files import Files
from juncture.joins.many import plan_many
from juncture.joins.spines import grid, interpolate
from juncture.local.plan import plan
from juncture.local.resources import resources_here
from juncture.pipeline.engine import Engine, MatchCounts, Watch, rights, semi, unwatched
from juncture.pipeline.expressions import counted, derived_batches, sql_batches
from juncture.pipeline.model import File, InterpolateStep, JoinStep, ManyStep, SinkSection, SourceSection, SqlStep
from juncture.pipeline.sinks import adding, placed, sink_format
from juncture.pipeline.sources import format_name, is_text, parquet_files, text_options
from juncture.planner.plan import Plan
from juncture.runtime.parquet import ParquetSource
from juncture.spec.kinds import Spec

_ROW_GROUP_ROWS = 1 << 20


class LocalEngine(Engine):
    """The engine in this process. ``work`` is the folder of the results of steps."""

    def __init__(
        self,
        file: File,
        schemas: Any,
        watch: Watch = unwatched,
        memory: str | int | None = None,
        source_columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        super().__init__(file, schemas, watch, source_columns)
        self._memory = memory
        self._work = tempfile.TemporaryDirectory(prefix="juncture-")
        self.work = Path(self._work.name)
        self._files: dict[str, Files] = {}

    def make(self, name: str) -> None:
        """Compute a source or step."""
        if name in self._file.sources:
            self._files[name] = self._source(name, self._file.sources[name])
            return
        step, target = self._file.steps[name], self._target()
        with self._watch(name) as progress:
            if isinstance(step, JoinStep):
                _write(self.plan(name).batches(progress=progress.phase), target)
            elif isinstance(step, ManyStep):
                _write(self.plan(name).execute(progress=progress.phase).to_reader(_ROW_GROUP_ROWS), target)
            elif isinstance(step, InterpolateStep):
                sides = self._files[step.left], self._files[step.right]
                table = interpolate(*sides, **step.arguments, memory=self._memory)
                _write(table.to_reader(_ROW_GROUP_ROWS), target)
            elif isinstance(step, SqlStep):
                tables = [self._dataset(each) for each in step.inputs]
                with sql_batches(name, step, tables, self.work) as batches:
                    _write(batches, target)
            elif step.grid is not None:
                table = grid(self._files[step.from_], **step.grid.model_dump())
                _write(table.to_reader(_ROW_GROUP_ROWS), target)
            else:
                rows = _reader(self._table(step.from_))
                with derived_batches(name, step, rows, self.work) as batches:
                    _write(batches, target)
        self._files[name] = Files(target, "parquet")

    def rows_of(self, name: str) -> pa.Table:
        """Return the rows of a source or step as a table."""
        return self.reader(name).read_all()

    def reader(self, name: str) -> pa.RecordBatchReader:
        """Return the rows of a source, or of a step that is computed, batch by batch."""
        if name not in self._files:
            self.make(name)
        return _reader(self._table(name))

    def count(self, name: str, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return the number of rows, and the number of nulls in columns."""
        nulls = dict.fromkeys(columns, 0)
        rows = self._table(name)
        for batch in _reader(rows.selecting(columns)) if columns else ():
            for column in columns:
                nulls[column] += batch.column(column).null_count
        return rows.num_rows, nulls

    def repeated(self, name: str, columns: Sequence[str]) -> int:
        """Return the number of key values that occur more than once."""
        return counted(_reader(self._table(name).selecting(columns)), columns, self.work)

    def _semi_matches(self, step: JoinStep) -> MatchCounts:
        matched = sum(batch.num_rows for batch in self._planned(step, semi(step.spec)).batches())
        return MatchCounts(self._table(step.left).num_rows, matched)

    def plan(self, name: str) -> Any:
        """Return the plan of a join step, or None for another step."""
        step = self._file.steps[name]
        if isinstance(step, JoinStep):
            return self._planned(step, step.spec, step.algorithm)
        if isinstance(step, ManyStep):
            return plan_many(self._files[step.left], rights(step, self._files.__getitem__), memory=self._memory)
        return None

    def _planned(self, step: JoinStep, spec: Spec, algorithm: str = "auto") -> Plan:
        sides = self._table(step.left), self._table(step.right)
        return plan(spec, *sides, algorithm=algorithm, stats=None, resources=resources_here(self._memory))

    def _table(self, name: str) -> ParquetSource:
        """Return the rows of a source or step, without unneeded columns."""
        files = self._files[name]
        table = ParquetSource(
            files.paths, union_by_name=files.union_by_name, version=files.version, filesystem=files.store
        )
        return table.selecting(self._source_columns[name]) if name in self._source_columns else table

    def write(self, sink: SinkSection) -> int:
        """Write a sink: a file if its path has an extension, otherwise a folder."""
        target, rows, table = sink.target_path, 0, self._table(sink.from_)
        chosen = next(each for each in FORMATS if each == sink_format(sink))
        with self._watch(f"Writing {sink.path}"):
            if sink.mode == "append" or sink.partition_by or not target.suffix:
                with (adding if sink.mode == "append" else placed)(target) as fresh:
                    rows = _write_folder(_reader(table), sink, chosen, fresh)
            else:
                with placed(target) as fresh:
                    rows = write_rows(_reader(table), chosen, fresh, ending=target.suffix)
        return rows

    def close(self) -> None:
        """Remove the results of steps."""
        self._work.cleanup()

    def _dataset(self, name: str) -> ds.Dataset:
        """Return the rows of a source or step as a file that can be read repeatedly."""
        if name in self._file.steps:
            return ds.dataset(self._files[name].paths)
        target = self._target()
        _write(_reader(self._table(name)), target)
        return ds.dataset(target)

    def _target(self) -> Path:
        return Path(self.work, f"{secrets.token_hex(8)}.parquet")

    def _source(self, name: str, source: SourceSection) -> Files:
        """Return Parquet files with the rows of a source; text is converted once."""
        form = format_name(source)
        if form == "parquet":
            return parquet_files(source)
        target = self._target()
        with self._watch(f"Reading {name}"):
            if form == "arrow":
                files = [file for path in source.paths for file in paths_of(path, "path")]
                _write(pa.RecordBatchReader.from_batches(arrow_schema(files), arrow_rows(files)), target)
            elif source.connector is not None:
                _write(source.connector.rows(source.connected(name)), target)
            elif is_text(form):
                self._read_text(name, source, target)
        return Files(target, "parquet")

    def _read_text(self, name: str, source: SourceSection, target: Path) -> None:
        files = [file for path in source.paths for file in files_of(path, "path")]
        text, schema = TextFiles.of(files, format_name(source), TextOptions()), self._schemas[name]
        types = {each.name: each.type for each in schema if each.name not in text.partitions[0].names}
        try:
            replace(text, options=text_options(source, types)).write_parquet(target)
        except DataError as error:
            raise DataError(
                f'{error.message} If {name!r} has other types, set them: types = {{ column = "string" }}.',
                name=error.name,
            ) from error
        if pq.read_schema(target).names != schema.names:
            extra = sorted(set(pq.read_schema(target).names) - set(schema.names))
            raise DataError(
                f"The source {name!r} has the column {extra[0]!r} in later rows only. Add it to types.",
                name="JN-FILE-COLUMNS",
            )


def _reader(table: ParquetSource) -> pa.RecordBatchReader:
    schema = table.schema
    batches = (batch.cast(schema) for part in range(len(table.part_rows)) for batch in table.read(part, schema.names))
    return pa.RecordBatchReader.from_batches(schema, batches)


def _write(batches: pa.RecordBatchReader, target: Path) -> None:
    with pq.ParquetWriter(target, batches.schema, compression="lz4") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    if pat.is_string_view(data_type):
        return pa.string()
    if pat.is_binary_view(data_type):
        return pa.binary()
    return with_fields(data_type, lambda field: field.with_type(_without_views(field.type)))


def _write_folder(batches: pa.RecordBatchReader, sink: SinkSection, chosen: Format, fresh: Path) -> int:
    token = secrets.token_hex(8)
    rows = 0

    # Partitioning needs to select rows, which Arrow cannot do for views.
    types = {each.name: _without_views(each.type) for each in batches.schema} if sink.partition_by else {}
    schema = with_types(batches.schema, types)
    fields = pa.schema([schema.field(name) for name in sink.partition_by])

    def passed() -> Iterable[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield converted_columns(batch, types)

    ds.write_dataset(
        pa.RecordBatchReader.from_batches(schema, passed()),
        fresh,
        format="parquet",
        partitioning=ds.partitioning(fields, flavor="hive") if sink.partition_by else None,
        basename_template=f"part-{token}-{{i}}.parquet",
        max_partitions=10_000,
    )
    if not any(fresh.rglob("*.parquet")):
        fresh.mkdir(exist_ok=True)
        stored_columns = pa.schema([each for each in schema if each.name not in sink.partition_by])
        pq.write_table(stored_columns.empty_table(), fresh / f"part-{token}-0.parquet")
    if chosen != "parquet":
        for file in sorted(fresh.rglob("*.parquet")):
            write_rows(file, chosen, file.with_suffix(f".{chosen}"))
            file.unlink()
    return rows
