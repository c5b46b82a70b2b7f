"""What a streaming query on Spark did, as plain values and as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

import juncture as jn
from juncture.streams.progress import ProgressReader, Scale, SideProgress
from support.cluster import wait_for
from support.engines import is_connect
from support.streaming import read_stream, write_files

DAY = 86_400.0
START = datetime(2013, 1, 1, tzinfo=UTC)


def reported(batch=0, sides=None, watermark="1970-01-01T00:00:00.000Z", out=3, **more):
    """Return what Spark reports of a trigger, of which a reader looks at the following."""
    operator = {"numRowsTotal": 7, "memoryUsedBytes": 1_500, "numRowsDroppedByWatermark": 0}
    return {
        "batchId": batch,
        "timestamp": "2026-01-02T03:04:05.000Z",
        "durationMs": {"triggerExecution": 1_250},
        "eventTime": {"watermark": watermark},
        "stateOperators": [operator],
        "sources": [{"description": "RateStreamV2", "numInputRows": 5}],
        "sink": {"numOutputRows": out},
        "observedMetrics": sides or {},
    } | more


def side(rows, last, scale):
    if not rows:
        return {"rows": 0}
    return {"rows": rows, "last": last} | vars(scale)


def two_sides(left, right, scale):
    return {"juncture_ab12_left": side(*left, scale), "juncture_ab12_right": side(*right, scale), "theirs": {"n": 1}}


POSITIONS = {
    "falling": (Scale("integer", False, -1.0, 0.0), -7, 7),
    "date": (Scale("date", False, DAY, 0.0), 3, date(1970, 1, 4)),
    "beyond the calendar": (Scale("date", False, DAY, 0.0), 1 << 40, None),
    "instant": (Scale("timestamp", True, 1e-6, 0.0), 1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    "without a zone": (Scale("timestamp", False, 1e-6, 0.0), 1, datetime(1970, 1, 1, 0, 0, 0, 1)),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_how_far_a_side_has_come(case):
    scale, steps, place = POSITIONS[case]
    assert scale.reached(steps) == place


def test_how_far_both_sides_have_come_is_remembered():
    scale, reader = Scale("timestamp", True, 1.0, 0.0), ProgressReader()
    hour = 3_600
    first = reader.read(reported(sides=two_sides((5, hour), (0, None), scale)))
    left, right = first.sides
    assert (left.name, left.rows, left.lag) == ("left", 5, None)
    assert (right.name, right.rows, right.last, right.lag) == ("right", 0, None, None)
    assert first.watermark is None
    reader.read(reported(sides=two_sides((0, None), (2, 3 * hour), scale)))
    last = reader.read(reported(batch=2, sides=two_sides((1, hour // 2), (0, None), scale), out=-1))
    left, right = last.sides
    moment = scale.reached(hour)
    assert (left.rows, left.last, left.lag) == (1, moment, timedelta(hours=2))
    assert (right.rows, right.last, right.lag) == (0, moment + timedelta(hours=2), timedelta(0))
    assert (last.watermark, last.output_rows, last.duration_s) == (moment, None, 1.25)
    idle = reader.read(reported(batch=2))
    assert [each.last for each in idle.sides] == [left.last, right.last]
    assert [each.rows for each in idle.sides] == [0, 0]


def test_text():
    scale, reader = Scale("integer", False, 1.0, 5.0), ProgressReader()
    late = {"numRowsTotal": 7, "memoryUsedBytes": 1_500, "numRowsDroppedByWatermark": 2}
    progress = reader.read(reported(batch=4, sides=two_sides((1, 2_000), (2_000, 1_990), scale), stateOperators=[late]))
    assert repr(progress).splitlines() == [
        "batch 4    1.25 s, from 2026-01-02 03:04:05Z",
        "left       1 row, up to 2,000",
        "right      2,000 rows, up to 1,990, 10 behind the other side",
        "watermark  1,985",
        "state      7 rows, 1.5 kB",
        "late       2 rows, excluded",
        "output     3 rows",
    ]
    page = progress._repr_html_()
    assert page.startswith("<table><tr><th>batch 4</th>")
    assert page.count("<tr>") == 7


def test_a_join_that_tells_all_of_it():
    scale, reader = Scale("float", False, -1.0, 2.0), ProgressReader()
    sides = two_sides((5, -30.0), (4, -31.5), scale)
    for each in ("left", "right"):
        sides[f"juncture_ab12_{each}"] |= {"state_rows": 10, "state_bytes": 50, "late_rows": 1}
    progress = reader.read(reported(sides=sides | {"juncture_ab12_out": {"rows": 9}}, out=-1))
    assert [(each.last, each.lag) for each in progress.sides] == [(30.0, 0.0), (31.5, 1.5)]
    # Falling, and two behind.
    assert progress.watermark == 33.5
    assert (progress.state_rows, progress.state_bytes, progress.late_rows, progress.output_rows) == (20, 100, 2, 9)
    # Metrics of no rows: as Spark has them, and in JSON.
    for idle in ({name: dict.fromkeys(values) for name, values in sides.items()}, {name: {} for name in sides}):
        out = {"juncture_ab12_out": {"rows": None} if any(idle.values()) else {}}
        later = reader.read(reported(batch=1, sides=idle | out, out=-1))
        assert (later.state_rows, later.late_rows, later.output_rows) == (20, 0, 0)
        assert [each.rows for each in later.sides] == [0, 0]
        assert later.watermark == 33.5


def test_a_query_whose_joins_do_not_tell():
    progress = ProgressReader().read(reported(out=-1, watermark="2013-01-01T00:00:00.000Z"))
    assert progress.watermark == START
    assert repr(progress).splitlines()[1:3] == ["RateStreamV2  5 rows", "watermark     2013-01-01 00:00:00Z"]
    assert "not reported by this sink" in repr(progress)


@pytest.mark.in_turn
def test_a_query(hosting, tmp_path):
    heard = []
    listener = jn.stream_listener(heard.append)
    hosting.streams.addListener(listener)
    try:
        for name, hours in (("left", 9), ("right", 4)):
            moments = pa.array([START, START + timedelta(hours=hours)], pa.timestamp("us", "UTC"))
            write_files([pa.table({"k": ["a", "b"], "ts": moments})], tmp_path / name)
        sides = [read_stream(hosting, tmp_path / name) for name in ("left", "right")]
        order = jn.Order("ts", delay="1h")
        joined = jn.stream(*sides, jn.Asof(on="ts", by="k"), left_order=order, right_order=order)
        stream = joined.writeStream.format("memory").queryName("progress")
        query = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        seen = jn.StreamProgress.recent(query)
        # Spark tells of a trigger some time after it.
        wait_for(lambda: len(heard) >= len(seen), "the listener")
    finally:
        hosting.streams.removeListener(listener)
        # The sink is a view of the session, which other tests share.
        hosting.catalog.dropTempView("progress")
    first, last = seen[0], jn.StreamProgress.of(query)
    assert last == seen[-1]
    assert [each.rows for each in first.sides] == [2, 2]
    if is_connect(hosting):
        # Its metrics may say nothing of the sides: then sources are told of.
        return
    assert [each.name for each in last.sides] == ["left", "right"]
    assert first.output_rows == 1
    assert first.state_rows > 0
    assert [each.last for each in last.sides] == [START + timedelta(hours=9), START + timedelta(hours=4)]
    assert [each.lag for each in last.sides] == [timedelta(0), timedelta(hours=5)]
    # Four hours, less the delay.
    assert last.watermark - START == timedelta(hours=3)
    assert heard == list(seen)


def told(batch: int, last: object, watermark: object) -> jn.StreamProgress:
    side = {"rows": 5, "last": last, "lag": None}
    return jn.StreamProgress(
        batch=batch,
        started=START + timedelta(seconds=batch),
        duration_s=0.5,
        sides=tuple(SideProgress(name=name, **side) for name in ("left", "right")),
        output_rows=None if batch else 3,
        state_rows=7 * batch,
        state_bytes=1_000 * batch,
        late_rows=0,
        watermark=watermark,
    )


@pytest.mark.parametrize("kind", ["times", "numbers", "none"])
def test_a_page_shows_all_micro_batches(kind):
    lasts = {"times": [None, START, START], "numbers": [None, 4, 9.5], "none": [None] * 3}[kind]
    page = jn.stream_page(told(batch, last, last) for batch, last in enumerate(lasts))
    assert "Micro-batches 0 to 2, from" in page
    assert page.count("<svg") == 4 + (kind != "none")
    assert ("Positions of the sides" in page) == (kind != "none")
    assert "<th>state</th><td>14 rows, 2.0 kB</td>" in page
    assert page.count("<table>") == 1


def test_a_page_of_nothing():
    with pytest.raises(jn.DataError, match="made no progress yet"):
        jn.stream_page([])


def test_what_a_listener_cannot_call():
    with pytest.raises(jn.SpecError, match=r"report='print' \(str\) is not callable"):
        jn.stream_listener("print")
