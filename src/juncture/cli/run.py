"""What every join of files does: read, plan, join, write, and say how it went."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.text import Text

from juncture.cli.console import messages, results
from juncture.cli.inputs import Format, as_parquet, format_of
from juncture.cli.log import shown
from juncture.cli.output import check_target, replacing
from juncture.cli.progress import step
from juncture.cli.show import count, heading, leading_columns, print_plan, report_view, rows_view
from juncture.cli.text import write_text
from juncture.joins import plan as plan_join
from juncture.joins.planning import Spec
from juncture.planner.plan import Plan
from juncture.planner.report import MatchReport
from juncture.spec.arguments import check_choice
from juncture.spec.asof import ResolvedAsof

__all__ = ["Planned", "Request", "planned", "run"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for beside the join itself; see `options` for the meaning of each."""

    left: str
    right: str
    output: Path | None
    overwrite: bool
    input_format: str | None
    nulls: Sequence[str]
    rows: int
    engine: str
    algorithm: str
    explain: bool
    report: bool = False
    memory: str | None = None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A join of files that has been planned, and what it takes to run it.

    Attributes
    ----------
    plan
        The plan.
    session
        The Spark session, or None in-process.
    """

    plan: Plan
    session: Any


@contextmanager
def planned(spec: Spec, request: Request, *, is_analyzed: bool = False) -> Iterator[Planned]:
    """Check what is asked for, and plan a join of files, which can be run while the block lasts.

    Raises
    ------
    JunctureError
        If anything is wrong with the arguments or the files.
    """
    check_choice("--engine", request.engine, ("local", "spark"))
    if request.output is not None:
        check_target(request.output, overwrite=request.overwrite, inputs=[Path(request.left), Path(request.right)])
    with ExitStack() as stack:
        # That kernels are compiled, for which nothing else would account.
        stack.enter_context(shown("juncture.kernels", logging.INFO))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="juncture-")))
        left, right = (
            as_parquet(path, side=side, named=request.input_format, nulls=request.nulls, folder=folder)
            for side, path in (("left", request.left), ("right", request.right))
        )
        session = stack.enter_context(_session(request.engine, is_analyzed))
        with step("Planning"):
            plan = plan_join(left, right, spec, algorithm=request.algorithm, spark=session, memory=request.memory)
        yield Planned(plan=plan, session=session)


def run(spec: Spec, request: Request) -> None:
    """Run a join of files.

    Raises
    ------
    JunctureError
        If anything is wrong with the arguments, the files or the data. Nothing has been written then.
    """
    output_format = _output_format(request)
    with planned(spec, request) as ready:
        plan, session = ready.plan, ready.session
        if request.explain:
            print_plan(plan.explain(), messages())
        if request.output is None:
            _show_rows(plan, session, request.rows)
        else:
            _write(plan, session, request.output, output_format)
        if request.report:
            report = _report(plan, session)
            messages().print(heading("Match report"), report_view(report, _asof(plan)))


def _output_format(request: Request) -> Format:
    """Return the format to write."""
    if request.output is None or not request.output.suffix:
        return "parquet"
    return format_of(str(request.output), named=None, argument="--output")


def _session(engine: str, is_analyzed: bool) -> AbstractContextManager[Any]:
    if engine == "local":
        return nullcontext()
    from juncture.cli.spark import spark_session

    return spark_session(is_analyzed=is_analyzed)


@contextmanager
def _joined_here(plan: Plan, what: str) -> Iterator[pa.RecordBatchReader]:
    """Join in this process, and give the batches of the result, none of which need be held."""
    with step(what) as joining:
        yield plan.batches(progress=joining.phase)


def _show_rows(plan: Plan, session: Any, rows: int) -> None:
    """Join, and show the first rows on standard output."""
    total: int | None = None
    if session is None:
        with _joined_here(plan, "Joining") as batches:
            head, total = _head(batches, rows)
    else:
        from juncture.cli.spark import stages

        with step("Joining on Spark") as joining, stages(session, joining):
            head = plan.execute().limit(rows).toArrow()
    console = results()
    console.print(rows_view(head, console, total=total, first=leading_columns(plan.join)))


def _head(batches: pa.RecordBatchReader, rows: int) -> tuple[pa.Table, int]:
    """Return the first rows of all, and the number of all."""
    kept, total = [], 0
    for batch in batches:
        if total < rows:
            kept.append(batch.slice(0, rows - total))
        total += batch.num_rows
    return pa.Table.from_batches(kept, batches.schema), total


def _write(plan: Plan, session: Any, output: Path, output_format: Format) -> None:
    """Join, and write all rows to a file, or a folder where Spark writes Parquet."""
    with replacing(output) as fresh:
        if session is not None:
            written = _write_spark(plan, session, fresh, output_format)
        else:
            with _joined_here(plan, f"Joining into {output_format}") as batches:
                written = _write_batches(batches, fresh, output_format)
    messages().print(Text(f"Wrote {count(written)} to {output}."), soft_wrap=True)


def _write_batches(batches: pa.RecordBatchReader, target: Path, output_format: Format) -> int:
    """Write batches as they come, and return the number of their rows."""
    if output_format != "parquet":
        return write_text(batches, output_format, target)
    written = 0
    with pq.ParquetWriter(target, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            written += batch.num_rows
    return written


def _write_spark(plan: Plan, session: Any, target: Path, output_format: Format) -> int:
    """Write a Spark join, text by way of Parquet so that it is one file, and return the number of its rows."""
    from juncture.cli.spark import write_parquet

    if output_format == "parquet":
        return write_parquet(session, plan.execute(), target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".juncture-") as folder:
        parquet = Path(folder, "rows")
        rows = write_parquet(session, plan.execute(), parquet)
        with step(f"Writing {output_format}", total=rows) as writing:
            return write_text(parquet, output_format, target, advance=writing.advance)


def _asof(plan: Plan) -> ResolvedAsof:
    """Return the join of a plan that has been made from an as-of spec."""
    assert isinstance(plan.join, ResolvedAsof)
    return plan.join


def _report(plan: Plan, session: Any) -> MatchReport:
    """Count what became of the left rows, where the join ran."""
    if session is None:
        with step("Counting matches") as counting:
            return plan.match_report(progress=counting.phase)
    from juncture.cli.spark import stages

    with step("Counting matches") as counting, stages(session, counting):
        return plan.match_report()
