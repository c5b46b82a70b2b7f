"""The execution of `juncture view`: read the first rows, apply the changes as they arrive, and write the result's."""

from __future__ import annotations

import re
import sys
import tempfile
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

import juncture as jn
from juncture.cli.console import messages
from juncture.cli.inputs import Reading, as_parquet, text_options
from juncture.cli.options import STANDARD_INPUT, STANDARD_OUTPUT, check_there, distance_of
from juncture.cli.progress import step
from juncture.cli.show import count, print_plan
from juncture.errors import DataError, SchemaError, SpecError, did_you_mean
from juncture.files.formats import COMPRESSED, format_by_name, format_of
from juncture.files.text.options import column_types
from juncture.files.text.types import as_text
from juncture.files.text.write import Write, row_writer
from juncture.incremental.changes.change_batch import written_schema
from juncture.incremental.follow import Follower
from juncture.incremental.sinks.sink import Sink
from juncture.incremental.sources.files import as_base64, is_bytes
from juncture.incremental.sources.pipes import ChangeInput, EpochRule, PipesSource
from juncture.incremental.state.records import EpochFile
from juncture.incremental.view import View
from juncture.runtime.parquet import ParquetSource

if TYPE_CHECKING:
    from juncture.cli.view import ViewOptions

_EPOCH = "_epoch"
_WRITTEN = "written"  # the file in a state folder with the last epoch that was written to standard output


def run(options: ViewOptions) -> None:
    """Maintain a view until its inputs end."""
    text = text_options(options.delimiter, options.nulls, options.types)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="juncture-")))
        reading = Reading(named=options.input_format, text=text)
        first = {
            name: _FirstRows(ParquetSource(as_parquet(path, side=name, reading=reading, folder=folder).paths))
            for name, path in options.by_table("source").items()
        }
        tables = {name: rows.schema for name, rows in first.items()}
        for name, declared in options.by_table("columns").items():
            if name in tables:
                raise SpecError(
                    f"Table {name!r} has --source and --columns. Pass one of them.", name="JN-ARGUMENT-CONFLICT"
                )
            tables[name] = _schema(declared)
        inputs = [_input(each, tables, options.input_format) for each in options.changes]
        sources = _sources(options, tables, {name for each in inputs for name in each.tables})
        rules: dict[str, Any] = {"unmatched_deletes": options.unmatched_deletes, "final_rows": options.final_rows}
        view = stack.enter_context(jn.view(options.state, options.sql, sources=sources, memory=options.memory, **rules))
        rule = EpochRule(options.epoch_rows, options.epoch_by)
        source = PipesSource(inputs, tables, first, rule, text, continued=options.continued)
        sink: Sink = jn.into_files(options.output)
        if options.output == STANDARD_OUTPUT:
            sink = stack.enter_context(_standard_output(view, options))
        with step("Following") as progress:
            report = partial(progress.phase, done=0, total=0)
            follower = jn.follow(view, source, sink, on_epoch=lambda done: report(count(done.epoch, "epoch")))
            stack.callback(follower.close)
            _follow(follower, source)
        if options.explain_format in ("json", "html"):
            form: Any = options.explain_format
            typer.echo(view.explain(format=form), err=True)
        elif options.explain or options.explain_format:
            print_plan(view.explain(), messages())


def _sources(options: ViewOptions, tables: Mapping[str, pa.Schema], changing: Collection[str]) -> dict[str, jn.Source]:
    """Return the declared tables. Those without changes are static."""
    orders, delays, rules = (options.by_table(option) for option in ("order", "delay", "late"))
    for option, named, declared in (("order", orders, tables), ("delay", delays, orders), ("late", rules, orders)):
        for name in named:
            if name not in declared:
                missing = "--source or --columns" if option == "order" else "--order"
                raise SpecError(
                    f"--{option} names table {name!r}, which has no {missing}. {did_you_mean(name, declared)}",
                    name="JN-ARGUMENT-VALUE",
                )
    sources = {}
    for name, schema in tables.items():
        order = jn.Order(orders[name], delay=distance_of("--delay", delays.get(name))) if name in orders else None
        late: Any
        late, sign, within = rules.get(name, "count").partition(":")
        repaired = distance_of("--late", within) if sign else None
        sources[name] = jn.Source(schema, name not in changing, order, late, repaired)
    return sources


