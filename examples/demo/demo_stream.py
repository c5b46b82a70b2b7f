"""`make demo-stream`: a year of flights and weather as two streams of files, joined on Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from juncture.cli.console import results
from juncture.cli.progress import step
from juncture.cli.show import count, heading, print_plan
from juncture.matching.order import Order
from juncture.spec.asof import Asof
from juncture.spec.size import format_size
from juncture.streams.progress import StreamProgress

if TYPE_CHECKING:
    from juncture.planner.plan import Plan

_SPEC = Asof(left_on="departure", right_on="observed", by="origin", tolerance="2h")
_ON = {"flights": "departure", "weather": "observed"}
_PERIODS = 12

_SETTINGS = {
    # The state store of Juncture's stateful operator.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # The replay is small, so more tasks would only add overhead.
    "spark.sql.shuffle.partitions": "2",
}

_COLUMNS = (
    ("batch", 5),
    ("flights", 9),
    ("weather", 9),
    ("final", 9),
    ("waiting", 9),
    ("watermark", 19),
    ("state", 22),
)
_INDENT = " " * 7


def stream() -> None:
    """Join flights to the weather as two streams, on Spark.

    The year 2013 is replayed month by month. Each flight is returned once, with the latest weather before its
    departure, as soon as no later weather can match it. At the end, all results are compared with the join of both
    tables.
    """
    console = results()
    with tempfile.TemporaryDirectory(prefix="juncture-") as name:
        with step("Reading flights and weather"):
            replay = Replay.of(Path(name))
        from juncture.cli.spark import spark_session

        with spark_session() as session:
            with step("Planning"):
                for setting, value in _SETTINGS.items():
                    session.conf.set(setting, value)
                plan = _planned(session, replay)
            console.print(heading("The plan"))
            print_plan(plan.explain(), console)
            console.print(heading("Rows, as they become final"))
            given = _run(plan, replay, console)
    with step("Comparing with the join of both tables"):
        expected = _joined(replay)
        is_equal = _sorted(given).equals(_sorted(expected))
    if not is_equal:
        raise RuntimeError(
            f"The stream join returned {count(given.num_rows)}, which differ from the join of both tables."
        )
    console.print(heading(f"Equal to the join of both tables: {count(given.num_rows)}, each given once"))


@dataclass(frozen=True)
class Replay:
    """Flights and weather in files that are released one after the other, to a folder for each kind."""

    folder: Path
    tables: dict[str, pa.Table]

    @classmethod
    def of(cls, folder: Path) -> Replay:
        """Write all files."""
        from juncture.datasets import flights, weather

        replay = cls(folder, {"flights": flights(), "weather": weather()})
        for name, table in replay.tables.items():
            for place in (replay.coming(name), replay.come(name)):
                place.mkdir(parents=True)
            for number, piece in enumerate(replay.pieces(name, table)):
                pq.write_table(piece, replay.coming(name) / f"{number:02}.parquet")
        return replay

    def coming(self, name: str) -> Path:
        """Return the folder of the files that are not yet released."""
        return self.folder / "coming" / name

    def come(self, name: str) -> Path:
        """Return the folder of the released files."""
        return self.folder / name

    def pieces(self, name: str, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows of each period, and finally a row that advances the watermark past all flights."""
        times = [pc.min_max(each[_ON[kind]]) for kind, each in self.tables.items()]
        first = min(each["min"].as_py() for each in times)
        last = max(each["max"].as_py() for each in times)
        table = table.sort_by(_ON[name])
        at, start = table[_ON[name]], 0
        for number in range(1, _PERIODS + 1):
            until = first + number * (last - first) / _PERIODS
            end = pc.sum(pc.less(at, pa.scalar(until, at.type))).as_py() if number < _PERIODS else table.num_rows
            yield table.slice(start, end - start)
            start = end
        nothing = {field.name: pa.nulls(1, field.type) for field in table.schema}
        beyond = pa.array([last + timedelta(days=2)], at.type)
        yield pa.table(nothing | {"origin": ["none"], _ON[name]: beyond}, schema=table.schema)

    def releases(self) -> Iterator[None]:
        """Release the files of one period after the other."""
        for number in range(_PERIODS + 1):
            for name in self.tables:
                file = f"{number:02}.parquet"
                (self.coming(name) / file).rename(self.come(name) / file)
            yield


