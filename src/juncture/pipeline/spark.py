"""Pipelines on Spark: each source and step is a lazy DataFrame, which is a streaming one in a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import NullType

from juncture.columnar.conversion import converted
from juncture.errors import DataError, JunctureError, PlanError, error_from_spark
from juncture.files.formats import paths_of
from juncture.files.text.types import as_text
from juncture.inputs.kinds import is_stream
from juncture.joins.many import plan_many
from juncture.joins.planning import plan
from juncture.joins.spines import grid, interpolate
from juncture.joins.streaming import plan_stream
from juncture.pipeline.engine import Engine, MatchCounts, Watch, rights, semi, unwatched
from juncture.pipeline.model import (
    SPARK_ONLY_FORMATS,
    Derived,
    File,
    InterpolateStep,
    JoinStep,
    ManyStep,
    SinkSection,
    SourceSection,
    SqlStep,
)
from juncture.pipeline.sinks import adding, placed, sink_format
from juncture.pipeline.sources import comes, format_name, is_text, orders_of, parquet_files
from juncture.spark.frames import from_arrow
from juncture.spark.input.sides import FileSide, FrameSide, in_jvm
from juncture.spark.plan import plan as plan_on_spark
from juncture.spark.schema import spark_schema, wire_schema
from juncture.spark.session.session import is_connect, resources

_SPARKS_ERRORS = (PySparkException, Py4JError)  # exceptions of Spark: those of PySpark, and others of classic Spark


class SparkEngine(Engine):
    """The engine of a Spark session, which persists sources and steps that are read more than once, ``persisted``."""

    def __init__(
        self,
        file: File,
        schemas: Any,
        session: SparkSession,
        watch: Watch = unwatched,
        *,
        is_stream: bool = False,
        persisted: Sequence[str] = (),
        source_columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        super().__init__(file, schemas, watch, source_columns)
        self._session = session
        self._is_stream = is_stream
        self._persisted = frozenset(persisted)
        self._files: dict[str, FileSide] = {}
        self._frames: dict[str, DataFrame] = {}
        self._plans: dict[str, Any] = {}

    def make(self, name: str) -> None:
        """Create the DataFrame of a source or step. Of Parquet files, only footers are read."""
        if name in self._file.sources:
            source = self._file.sources[name]
            if self._is_file(source):
                side = FileSide.of(self._session, parquet_files(source), self._cores)
                self._files[name] = side.selecting(self._source_columns[name]) if name in self._source_columns else side
                return
            frame = self._source(name, source)
            if name in self._source_columns:
                frame = frame.select(*map(_column, self._source_columns[name]))
        else:
            with self._watch(f"Planning {name}"), _computing(name):
                frame = self._step(name)
        self._frames[name] = frame.persist() if name in self._persisted and not frame.isStreaming else frame

    def rows_of(self, name: str) -> DataFrame:
        """Return a source or step as a lazy DataFrame."""
        if name not in self._frames:
            try:
                self._frames[name] = in_jvm(self._files[name], "left").frame
            except _SPARKS_ERRORS as error:
                raise _unread(name, "parquet", error) from error
        return self._frames[name]

    def count(self, name: str, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return the number of rows, and the number of nulls in columns."""
        nulls = [F.count(F.when(_column(each).isNull(), 1)) for each in columns]
        with _computing(name):
            counts = self.rows_of(name).agg(F.count(F.lit(1)), *nulls).collect()[0]
        return counts[0], dict(zip(columns, counts[1:], strict=True))

    def repeated(self, name: str, columns: Sequence[str]) -> int:
        """Return the number of key values that occur more than once."""
        with _computing(name):
            return self.rows_of(name).groupBy(*map(_column, columns)).count().where("count > 1").count()

    def matches(self, name: str, table: str | None) -> MatchCounts:
        """Return the match counts of a step."""
        with _computing(name):
            return super().matches(name, table)

    def _semi_matches(self, step: JoinStep) -> MatchCounts:
        left, right = self.rows_of(step.left), self.rows_of(step.right)
        return MatchCounts(left.count(), plan(left, right, semi(step.spec), lazy=True).execute().count())

    def plan(self, name: str) -> Any:
        """Return the plan of a join step, which also computes its rows, or None for another step."""
        if name not in self._plans:
            self._plans[name] = self._planned(name)
        return self._plans[name]

    def _planned(self, name: str) -> Any:
        step = self._file.steps[name]
        if isinstance(step, JoinStep):
            return self._planned_join(step)
        if isinstance(step, ManyStep):
            return plan_many(self._side(step.left), rights(step, self._side), spark=self._session)
        return None

    def _planned_join(self, step: JoinStep) -> Any:
        if any(_comes(self._frames.get(each)) for each in step.inputs):
            return self._planned_stream(step)
        # Rows of previous steps are not computed only to count them.
        lazy = any(each in self._file.steps for each in step.inputs)
        sides = self._open_side(step.left), self._open_side(step.right)
        planned = partial(plan_on_spark, step.spec, *sides, algorithm=step.algorithm, session=self._session)
        try:
            return planned(lazy=lazy)
        except PlanError:
            # Some joins need statistics of their inputs.
            return planned()

    def _planned_stream(self, step: JoinStep) -> Any:
        sides = self._side(step.left), self._side(step.right)
        if not all(map(_comes, sides)):
            return plan(*sides, step.spec, algorithm=step.algorithm, spark=self._session)
        if step.algorithm != "auto":
            raise PlanError(
                f"algorithm={step.algorithm!r} joins tables, but both sides are streams. Remove algorithm=.",
                name="JN-ALGORITHM-UNSUITABLE",
            )
        orders = {"left_order": self._orders(step.left), "right_order": self._orders(step.right)}
        return plan_stream(*sides, step.spec, **orders)

    def write(self, sink: SinkSection) -> int | None:
        """Write a sink: to a temporary folder that is renamed at the end, or as Spark does for remote targets."""
        frame = self.rows_of(sink.from_)
        with self._watch(f"Writing {sink.path or sink.table or sink.from_}"):
            if sink.is_here and sink_format(sink) == "parquet":
                # The files have their number of rows, so the query need not count them.
                return self._write_here(frame, sink)
            observation = Observation()
            frame = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
            if sink.is_here:
                self._write_here(frame, sink)
            else:
                self._write_elsewhere(frame, sink)
            return int(observation.get["rows"])

    def _write_here(self, frame: DataFrame, sink: SinkSection) -> int:
        """Write a folder of files, and return the number of rows of Parquet files."""
        replacing_or_adding = adding if sink.mode == "append" else placed
        with _computing(sink.from_), replacing_or_adding(sink.target_path) as fresh:
            self._writer(frame, sink).save(str(fresh.absolute()))
            return sum(pq.read_metadata(file).num_rows for file in fresh.rglob("*.parquet"))

    def start(self, sink: SinkSection, checkpoint: Path, trigger: dict[str, Any]) -> Any:
        """Start the streaming query that writes a sink."""
        frame = self.rows_of(sink.from_)
        options = {name: _text(value) for name, value in sink.options.items()}
        writer = frame.writeStream.outputMode("append").trigger(**trigger).options(**options)
        writer = writer.option("checkpointLocation", str(checkpoint.absolute())).format(
            _spark_format(sink_format(sink))
        )
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        if sink.table is not None:
            return writer.toTable(sink.table)
        target = str(sink.target_path.absolute()) if sink.is_here else str(sink.path)
        return writer.start(target)

    def close(self) -> None:
        """Release persisted rows."""
        for name in self._persisted & set(self._frames):
            self._frames[name].unpersist()

    def _step(self, name: str) -> DataFrame:
        step = self._file.steps[name]
        frame: DataFrame
        assert not isinstance(step, SqlStep), "validation refuses it"
        if isinstance(step, JoinStep | ManyStep):
            frame = self.plan(name).execute()
        elif isinstance(step, InterpolateStep):
            frame = interpolate(self._side(step.left), self._side(step.right), **step.arguments, spark=self._session)
        elif step.grid is not None:
            frame = grid(self._side(step.from_), **step.grid.model_dump(), spark=self._session)
        else:
            frame = derived(self.rows_of(step.from_), step)
        return frame

    def _side(self, name: str) -> Any:
        """Return the input of a join: files by path, so that its tasks read them, or a DataFrame."""
        if name in self._files:
            return parquet_files(self._file.sources[name])
        return self.rows_of(name)

    def _open_side(self, name: str) -> FileSide | FrameSide:
        """Return the input of a join as a side, to avoid detecting whether a step is a file."""
        return self._files.get(name) or FrameSide.of(self.rows_of(name), "left")

    def _is_file(self, source: SourceSection) -> bool:
        """Return whether a source is Parquet files that this process can read, too."""
        is_table = not (self._is_stream and comes(source))
        return is_table and format_name(source) == "parquet" and not _is_remote(self._session)

    @cached_property
    def _cores(self) -> int:
        return resources(self._session).cores

    def _orders(self, name: str) -> Any:
        """Return the orders of a stream, which filters and selected columns preserve."""
        while name in self._file.steps:
            step = self._file.steps[name]
            if not isinstance(step, Derived) or step.agg is not None:
                return None
            name = step.from_
        return orders_of(self._file.sources[name])

    def _source(self, name: str, source: SourceSection) -> DataFrame:
        form, options = format_name(source), {key: _text(value) for key, value in source.options.items()}
        try:
            if self._is_stream and comes(source):
                return self._streamed(name, source, form, options)
            if source.connector is not None:
                return self._copied(source.connector.rows(source.connected(name)).read_all())
            if source.table is not None:
                return self._session.read.options(**options).table(source.table)
            if form in SPARK_ONLY_FORMATS:
                frame = self._session.read.format(form).options(**options).load(*source.paths)
                # Spark Connect resolves the format when columns are read, not before.
                _ = frame.schema
                return frame
            if form == "parquet":
                merged = {"mergeSchema": "true"} if source.union_by_name else {}
                return self._session.read.options(**merged, **options).parquet(*source.paths)
            return self._text(name, source, form, options)
        except _SPARKS_ERRORS as error:
            raise _unread(name, form, error) from error

    def _copied(self, rows: pa.Table) -> DataFrame:
        wire = wire_schema(rows.schema)
        columns = [converted(column, field.type) for column, field in zip(rows.columns, wire, strict=True)]
        return from_arrow(self._session, pa.table(columns, schema=wire))

    def _text(self, name: str, source: SourceSection, form: str, options: dict[str, str]) -> DataFrame:
        """Return text with the types inferred from its start. A value of another type is an error."""
        reader = self._session.read.options(**_text_settings(source, form), **options)
        files = [str(file.absolute()) for path in source.paths for file in paths_of(path, "path")]
        roots = [path for path in source.paths if Path(path).is_dir()]
        schema = self._schemas[name]
        reader = reader.schema(spark_schema(as_text(schema))).format(_spark_format(form))
        frame = reader.load(str(Path(roots[0]).absolute()) if len(roots) == len(source.paths) == 1 else files)
        # Spark cannot read text as the null type.
        nothing = {each.name: F.lit(None) for each in schema if pat.is_null(each.type)}
        return frame.withColumns(nothing) if nothing else frame

    def _streamed(self, name: str, source: SourceSection, form: str, options: dict[str, str]) -> DataFrame:
        reader = self._session.readStream.options(**options)
        if source.table is not None:
            return reader.table(source.table)
        if form in SPARK_ONLY_FORMATS:
            return reader.format(form).load(*source.paths)
        if len(source.paths) != 1:
            raise PlanError(
                f"The source {name!r} has several paths, but a stream reads one folder. Use a single folder.",
                name="JN-STREAM-PATHS",
            )
        if is_text(form):
            reader = reader.options(**_text_settings(source, form))
        path = Path(source.paths[0])
        # Spark streams folders, so a single file is selected by a name filter.
        if path.is_file():
            reader, path = reader.option("pathGlobFilter", path.name), path.parent
        return reader.schema(spark_schema(self._schemas[name])).format(_spark_format(form)).load(str(path.absolute()))

    def _writer(self, frame: DataFrame, sink: SinkSection) -> Any:
        form = sink_format(sink)
        options = {name: _text(value) for name, value in sink.options.items()}
        if form in ("csv", "tsv"):
            options = {"header": "true", "sep": "\t" if form == "tsv" else ",", **options}
        if form == "json":
            options = {"ignoreNullFields": "false", **options}
        # Spark's writers do not support the null type.
        nothing = [each.name for each in frame.schema if isinstance(each.dataType, NullType)]
        if nothing:
            frame = frame.withColumns({name: F.lit(None).cast("string") for name in nothing})
        writer = frame.write.format(_spark_format(form)).options(**options)
        return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer

    def _write_elsewhere(self, frame: DataFrame, sink: SinkSection) -> None:
        """Write a table or remote target with Spark's own committers."""
        mode = "errorifexists" if sink.mode == "error" else sink.mode
        writer = self._writer(frame, sink).mode(mode)
        try:
            if sink.table is not None:
                writer.saveAsTable(sink.table)
            elif sink.path is not None:
                writer.save(sink.path if "://" in sink.path else str(sink.target_path.absolute()))
            else:
                writer.save()
        except _SPARKS_ERRORS as error:
            raise _unread(sink.table or sink.path or "jdbc", sink_format(sink), error) from error


