"""The inputs of a command, converted to Parquet."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from juncture.cli.options import STANDARD_INPUT, Request
from juncture.cli.progress import step
from juncture.errors import DataError, JunctureError, SchemaError, SpecError, did_you_mean
from juncture.files.formats import COMPRESSED, WILDCARDS, Format, files_of, format_of, format_of_start, paths_of
from juncture.files.text.options import TextOptions, checked_delimiter, column_types
from juncture.inputs.files import Files
from juncture.spec.kinds import Spec
from juncture.spec.schema import Side


@dataclass(frozen=True)
class Reading:
    """How the inputs of a join are read: the named format, options for text, and types to cast columns to."""

    named: str | None = None
    union_by_name: bool = False
    text: TextOptions = field(default_factory=TextOptions)
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request) -> Reading:
        """Return the options of a request."""
        text = text_options(
            request.delimiter,
            request.nulls,
            request.types,
            has_header=request.header,
            is_all_text=request.all_text,
        )
        return cls(request.input_format, request.union_by_name, text, column_types(request.casts, argument="--cast"))

    def finding(self, columns: frozenset[str]) -> Reading:
        """Return the options with inferred types for some columns, even if all others are text."""
        return replace(self, text=replace(self.text, inferred_columns=columns))

    def check_columns(self, names: Collection[str]) -> None:
        """Raise `SpecError` for a type of a column that neither input has."""
        for option, types in (("--type", self.text.types), ("--cast", self.casts)):
            unknown = next((name for name in types if name not in names), None)
            if unknown is not None:
                raise SpecError(
                    f"{option} names column {unknown!r}, which neither table has. {did_you_mean(unknown, names)}",
                    name="JN-ARGUMENT-VALUE",
                )


def text_options(
    delimiter: str,
    nulls: Sequence[str] | None,
    types: Sequence[str] | None,
    *,
    has_header: bool = True,
    is_all_text: bool = False,
) -> TextOptions:
    """Return the options for text, from those of a command."""
    return TextOptions(
        nulls=tuple(nulls or ()),
        delimiter=checked_delimiter("\t" if delimiter in ("\\t", "tab") else delimiter, f"--delimiter {delimiter!r}"),
        has_header=has_header,
        types=column_types(types, argument="--type"),
        is_all_text=is_all_text,
    )


def order_columns(spec: Spec) -> dict[Side, frozenset[str]]:
    """Return the columns of each side that order rows, since text would order them differently."""
    left, right = spec.ordered_keys()
    # Expressions have their own types.
    return {
        "left": frozenset(name for name in left if isinstance(name, str)),
        "right": frozenset(name for name in right if isinstance(name, str)),
    }


_PEEK_BYTES = 4096
_COPY_BYTES = 1 << 20


def as_parquet(path: str, *, side: str, reading: Reading, folder: Path) -> Files:
    """Return an input as Parquet files; text, Arrow and pipes are converted into `folder`.

    `path` is a file, folder or glob of one format, a URI of Parquet, a pipe, or ``-`` for standard input.
    """
    copied = _copied(path, side, folder)
    file_format = _format(path, side, reading.named) if copied is None else _format_inside(copied, reading.named)
    user_path = "standard input" if path == STANDARD_INPUT else path
    path = path if copied is None else str(copied)
    target = folder / f"{side}.parquet"
    with _with_user_path(user_path, path):
        if file_format == "arrow":
            with step(f"Reading {user_path}"):
                _read_arrow(paths_of(path, f"{side} input"), target)
        elif file_format != "parquet":
            _read_text(path, user_path, side, file_format, reading.text, target)
    stored = Files(path, "parquet", reading.union_by_name) if file_format == "parquet" else Files(target, "parquet")
    return _cast(stored, user_path, reading.casts, folder / f"{side}-cast.parquet") if reading.casts else stored


@contextmanager
def _with_user_path(user_path: str, path: str) -> Iterator[None]:
    try:
        yield
    except JunctureError as error:
        if user_path == path:
            raise
        raise type(error)(error.message.replace(path, user_path), name=error.name) from error.__cause__


def _format(path: str, side: str, named: str | None) -> Format:
    argument = side.upper()
    if "://" in path or not path.strip():
        return format_of(path, named=named, argument=argument)
    local_path = Path(path)
    # A missing file may still have an extension, which gives a better message.
    inside = paths_of(path, f"{side} input") if local_path.is_dir() or not WILDCARDS.isdisjoint(path) else ()
    file_format = format_of(path, named=named, argument=argument, inside=inside)
    files_of(path, f"{side} input")
    return file_format


def _copied(path: str, side: str, folder: Path) -> Path | None:
    """Return a copy of a pipe, which can be read only once; None for a file."""
    if path != STANDARD_INPUT and not Path(path).is_fifo():
        return None
    target = folder / f"{side}.piped"
    with step("Copying standard input" if path == STANDARD_INPUT else f"Copying {path}"), ExitStack() as stack:
        source = sys.stdin.buffer if path == STANDARD_INPUT else stack.enter_context(Path(path).open("rb"))
        with target.open("wb") as copy:
            shutil.copyfileobj(source, copy, _COPY_BYTES)
    with target.open("rb") as copy:
        start = copy.read(_PEEK_BYTES)
    if not start:
        raise DataError(
            f"The {side} input {path!r} is an empty pipe. Check the command that writes to it.", name="JN-INPUT-EMPTY"
        )
    ending = next((ending for ending, magic in COMPRESSED.items() if start.startswith(magic)), None)
    return target if ending is None else target.rename(target.with_name(target.name + ending))


def _format_inside(file: Path, named: str | None) -> Format:
    if named is not None:
        return format_of(str(file), named=named, argument="--format")
    with pa.input_stream(str(file), compression="detect") as stream:
        return format_of_start(stream.read(_PEEK_BYTES))


def _read_text(path: str, user_path: str, side: str, file_format: Format, options: TextOptions, target: Path) -> None:
    # Imported late, so that errors in arguments are reported at once.
    from juncture.files.text.read import TextFiles

    files = files_of(path, f"{side} input")
    packed = any(Path(file.path).suffix.lower() in COMPRESSED for file in files)
    total = None if packed else 2 * sum(file.size_bytes for file in files)
    with step(f"Reading {user_path}", total=total) as reading:
        replace(TextFiles.of(files, file_format, options), advance=reading.advance).write_parquet(target)


def _read_arrow(files: list[Path], target: Path) -> None:
    from pyarrow.parquet import ParquetWriter

    from juncture.files.arrow import arrow_rows, arrow_schema

    with ParquetWriter(target, arrow_schema(files)) as writer:
        for batch in arrow_rows(files):
            writer.write_batch(batch)


def _cast(files: Files, user_path: str, types: Mapping[str, pa.DataType], target: Path) -> Files:
    from pyarrow.parquet import ParquetWriter

    from juncture.runtime.parquet import ParquetSource

    source = ParquetSource(files.paths, union_by_name=files.union_by_name)
    types = {name: data_type for name, data_type in types.items() if name in source.schema.names}
    if not types:
        return files
    schema = pa.schema([each.with_type(types.get(each.name, each.type)) for each in source.schema])

    with step(f"Converting {user_path}"), ParquetWriter(target, schema) as writer:
        for part in range(len(source.part_rows)):
            for batch in source.read(part, source.schema.names):
                writer.write_batch(_converted(batch, schema))
    return Files(target, "parquet")


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for each, column in zip(schema, batch.columns, strict=True):
        try:
            columns.append(column.cast(each.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"--cast {each.name}: {column.type} cannot be converted to {each.type}: {error}. Pass a type that can "
                "represent all values.",
                name="JN-CAST",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