def _follow(follower: Follower, source: PipesSource) -> None:
    try:
        follower.start()
        while not source.is_ended:
            follower.step()
    except (DataError, SchemaError) as error:
        if not source.location:
            raise
        raise type(error)(f"{error.message} The epoch is {source.location}.", name=error.name) from error
    except KeyboardInterrupt:
        messages().print("Interrupted. Complete epochs were written.")
        raise typer.Exit(130) from None


@dataclass(frozen=True)
class _FirstRows:
    """The first rows of a table in Parquet files, read when they are iterated."""

    source: ParquetSource

    @property
    def schema(self) -> pa.Schema:
        """The columns. A column without values has text."""
        return as_text(self.source.schema)

    @property
    def num_rows(self) -> int:
        return self.source.num_rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batch in self.source.scan(self.source.schema.names):
            yield batch.cast(self.schema)


def _schema(declared: str) -> pa.Schema:
    """Return the columns of a declaration such as ``id bigint, price decimal(9, 2)``."""
    fields = [field.strip().rpartition(" ") for field in re.split(r",(?![^(]*\))", re.sub(r"\s*\(", "(", declared))]
    return pa.schema(list(column_types([f"{name}={kind}" for name, _, kind in fields], argument="--columns").items()))


def _input(text: str, tables: Mapping[str, pa.Schema], input_format: str | None) -> ChangeInput:
    names, sign, path = text.partition("=")
    if not sign or "/" in names:
        # An equals sign may be part of a path, such as year=2026/changes.csv.
        names, path = ",".join(tables), text
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in tables:
            raise SpecError(
                f"--changes {text!r} names table {name!r}, which has no --source or --columns. "
                f"{did_you_mean(name, tables)}",
                name="JN-ARGUMENT-VALUE",
            )
    named = None if input_format is None else format_of("-", named=input_format, argument="--format")
    chosen_tables = {name: tables[name] for name in chosen}
    if path == STANDARD_INPUT:
        return ChangeInput("standard input", _standard_input, named, chosen_tables)
    check_there(path, "changes")
    return ChangeInput(path, partial(_opened, path), format_by_name(Path(path)) or named, chosen_tables)


def _standard_input() -> BufferedReader:
    """Open standard input again: Python closes its own reader at exit, which fails while a thread waits in it."""
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _opened(path: str) -> BufferedReader:
    if Path(path).suffix.lower() in COMPRESSED:
        return BufferedReader(pa.input_stream(path))
    return Path(path).open("rb")


class _StandardOutput:
    """Standard output as a sink. The file ``written`` has the last epoch that was written."""

    def __init__(self, write: Write, written: EpochFile | None) -> None:
        self._write, self._written = write, written
        self._epoch: int | None = None
        if written is not None:
            self._epoch = written.read()
            written.open()

    def open(self, _schema: pa.Schema, _state: str, /) -> int | None:
        return self._epoch

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Write an epoch, and flush it for the reader."""
        for batch in changes:
            self._write(batch.append_column(_EPOCH, pa.repeat(epoch, batch.num_rows)))
        sys.stdout.buffer.flush()
        self._epoch = epoch
        if self._written is not None:
            self._written.write(epoch)

    def close(self) -> None:
        if self._written is not None:
            self._written.close()


@contextmanager
def _standard_output(view: View, options: ViewOptions) -> Iterator[Sink]:
    form = format_of("-", named=options.output_format, argument="--output-format")
    schema = written_schema(view.answer_schema, "weight")
    schema = schema.append(pa.field(_EPOCH, pa.int64())) if options.epochs else schema
    schema = schema if form == "arrow" else as_base64(schema)
    written = None if options.state is None else EpochFile(options.state / _WRITTEN)
    with row_writer(schema, form, sys.stdout.buffer) as write:
        yield _StandardOutput(lambda batch: write(_with_base64(batch, schema)), written)


def _with_base64(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema, with bytes as base64 where it has text."""
    columns = []
    # The schema may lack the last column.
    for column, field in zip(batch.columns, schema, strict=False):
        if is_bytes(column.type) and not is_bytes(field.type):
            texts = [None if value is None else b64encode(value).decode("ascii") for value in column.to_pylist()]
            column = pa.array(texts, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
