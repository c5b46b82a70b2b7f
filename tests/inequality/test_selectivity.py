"""How many pairs lie within reach of each other, by a look at some rows: beside how many there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from support.kinds import defined_rows
from support.tables import difference

ENDS = {"left_interval": ("at", "end"), "right_interval": ("at", "end")}
TIMES = {"left_interval": ("time", "until"), "right_interval": ("time", "until")}


def table(rows: int, length: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    at, lengths = random.integers(0, 1_000_000, rows), random.exponential(length, rows).astype(int)
    return pa.table(
        {
            "at": at,
            "end": at + lengths,
            "long": lengths,
            "back": -random.integers(0, length, rows),
            "key": random.integers(0, 20, rows),
            "x": random.random(rows),
            "day": pa.array(at // 1_000, pa.int32()).cast(pa.date32()),
            "name": random.integers(0, 10, rows).astype(str),
            "time": pa.array(at * 1_000, pa.timestamp("ms")),
            "until": pa.array((at + lengths) * 1_000_000, pa.timestamp("us")),
            "while": pa.array(lengths, pa.duration("s")),
            "gone": pa.array(at, mask=at % 4 == 0),
        }
    )


LEFT, RIGHT = table(30_000, 30, seed=1), table(50_000, 100, seed=2)
FEW = LEFT.slice(0, 1_000), RIGHT.slice(0, 1_500)
MANY = LEFT, RIGHT

# The conditions rule out nothing, and one in five rows, and pairs of them, satisfies the alternatives.
CONDITIONS = " AND ".join(f"l.key <> {number}" for number in range(100, 1_100))
ALTERNATIVES = " OR ".join(f"l.at BETWEEN {start} AND {start + 199}" for start in range(0, 1_000_000, 1_000))
ALTERNATIVES_OF_BOTH = " OR ".join(
    f"l.at + r.at * 3 BETWEEN {start} AND {start + 799}" for start in range(0, 4_000_000, 4_000)
)


def both(left, right, spec):
    """Return how many rows are expected, and how many there are."""
    return jn.plan(left, right, spec).choice.output_rows, jn.plan(left, right, spec).execute().num_rows


@pytest.mark.parametrize(
    ("sides", "spec"),
    [
        pytest.param(MANY, jn.Overlap(**ENDS), id="intervals"),
        pytest.param(MANY, jn.Overlap(**ENDS, by="key", how="left"), id="of one key"),
        pytest.param(MANY, jn.Overlap(**TIMES), id="times in two units"),
        pytest.param(FEW, jn.Overlap(left_interval=("at", None), right_interval=("at", "end")), id="left without end"),
        pytest.param(FEW, jn.Overlap(left_interval=("at", "end"), right_interval=(None, "end")), id="right since ever"),
        pytest.param(MANY, jn.Range(on="at", lower="back", upper="long"), id="windows by row"),
        pytest.param(MANY, jn.Range(on="time", lower="-20s", upper="while", by="key"), id="windows of time by row"),
        pytest.param(FEW, jn.Range(on="at", lower="back", upper=None), id="open windows by row"),
        pytest.param(MANY, jn.Where("l.gone < r.end AND r.gone < l.end"), id="overlap with nulls"),
        pytest.param(MANY, jn.Where("l.at >= r.at AND l.at < r.end"), id="point within right intervals"),
        pytest.param(MANY, jn.Where("l.key = r.key AND r.at BETWEEN l.at - 20 AND l.at + 50"), id="band of one key"),
        pytest.param(FEW, jn.Where("l.key = r.key AND l.day <= r.day"), id="days of one key"),
        pytest.param(FEW, jn.Where("l.x < r.x AND l.at < r.at"), id="two inequalities"),
        pytest.param(FEW, jn.Where("l.key = r.key AND l.x * r.x < 0.1"), id="residual"),
        pytest.param(FEW, jn.Where("l.x < r.x AND l.name = '3' AND r.key < 5"), id="filters"),
        pytest.param(FEW, jn.Where(f"l.x < r.x AND l.key < 5 AND {CONDITIONS}"), id="many conditions"),
        pytest.param(FEW, jn.Where(f"l.x < r.x AND l.key < 5 AND ({ALTERNATIVES})"), id="many alternatives"),
        pytest.param(FEW, jn.Where(f"l.x < r.x AND ({ALTERNATIVES_OF_BOTH})"), id="many alternatives of both"),
    ],
)
def test_what_is_expected_is_near_what_comes(sides, spec):
    expected, rows = both(*sides, spec)
    assert expected.value == pytest.approx(rows, rel=0.15)
    assert " as if rows lay evenly" in expected.source


@pytest.mark.parametrize("closed", ["left", "both"])
def test_whole_numbers_are_points_of_their_own(closed):
    # Each of ten numbers, as an interval: closed, it touches both neighbours too.
    numbers = np.arange(1_000) % 10
    rows = pa.table({"at": numbers, "end": numbers + 1})
    expected, found = both(rows, rows, jn.Overlap(**ENDS, closed=closed))
    assert expected.value == found == (100_000 if closed == "left" else 280_000)


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("l.name < r.name", "a condition compares what is neither a number nor a time"),
        ("l.key = r.key AND abs(l.at - r.at) = 3", "0 of 20,000 pairs, taken by chance, satisfy what is left"),
    ],
)
def test_what_cannot_be_seen_is_not_known(predicate, said):
    plan = jn.plan(LEFT, RIGHT, jn.Where(predicate))
    assert plan.choice.output_rows.value is None
    assert plan.choice.output_rows.source.startswith(said)


def test_a_stream_is_not_looked_at():
    plan = jn.plan(LEFT.to_reader(), RIGHT, jn.Overlap(**ENDS))
    assert plan.choice.output_rows.value is None
    assert "output     unknown: a side is not counted" in plan.explain()


def test_files_are_looked_at_in_parts(tmp_path):
    for name, rows in (("left", LEFT), ("right", RIGHT)):
        pq.write_table(rows.sort_by("at"), tmp_path / f"{name}.parquet", row_group_size=10_000)
    expected, rows = both(tmp_path / "left.parquet", tmp_path / "right.parquet", jn.Overlap(**ENDS, by="key"))
    assert expected.value == pytest.approx(rows, rel=0.3)


EXTREMES = pa.table(
    {"at": [-1.7e308, -np.inf, 5e-324, np.nan, 1.7e308, np.inf], "end": [1.7e308, 0.0, 1.0, 0.0] + [np.inf] * 2}
)


@pytest.mark.parametrize(
    "spec",
    [
        jn.Range(on="at", lower=-1e308, upper=1.7e308),
        jn.Range(on="at", lower=-(10**350), upper=0),
        jn.Range(on="at", upper="end"),
        jn.Overlap(left_interval=("at", "end"), right_interval=("at", "end")),
        jn.Overlap(left_interval=(None, "end"), right_interval=("at", None)),
        jn.Where("r.at BETWEEN l.at - 1e308 AND l.at + 1.7e308"),
        jn.Where("l.at < r.end AND r.at < l.end"),
        jn.Asof(on="at", direction="nearest", tolerance=1.7e308),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_floats_that_are_far_apart(spec):
    """Warnings of NumPy are errors."""
    for rows in (EXTREMES, EXTREMES.slice(2, 3), EXTREMES.slice(4, 1)):
        plan = jn.plan(rows, rows, spec)
        assert plan.choice.output_rows.value is None or 0 <= plan.choice.output_rows.value <= rows.num_rows**2
        assert difference(plan.execute(), defined_rows(spec, rows, rows), ordered=True) is None


@pytest.mark.parametrize("data_type", [pa.int64(), pa.uint64(), pa.decimal128(38, 0), pa.float32()], ids=str)
def test_windows_beyond_all_floats(data_type):
    rows = pa.table({"at": pa.array([1, 2, 100], pa.int64()).cast(data_type)})
    assert both(rows, rows, jn.Range(on="at", lower=-(10**350), upper=10**350))[0].value == 9
