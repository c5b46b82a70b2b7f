"""The execution of every join of files: read, plan, join, write and report."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import typer
from rich.text import Text

from juncture.cli.console import errors, is_quiet, messages, results, show_log
from juncture.cli.inputs import Reading, as_parquet, order_columns
from juncture.cli.options import STANDARD_INPUT, STANDARD_OUTPUT, Request, is_here
from juncture.cli.progress import step
from juncture.cli.show import count, heading, leading_columns, print_plan, report_view, rows_view
from juncture.cli.spark import spark_session, step_on, write_parquet
from juncture.errors import SpecError
from juncture.files.formats import FORMATS, Format, format_of, paths_of
from juncture.files.output import check_target, replacing
from juncture.spec.arguments import check_choice
from juncture.spec.schema import SIDES

if TYPE_CHECKING:
    from juncture.planner.plan import Plan
    from juncture.spec.kinds import Spec


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A planned join of files; `session` is None in-process."""

    plan: Plan
    session: Any


@contextmanager
def planned(spec: Spec, request: Request, *, is_analyzed: bool = False) -> Iterator[Planned]:
    """Validate a request and plan its join, which can run inside the block."""
    check_choice("--engine", request.engine, ("local", "spark"))
    reading = Reading.of(request)
    paths = (request.left, request.right)
    if paths == (STANDARD_INPUT, STANDARD_INPUT):
        raise SpecError(
            "LEFT and RIGHT are both - (standard input), which is one table. Pass a file for one of them.",
            name="JN-STANDARD-STREAM",
        )
    # Find missing inputs of both sides before one is read.
    inputs = [
        file
        for path, side in zip(paths, SIDES, strict=True)
        if is_here(path)
        for file in paths_of(path, f"{side} input")
    ]
    if request.output is not None and request.output != STANDARD_OUTPUT:
        check_target(request.output, overwrite=request.overwrite, inputs=inputs)
    with ExitStack() as stack:
        # Explains the time of compiling kernels.
        if not is_quiet():
            stack.enter_context(show_log("juncture.kernels", logging.INFO))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="juncture-")))
        ordered = order_columns(spec)
        left, right = (
            as_parquet(path, side=side, reading=reading.finding(ordered[side]), folder=folder)
            for side, path in zip(SIDES, paths, strict=True)
        )
        session = None if request.engine == "local" else stack.enter_context(spark_session(is_analyzed=is_analyzed))
        with step("Planning"):
            # Imported late, so that errors in inputs are reported at once.
            from juncture.joins.planning import plan as plan_join

            plan = plan_join(left, right, spec, algorithm=request.algorithm, spark=session, memory=request.memory)
        reading.check_columns([*plan.join.left_schema.names, *plan.join.right_schema.names])
        yield Planned(plan=plan, session=session)


def run(spec: Spec, request: Request) -> None:
    """Run a join of files. Nothing is written if an argument, a file or the data are wrong."""
    output_format = _output_format(request)
    if request.as_json and request.output == STANDARD_OUTPUT:
        raise SpecError(
            "--json and -o - both write to standard output. Pass another -o, or remove --json.",
            name="JN-STANDARD-STREAM",
        )
    done: dict[str, Any] = {}
    with planned(spec, request) as ready:
        plan, session = ready.plan, ready.session
        if request.explain:
            done["plan"] = json.loads(plan.explain("json")) if request.as_json else None
            if not request.as_json:
                print_plan(plan.explain(), messages())
        if request.output is None:
            done |= _show_rows(plan, session, request)
        else:
            done |= _write(plan, session, request.output, output_format)
        if request.report:
            with step_on(session, "Counting matches") as counting:
                report = plan.match_report(progress=counting.phase)
            done["report"] = report.to_dict()
            if not request.as_json:
                errors().print(heading("Match report"), report_view(report))
    if request.as_json:
        typer.echo(json.dumps(done, default=str, ensure_ascii=False))


def _output_format(request: Request) -> Format:
    if request.output_format is not None:
        check_choice("--output-format", request.output_format, FORMATS)
        return format_of("-", named=request.output_format, argument="--output-format")
    if request.output == STANDARD_OUTPUT:
        return "csv"
    if request.output is None or not request.output.suffix:
        return "parquet"
    return format_of(str(request.output), named=None, argument="--output")


@contextmanager
def _joined_here(plan: Plan, what: str) -> Iterator[pa.RecordBatchReader]:
    with step(what) as joining:
        yield plan.batches(progress=joining.phase)


def _show_rows(plan: Plan, session: Any, request: Request) -> dict[str, Any]:
    total: int | None = None
    if session is None:
        with _joined_here(plan, "Joining") as batches:
            head, total = _head(batches, request.rows)
    else:
        # Imported late, because it imports PySpark.
        from juncture.spark.frames import to_arrow

        with step_on(session, "Joining on Spark"):
            head = to_arrow(plan.execute().limit(request.rows))
    if not request.as_json:
        console = results()
        console.print(rows_view(head, console, total=total, first=leading_columns(plan.join)))
    return {"first_rows": head.to_pylist(), "output_rows": total}


def _head(batches: pa.RecordBatchReader, rows: int) -> tuple[pa.Table, int]:
    first, total = [], 0
    for batch in batches:
        if total < rows:
            first.append(batch.slice(0, rows - total))
        total += batch.num_rows
    return pa.Table.from_batches(first, batches.schema), total


def _write(plan: Plan, session: Any, output: Path, output_format: Format) -> dict[str, Any]:
    if output == STANDARD_OUTPUT:
        written = _write_rows(plan, session, sys.stdout.buffer, output_format)
    else:
        with replacing(output) as fresh:
            if session is not None and output_format == "parquet":
                written = write_parquet(session, plan.execute(), fresh)
            else:
                written = _write_rows(plan, session, fresh, output_format, output.suffix)
    target = "standard output" if output == STANDARD_OUTPUT else str(output)
    messages().print(Text(f"Wrote {count(written)} to {target}."), soft_wrap=True)
    return {"output": str(output), "output_rows": written}


def _write_rows(plan: Plan, session: Any, target: Path | IO[bytes], row_format: Format, ending: str = "") -> int:
    """Join and write all rows to one file or pipe, on Spark by way of Parquet, and return their number."""
    from juncture.files.text.write import write_rows

    if session is None:
        with _joined_here(plan, f"Joining into {row_format}") as batches:
            return write_rows(batches, row_format, target, ending=ending)
    beside = target.parent if isinstance(target, Path) else None
    with tempfile.TemporaryDirectory(dir=beside, prefix=".juncture-") as folder:
        parquet = Path(folder, "rows")
        rows = write_parquet(session, plan.execute(), parquet)
        with step(f"Writing {row_format}", total=rows) as writing:
            return write_rows(parquet, row_format, target, ending=ending, advance=writing.advance)
