"""What is known of inputs: figures that make no sense are refused, and a word does not stand against the data."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from juncture.planner.statistics import combined

TABLE = pa.table({"ts": [1, 2], "end": [2, 3], "k": [1, 1]})
SPECS = [
    jn.Asof(on="ts", by="k"),
    jn.Range(on="ts", lower=0, upper=1, by="k"),
    jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end"), by="k"),
    jn.Where("l.ts < r.ts"),
    jn.Equi(on="k"),
]


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"rows": -1}, r"SideStats\(rows=-1\) is invalid\. Pass a whole number, 0 or more, or None"),
        ({"rows": 1.5}, "rows=1.5"),
        ({"rows": "10"}, "rows='10'"),
        ({"distinct_keys": True}, "distinct_keys=True"),
        ({"null_rows": -3}, "null_rows=-3"),
        ({"row_bytes": -8}, "row_bytes=-8"),
        ({"hottest_key_share": 50}, "Pass a share of the rows, from 0 to 1"),
        ({"hottest_key_share": float("nan")}, "hottest_key_share=nan"),
        ({"on_range": (2, 1)}, "Pass a pair of numbers, the least value and the greatest"),
        ({"on_range": (1,)}, "on_range"),
        ({"on_range": ("a", 1)}, "on_range"),
        ({"is_sorted": 1}, "Pass True or False"),
    ],
)
def test_figures_that_make_no_sense(figures, said):
    with pytest.raises(jn.SpecError, match=said):
        jn.SideStats(**figures)


def test_a_side_is_a_side():
    with pytest.raises(jn.SpecError, match=r"Stats\(left=1000\) is of type int\. Pass juncture\.SideStats"):
        jn.Stats(left=1000)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_every_join_takes_stats_and_refuses_others(spec):
    plan = jn.plan(TABLE.to_reader(), TABLE, spec, stats=jn.Stats(left=jn.SideStats(rows=7)))
    assert plan.stats.left.rows == 7
    assert plan.stats.left.is_given("rows")
    assert "7 rows (given)" in plan.explain()
    with pytest.raises(jn.SpecError, match=r"stats=\{'left': 7\} \(dict\) is not statistics of both sides"):
        jn.plan(TABLE, TABLE, spec, stats={"left": 7})


def test_each_function_takes_stats():
    stats = jn.Stats(left=jn.SideStats(rows=2_000), right=jn.SideStats(rows=2_000))
    assert jn.join_asof(TABLE, TABLE, on="ts", stats=stats).num_rows == 2
    assert jn.join_range(TABLE, TABLE, on="ts", lower=0, upper=0, stats=stats).num_rows == 2
    interval = {"left_interval": ("ts", "end"), "right_interval": ("ts", "end")}
    assert jn.join_overlap(TABLE, TABLE, **interval, stats=stats).num_rows == 2
    assert jn.join_where(TABLE, TABLE, "l.ts = r.ts", stats=stats).num_rows == 2
    assert jn.join(TABLE, TABLE, on="ts", stats=stats).num_rows == 2


def test_what_was_found_stands_against_what_was_given():
    found = jn.SideStats(rows=5, on_range=(1, 9), provenance={"rows": "Arrow table", "on_range": "all 5 rows"})
    side = combined(jn.SideStats(rows=5_000, distinct_keys=3, on_range=(1, 9)), found)
    assert (side.rows, side.distinct_keys, side.on_range) == (5, 3, (1, 9))
    assert side.provenance == {"rows": "Arrow table, given: 5,000", "distinct_keys": "given", "on_range": "all 5 rows"}
    assert side.is_given("distinct_keys")
    assert not side.is_given("rows")
    assert not side.is_given("null_rows")