@contextmanager
def _computing(name: str) -> Iterator[None]:
    """Raise the error of a failed Spark action as a JunctureError: the one that it carries, or one with the step."""
    try:
        yield
    except _SPARKS_ERRORS as error:
        raise error_from_spark(error) or DataError(
            f"The step {name!r} failed on Spark: {_first_words(error)}", name="JN-SPARK-FAILED"
        ) from error


def derived(frame: DataFrame, step: Derived) -> DataFrame:
    """Return the result of a derived step."""
    if step.filter is not None:
        frame = frame.filter(step.filter)
    if step.agg is not None:
        aggregates = [F.expr(text).alias(name) for name, text in step.agg.items()]
        frame = frame.groupBy(*map(_column, step.by)).agg(*aggregates)
    if isinstance(step.select, dict):
        frame = frame.select(*(F.expr(text).alias(name) for name, text in step.select.items()))
    elif step.select is not None:
        frame = frame.selectExpr(*step.select)
    return frame.distinct() if step.distinct else frame


def _comes(side: Any) -> bool:
    return is_stream(side)


def _column(name: str) -> Any:
    return F.col("`" + name.replace("`", "``") + "`")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spark_format(name: str) -> str:
    return "csv" if name == "tsv" else name


def _text_settings(source: SourceSection, form: str) -> dict[str, str]:
    if form == "json":
        first = next((file for path in source.paths for file in paths_of(path, "path")), None)
        is_list = first is not None and _begins_with_list(first)
        return {"mode": "FAILFAST", "multiLine": str(is_list).lower()}
    return {
        "mode": "FAILFAST",
        "header": str(source.header).lower(),
        "sep": "\t" if form == "tsv" else source.delimiter,
        "nullValue": source.nulls[0] if source.nulls else "",
        "emptyValue": "",
        "escape": '"',
    }


def _begins_with_list(file: Path) -> bool:
    with pa.input_stream(str(file), compression="detect") as stream:
        return bool(stream.read(1024).lstrip()[:1] == b"[")


def _is_remote(session: SparkSession) -> bool:
    """Return whether Spark may run on other machines, with other files than this process."""
    if not is_connect(session):
        return False
    return not str(session.conf.get("spark.master", "") or "").startswith("local")


def _first_words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    informative = [line for line in lines if not line.startswith("An error occurred while calling")]
    return re.sub(r"^: [\w.$]+: ", "", next(iter(informative), "unknown cause"))


def _unread(name: str, form: str, error: Exception) -> JunctureError:
    juncture_error, text = error_from_spark(error), str(error)
    if juncture_error is not None:
        return juncture_error
    if "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFound" in text or "No suitable driver" in text:
        return PlanError(
            f"The format {form} of {name!r} is not available in Spark. Add its package under [spark], such as "
            '"spark.jars.packages" = "…", or add its jars to Spark.',
            name="JN-SPARK-PACKAGE",
        )
    return DataError(f"{name!r} cannot be accessed by Spark: {_first_words(error)}", name="JN-SPARK-ACCESS")
