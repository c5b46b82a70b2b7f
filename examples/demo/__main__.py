"""`make demo`: a year of flights joined to the weather before each departure, on Spark."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from demo_changes import changes
from demo_stream import stream

from juncture.cli.console import results
from juncture.cli.failures import ReportingGroup
from juncture.cli.progress import step
from juncture.cli.show import count, heading, print_plan, report_view, rows_view
from juncture.cli.spark import spark_session, step_on, write_parquet
from juncture.errors import PlanError
from juncture.files.output import replacing
from juncture.spec.asof import Asof

_SPEC = Asof(left_on="departure", right_on="observed", by="origin", tolerance="2h")

_SHOWN = ("departure", "origin", "observed", "temp", "wind_speed", "visib", "carrier", "flight", "dest")

_ROWS_SHOWN = 5
_ROW_GROUP_ROWS = 50_000

_MARK = "_juncture_demo"
"""A file that marks an output of the demo; engines skip names that start with an underscore."""


app = typer.Typer(
    name="demo",
    cls=ReportingGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("stream")(stream)
app.command("changes")(changes)


@app.callback()
def demo(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output folder.")] = Path("demo-output"),
) -> None:
    """Join a year of flights to the weather, on Spark.

    Each of the 336,776 flights that left New York in 2013 gets the latest hourly weather observation at its airport, at
    most two hours before its departure.
    """
    if context.invoked_subcommand is None:
        _join(output)


def _join(output: Path) -> None:
    _check_output(output)
    from juncture.datasets import flights, weather
    from juncture.joins.planning import plan as plan_join

    console = results()
    with tempfile.TemporaryDirectory(prefix="juncture-") as folder:
        with step("Reading flights and weather"):
            left, right = Path(folder, "flights.parquet"), Path(folder, "weather.parquet")
            # Spark splits files between row groups, so several row groups keep all cores busy.
            pq.write_table(flights(), left, row_group_size=_ROW_GROUP_ROWS)
            pq.write_table(weather(), right)
        with spark_session() as session, replacing(output) as fresh:
            departures, observations = (session.read.parquet(str(path)) for path in (left, right))
            with step_on(session, "Planning"):
                plan = plan_join(departures, observations, _SPEC)
            console.print(heading("The plan"))
            print_plan(plan.explain(), console)
            rows = write_parquet(session, plan.execute(), fresh)
            with step_on(session, "Counting matches"):
                report = plan.match_report()
            Path(fresh, _MARK).touch()
    head = _first_rows(output)
    console.print(heading("Some rows"), rows_view(head, console, total=rows, first=_SHOWN))
    console.print(heading("Match report"), report_view(report))
    console.print(heading(f"Wrote {count(rows)} to {output}"))


def _first_rows(folder: Path) -> pa.Table:
    """Return a few rows of the first file that is not empty."""
    files = [pq.ParquetFile(path) for path in sorted(folder.glob("*.parquet"))]
    some = next(file for file in files if file.metadata.num_rows)
    return pa.Table.from_batches([next(some.iter_batches(_ROWS_SHOWN))])


def _check_output(output: Path) -> None:
    """Raise `PlanError` for an output that no demo wrote."""
    if output.exists() and not (output / _MARK).exists():
        raise PlanError(
            f"Output {str(output)!r} exists and was not written by a demo. Remove it, or pass another path with -o.",
            name="JN-OUTPUT-EXISTS",
        )
    if not output.parent.is_dir():
        raise PlanError(
            f"Output {str(output)!r} cannot be written: folder {str(output.parent)!r} does not exist. Create it.",
            name="JN-OUTPUT-FOLDER",
        )


if __name__ == "__main__":
    # Exit normally on SIGTERM, so that partial outputs are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
