"""The demo of a stream: what comes when, what is shown of it, and, in a process of its own, all of it."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from demo_stream import Replay, Shown
from rich.console import Console

from juncture.datasets import flights, weather
from juncture.streams.progress import SideProgress, StreamProgress
from support.processes import no_session

DEMO = Path(__file__).parents[2] / "examples" / "demo"
TIMES = {"flights": "departure", "weather": "observed"}


def test_what_comes_is_all_there_is_in_order_of_time(tmp_path):
    replay = Replay.of(tmp_path)
    come = [{name: len(list(replay.come(name).iterdir())) for name in TIMES} for _ in replay.releases()]
    assert [set(each.values()) for each in come] == [{number + 1} for number in range(len(come))]
    for name, rows in (("flights", flights()), ("weather", weather())):
        at = TIMES[name]
        pieces = [pq.read_table(path) for path in sorted(replay.come(name).iterdir())]
        end = pieces.pop()
        assert end["origin"].to_pylist() == ["none"]
        assert pa.concat_tables(pieces).sort_by(at)[at].equals(rows.sort_by(at)[at])
        for before, after in zip(pieces, [*pieces[1:], end], strict=True):
            assert pc.max(before[at]).as_py() < pc.min(after[at]).as_py()


def a_trigger(batch: int, *, rows: int) -> StreamProgress:
    at = datetime(2013, 1, 2, 3, 4, tzinfo=UTC)
    sides = [SideProgress(name=name, rows=rows, last=at, lag=None) for name in ("left", "right")]
    return StreamProgress(
        batch=batch,
        started=at,
        duration_s=1.0,
        sides=tuple(sides),
        output_rows=None,
        state_rows=1_234,
        state_bytes=5_678,
        late_rows=0,
        watermark=at,
    )


def test_what_is_shown():
    console = Console(file=io.StringIO(), width=100, highlight=False)
    row = flights().slice(0, 1).append_column("observed", pa.nulls(1, pa.timestamp("us", "UTC")))
    shown = Shown(console)
    shown.show([a_trigger(0, rows=10), a_trigger(1, rows=0)], {0: row, 1: row.slice(0, 0)})
    shown.show([a_trigger(0, rows=10), a_trigger(1, rows=0), a_trigger(2, rows=0)], {2: row})
    lines = console.file.getvalue().splitlines()
    assert lines[0].split() == ["batch", "flights", "weather", "final", "waiting", "watermark", "state"]
    assert lines[1].split() == ["0", "10", "10", "1", "9", "2013-01-02", "03:04Z", "1,234", "rows,", "5.7", "kB"]
    assert lines[2].strip() == "UA 1545 from EWR at 2013-01-01 10:15Z: no weather of the two hours before"
    assert lines[3].split()[:5] == ["2", "0", "0", "1", "8"]
    assert len(lines) == 5


@pytest.mark.early
@pytest.mark.nightly
def test_the_demo(tmp_path):
    with no_session():
        done = subprocess.run(
            [sys.executable, DEMO, "stream"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr
    assert "Equal to the join of both tables: 336,776 rows, each given once" in done.stdout
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
