from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.errors import DataError, SpecError
from juncture_benchmarks.datasets import range as near
from juncture_benchmarks.datasets import write_events, write_intervals, write_points

SIZES = {"left_rows": 2_000, "right_rows": 3_000}


def columns(path, *names):
    table = pq.read_table(path)
    return [table[name].to_numpy() for name in names]


def test_events_are_ten_seconds_apart_and_measurements_up_to_five_late(tmp_path):
    tables = write_events(tmp_path / "data", **SIZES)
    events, measurements = pq.read_table(tables.left), pq.read_table(tables.right)
    assert events.schema == pa.schema(
        {"eid": pa.int64(), "eventTime": pa.timestamp("us", "UTC"), "eventType": pa.string()}
    )
    assert measurements.schema == pa.schema(
        {"mid": pa.int64(), "measurementTime": pa.timestamp("us", "UTC"), "value": pa.float64()}
    )
    assert (events.num_rows, measurements.num_rows) == (2_000, 3_000)
    assert events["eventTime"][0].as_py() - events["eventTime"][1].as_py() == timedelta(seconds=10)
    late = measurements["measurementTime"].to_numpy()[:2_000] - events["eventTime"].to_numpy()
    assert late.min() >= np.timedelta64(0)
    assert late.max() < np.timedelta64(5, "s")
    assert len(np.unique(late)) > 1_900
    assert set(events["eventType"].to_pylist()) == {"LoginEvent", "PurchaseEvent", "DetailsUpdateEvent"}


def test_points_are_uniform_and_unsorted(tmp_path):
    tables = write_points(tmp_path / "data", **SIZES, span=1_000_000)
    ts, ids, values = columns(tables.right, "ts", "id", "val")
    assert not np.all(np.diff(ts) >= 0)
    assert 0 <= ts.min() < 10_000 < 990_000 < ts.max() < 1_000_000
    assert np.array_equal(ids, np.arange(3_000))
    assert np.array_equal(values * 2**20, np.floor(values * 2**20))


def test_hot_points_share_a_stretch_and_do_not_match(tmp_path):
    tables = write_points(tmp_path / "data", **SIZES, span=1_000_000, stretch=1_000, hot_share=0.5)
    (left,), (right,) = columns(tables.left, "ts"), columns(tables.right, "ts")
    for ts in (left, right):
        hot = (ts >= 500_000) & (ts < 501_000)
        assert hot.mean() == pytest.approx(0.5, abs=0.05)
    met = [((right >= ts - 1_000) & (right <= ts)).sum() for ts in left]
    assert sum(met) == pytest.approx(2_000 * 1_500 * 1_000 / 1_000_000, rel=0.3)


def test_long_intervals_cover_the_line(tmp_path):
    tables = write_intervals(tmp_path / "data", **SIZES, span=100_000, length=100, long_share=0.01)
    for path, rows in ((tables.left, 2_000), (tables.right, 3_000)):
        starts, stops = columns(path, "start", "stop")
        lengths = stops - starts
        long = lengths > 150
        assert long.sum() == rows // 100
        assert set(starts[long]) == {0}
        assert (stops[long] > stops[~long].max()).all()
        assert lengths.min() >= 50
        assert lengths[~long].mean() == pytest.approx(100, rel=0.1)


def test_the_same_seed_gives_the_same_files_whatever_the_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(near, "_ROWS_PER_FILE", 700)
    monkeypatch.setattr(near, "_ROW_GROUP_ROWS", 300)
    one = write_points(tmp_path / "one", **SIZES, span=1_000, threads=1)
    many = write_points(tmp_path / "many", **SIZES, span=1_000, threads=4)
    other = write_points(tmp_path / "other", **SIZES, span=1_000, seed=1)
    files = sorted(one.folder.rglob("*.parquet"))
    assert len(files) == 3 + 5
    for path in files:
        assert path.read_bytes() == (many.folder / path.relative_to(one.folder)).read_bytes()
    assert not pq.read_table(one.right).equals(pq.read_table(other.right))
    assert pq.read_table(one.right)["id"].to_pylist() == list(range(3_000))


def test_a_finished_folder_is_kept_and_others_are_refused(tmp_path):
    first = write_intervals(tmp_path / "data", **SIZES, span=1_000, length=10)
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")}
    assert write_intervals(tmp_path / "data", **SIZES, span=1_000, length=10) == first
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")} == before
    with pytest.raises(DataError, match=r"other values of length;"):
        write_intervals(tmp_path / "data", **SIZES, span=1_000, length=11)
    with pytest.raises(DataError, match="was not written by write_events"):
        write_events(tmp_path, **SIZES)


@pytest.mark.parametrize(
    ("write", "wrong", "message"),
    [
        (write_events, {"left_rows": -1}, "left_rows must not be negative"),
        (write_events, {"seed": -1}, "seed must not be negative"),
        (write_events, {"threads": 0}, "threads must be at least 1"),
        (write_points, {"span": 0}, "span must be at least 1"),
        (write_points, {"span": 100, "stretch": 40}, "three times the stretch"),
        (write_points, {"span": 100, "hot_share": 0.5}, "needs a stretch"),
        (write_points, {"span": 100, "stretch": 10, "hot_share": 2}, "hot_share must be from 0 to 1"),
        (write_intervals, {"span": 100, "length": 0}, "length must be at least 1"),
        (write_intervals, {"span": 100, "length": 1, "long_share": float("nan")}, "long_share must be from 0 to 1"),
    ],
)
def test_wrong_arguments(tmp_path, write, wrong, message):
    with pytest.raises(SpecError, match=message):
        write(tmp_path / "data", **{**SIZES, **wrong})
    assert list(tmp_path.iterdir()) == []
