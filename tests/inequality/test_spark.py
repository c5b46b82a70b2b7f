"""Range, overlap and predicate joins through Spark itself: plans, refusals, files, and bins of every kind."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.spark.inequality import plan as near_plan
from juncture.spark.inequality.bins import Bins, HotBin, join_bins
from juncture.spark.inequality.condition import inequality_pairs
from juncture.spark.input.sides import FrameSide
from support.engines import to_spark
from support.kinds import defined_rows
from support.tables import difference, read_table

pytestmark = pytest.mark.in_turn

LEFT = read_table(
    "ts: int64 | until: int64 | k: string | id: int64\n"
    "2 | 5 | a | 1\n5 | 90 | a | 2\n8 | 9 | b | 3\nnull | 4 | b | 4\n9 | 9 | null | 5\n40 | 41 | a | 6\n40 | 41 | a | 6"
)
RIGHT = read_table(
    "at: int64 | end: int64 | k: string | v: float64\n"
    "1 | 3 | a | 10.0\n4 | 70 | a | 20.0\n8 | 8 | b | 30.0\n8 | 9 | null | 1.0\n39 | 44 | a | 2.0\n80 | 81 | a | 3.0"
)
RANGE = jn.Range(left_on="ts", right_on="at", by="k", lower=-3, upper=1)
OVERLAP = jn.Overlap(left_interval=("ts", "until"), right_interval=("at", "end"), by="k")
ENDS = {"left_interval": ("id", "until"), "right_interval": ("id", "until")}
WHERE = jn.Where("l.ts - 3 <= r.at AND r.at <= l.ts + 1 AND l.k = r.k AND l.id <> 6")
SPECS = {"range": RANGE, "overlap": OVERLAP, "where": WHERE}
ALGORITHMS = ("broadcast", "broadcast_left", "range", "bins", "nested_loop")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[str, str]:
    """Write both sides to files, with two rows in each row group."""
    folder = tmp_path_factory.mktemp("near")
    for name, table in (("left", LEFT), ("right", RIGHT)):
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
    return str(folder / "left.parquet"), str(folder / "right.parquet")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_files(spark, files, kind, algorithm):
    answer = jn.plan(*files, SPECS[kind], algorithm=algorithm, spark=spark).execute()
    assert difference(answer.toArrow(), defined_rows(SPECS[kind], LEFT, RIGHT), ordered=False) is None


BINS = [
    Bins((3, 8), (2, 5, 8), 1),
    Bins((7,), (7,), 1),
    Bins((2, 4, 10), (2, 4, 10), 2, hot=(HotBin(0, 2, 1, 3), HotBin(0, 4, 0, 2))),
]


@pytest.mark.parametrize(
    ("bins", "how"),
    [
        # All bins and every `how` in each run, and each with each in a nightly one.
        pytest.param(
            bins, how, marks=pytest.mark.nightly if (number + turn) % len(BINS) else [], id=f"bins{number}-{how}"
        )
        for number, bins in enumerate(BINS)
        for turn, how in enumerate(["inner", "left", "right", "full", "semi", "anti"])
    ],
)
def test_overlaps_by_bins_of_many_levels(spark, how, bins):
    spec = jn.Overlap(left_interval=("ts", "until"), right_interval=("at", "end"), closed="both", how=how)
    sides = FrameSide.of(to_spark(spark, LEFT), "left"), FrameSide.of(to_spark(spark, RIGHT), "right")
    join = spec.resolve(sides[0].schema, sides[1].schema)
    answer = join_bins(inequality_pairs(join, *sides), how, bins)
    assert difference(answer.toArrow(), defined_rows(spec, LEFT, RIGHT), ordered=False) is None


def test_bins_are_as_wide_as_rows_that_no_sample_has(spark, monkeypatch, tmp_path):
    # Whatever passes through Python costs so much that bins are chosen.
    constants = tmp_path / "constants.toml"
    constants.write_text(
        "to_python_ns = 1e6\nfrom_python_ns = 1e6\njvm_loop_pair_ns = 1e6\njvm_hash_pair_ns = 1e6\nscan_ns = 1e-3\n"
    )
    monkeypatch.setenv("JUNCTURE_CONSTANTS", str(constants))
    monkeypatch.setattr(near_plan, "SAMPLE_ROWS", 100)
    at = pa.array(range(0, 50_000, 10))
    points = pa.table({"at": at, "end": at})
    intervals = pa.table({"ts": [*range(0, 49_990, 10), 5], "until": [*range(3, 49_993, 10), 49_995]})
    spec = jn.Overlap(left_interval=("ts", "until"), right_interval=("at", "end"), closed="both")
    plan = jn.plan(to_spark(spark, intervals), to_spark(spark, points), spec)
    assert plan.algorithm == "bins"
    assert plan.jobs[-1] == "measured the longest rows"
    assert plan.execute().count() == 4_999 + 4_999


def test_what_lies_at_an_infinity_has_a_bin(spark):
    table = pa.table({"x": [math.nan, math.inf, -math.inf, 2.5, None], "row": range(5)})
    spec = jn.Where("l.x - r.x <= 0.5 AND l.x * 2 > r.x")
    answer = jn.plan(*[to_spark(spark, table)] * 2, spec, algorithm="bins").execute()
    assert difference(answer.toArrow(), defined_rows(spec, table, table), ordered=False) is None


def test_where_bins_would_hold_everything_others_are_taken(spark):
    open_ended = jn.Range(left_on="ts", right_on="at", by="k", lower=-3)
    plan = jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), open_ended)
    assert plan.algorithm != "bins"
    assert "the condition is open on one side, so all rows would share a bin" in plan.explain()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_interval_that_starts_after_its_end_is_one_sentence(spark, algorithm):
    backward = LEFT.set_column(1, "until", pa.array([1] * LEFT.num_rows))
    with pytest.raises(Exception, match=r"left interval .*starts after its end") as raised:
        jn.plan(to_spark(spark, backward), to_spark(spark, RIGHT), OVERLAP, algorithm=algorithm).execute().toArrow()
    assert "Traceback" not in str(raised.value)


def test_lazy_plans_run_no_job(spark, files):
    frames = to_spark(spark, LEFT), to_spark(spark, RIGHT)
    plan = jn.plan(*frames, RANGE, lazy=True)
    assert plan.jobs == ()
    assert plan.algorithm == "bins"
    assert difference(plan.execute().toArrow(), defined_rows(RANGE, LEFT, RIGHT), ordered=False) is None
    assert jn.plan(*frames, OVERLAP, lazy=True).algorithm == "nested_loop"
    assert jn.plan(*files, RANGE, lazy=True, spark=spark).jobs == ()
    for algorithm in ("broadcast", "broadcast_left", "range"):
        with pytest.raises(PlanError, match="lazy=True forbids"):
            jn.plan(*frames, RANGE, lazy=True, algorithm=algorithm)
    with pytest.raises(PlanError, match="its bins need a sample"):
        jn.plan(*frames, OVERLAP, lazy=True, algorithm="bins")


@pytest.mark.parametrize("spec", [jn.Asof(on="id"), jn.Overlap(**ENDS), jn.Equi(on="id")], ids=["asof", "near", "equi"])
def test_what_is_too_large_is_not_collected_though_the_algorithm_is_named(spark, spec):
    few = spark.range(2_000).selectExpr("id", "id AS until")
    large = few.selectExpr("*", "repeat('x', 100000) AS text")
    with pytest.raises(
        PlanError, match=r"the right side has about 200 MB; the limit for a copy in every task is \d+ MB"
    ):
        jn.plan(few, large, spec, algorithm="broadcast")


def refused(spark, spec: jn.Range | jn.Where, algorithm: str) -> str:
    with pytest.raises(PlanError) as raised:
        jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), spec, algorithm=algorithm)
    return str(raised.value)


def test_refusals_say_why(spark):
    full = jn.Range(left_on="ts", right_on="at", lower=-3, upper=1, how="full")
    assert "keeps unmatched right rows" in refused(spark, full, "broadcast")
    assert "needs all matches of a left row" in refused(spark, full, "broadcast_left")
    open_ended = jn.Range(left_on="ts", right_on="at", lower=-3)
    assert "all rows would share a bin" in refused(spark, open_ended, "bins")
    unlinked = jn.Where("l.id > 3 OR r.v > 1")
    assert "no condition determines a partition" in refused(spark, unlinked, "range")
    assert "that is nested_loop" in refused(spark, unlinked, "sql")


def test_the_choice_is_explained(spark):
    plan = jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), RANGE, algorithm="bins")
    text = plan.explain()
    assert "Range join on Spark" in text
    assert "bins       2^" in text
    assert plan.jobs[0] == "counted both sides"
    assert plan.jobs[1].startswith("sampled 13 rows of both sides")
    assert jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), RANGE).algorithm == "nested_loop"


def test_keys_are_looked_at_where_both_sides_have_to_move(spark):
    rows = spark.range(5_000).selectExpr("id", "id % 500 AS k")
    plan = jn.plan(rows, rows, jn.Where("l.k = r.k AND l.id < r.id", how="full"))
    assert plan.jobs == ("counted both sides", "sampled 10,000 rows of both sides")
    assert plan.algorithm == "sql"
    assert plan.choice.output_rows.source.startswith("half of the pairs of equal keys in a sample of both sides")


def test_the_session_stays_as_it_was(spark):
    def state():
        return {row["key"]: row["value"] for row in spark.sql("SET").collect()}, spark.catalog.listTables()

    before = state()
    for algorithm in ALGORITHMS:
        jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), OVERLAP, algorithm=algorithm).execute().count()
    assert state() == before