def _planned(session: Any, replay: Replay) -> Plan:
    from juncture.joins.streaming import plan_stream

    def come(name: str) -> Any:
        schema = session.read.parquet(str(replay.coming(name))).schema
        return session.readStream.schema(schema).parquet(str(replay.come(name)))

    flights, weather = (Order(_ON[name]) for name in ("flights", "weather"))
    return plan_stream(come("flights"), come("weather"), _SPEC, left_order=flights, right_order=weather)


def _run(plan: Plan, replay: Replay, console: Console) -> pa.Table:
    """Run the stream over the year, print final rows, and return all of them."""
    given: dict[int, pa.Table] = {}

    def keep(rows: Any, batch: int) -> None:
        given[batch] = rows.toArrow()

    writer = plan.execute().writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(replay.folder / "checkpoint")).start()
    shown = Shown(console)
    try:
        for _ in replay.releases():
            query.processAllAvailable()
            shown.show(StreamProgress.recent(query), given)
    finally:
        query.stop()
    rows = pa.concat_tables(given.values())
    return rows.filter(pc.not_equal(rows["origin"], "none"))


@dataclass
class Shown:
    """The printed micro-batches: one line each, with one of its rows."""

    console: Console
    batch: int = -1
    waiting: int = 0

    def show(self, told: Sequence[StreamProgress], given: dict[int, pa.Table]) -> None:
        """Print the micro-batches that have not been printed."""
        if self.batch < 0:
            self._line([name for name, _ in _COLUMNS], style="dim")
        for each in told:
            rows = given.get(each.batch)
            if each.batch <= self.batch or rows is None:
                continue
            self.batch = each.batch
            flights, weather = (side.rows for side in each.sides)
            self.waiting += flights - rows.num_rows
            if not (flights or weather or rows.num_rows):
                continue
            watermark = "" if each.watermark is None else f"{each.watermark:%Y-%m-%d %H:%M}Z"
            state = f"{each.state_rows:,} rows, {format_size(each.state_bytes)}"
            counts = (f"{number:,}" for number in (flights, weather, rows.num_rows, self.waiting))
            self._line([str(each.batch), *counts, watermark, state])
            if rows.num_rows:
                self.console.print(Text(f"{_INDENT}{_flight(rows)}", style="dim"))

    def _line(self, cells: Sequence[str], style: str = "") -> None:
        text = "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
        self.console.print(Text(text, style=style), soft_wrap=True)


def _flight(rows: pa.Table) -> str:
    """Return the last of the flights, in words."""
    at = rows.column("departure").combine_chunks()
    row = rows.slice(pc.index(at, pc.max(at)).as_py(), 1).to_pylist()[0]
    flight = f"{row['carrier']} {row['flight']} from {row['origin']} at {row['departure']:%Y-%m-%d %H:%M}Z"
    if row["observed"] is None:
        return f"{flight}: no weather of the two hours before"
    return f"{flight}: {row['temp']:.0f} °F, wind {row['wind_speed'] or 0:.0f} mph, observed {row['observed']:%H:%M}Z"


def _joined(replay: Replay) -> pa.Table:
    """Return the join of both tables, in this process."""
    from juncture.joins.planning import plan

    table: pa.Table = plan(replay.tables["flights"], replay.tables["weather"], _SPEC).execute()
    return table


def _sorted(table: pa.Table) -> pa.Table:
    return table.combine_chunks().sort_by([(name, "ascending") for name in table.column_names])
