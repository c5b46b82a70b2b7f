"""Right rows beyond the reach of all left rows stay where they are, and nothing else does."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture import testing as reference
from juncture.inputs.files import Files
from juncture.runtime.scan import extent_of
from juncture.spark.input.sides import FileSide, FrameSide, reachable
from support.engines import to_spark
from support.tables import difference

pytestmark = pytest.mark.in_turn

MICROSECOND = timedelta(microseconds=1)
NOON = datetime(2026, 1, 1, 12)

VALUES = {
    pa.int8(): ([3, 5], [-128, 0, 1, 3, 5, 6, 8, 127], 2),
    pa.int64(): ([3, 5], [-(2**63), 0, 1, 3, 5, 6, 8, 2**63 - 1], 2),
    pa.float64(): ([3.0, 5.0], [float("-inf"), 0.9, 1.0, 3.0, 5.0, 5.1, float("inf"), float("nan")], 2),
    pa.decimal128(38, 3): ([Decimal("3.5"), Decimal(5)], [Decimal(v) for v in (-(10**30), 1, "1.5", 4, 5, 9)], 2),
    pa.date32(): (
        [date(2026, 1, 3), date(2026, 1, 5)],
        [date(1, 1, 1), *(date(2026, 1, n) for n in (1, 3, 5, 6, 9)), date(9999, 12, 31)],
        "2d",
    ),
    pa.timestamp("us"): ([NOON], [datetime.min, *(NOON + n * MICROSECOND for n in range(-4, 5)), datetime.max], "2us"),
    pa.timestamp("us", "UTC"): ([NOON], [NOON + n * MICROSECOND for n in (-(10**15), -3, -2, -1, 0, 1, 10**15)], "2us"),
}


def tables(data_type: pa.DataType) -> tuple[pa.Table, pa.Table]:
    ours, theirs, _ = VALUES[data_type]
    left = pa.table({"on": pa.array([*ours, None], data_type)})
    return left, pa.table({"on": pa.array([*theirs, None], data_type), "row": range(len(theirs) + 1)})


@pytest.mark.parametrize("tolerance", [False, True])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("data_type", VALUES, ids=str)
def test_nothing_that_matters_is_left_out(spark, data_type, direction, tolerance):
    left, right = tables(data_type)
    spec = jn.Asof(on="on", direction=direction, tolerance=VALUES[data_type][2] if tolerance else None)
    join = spec.resolve(left.schema, right.schema)
    ends = pa.array([left["on"][0].as_py(), left["on"][-2].as_py()], data_type)
    whole = FrameSide.of(to_spark(spark, right), "right")
    narrow, words = reachable(join, extent_of(ends, join.domain), whole)
    kept = narrow.frame.toArrow()
    expected = reference.asof_join(join, left, right)
    assert difference(reference.asof_join(join, left, kept.cast(right.schema)), expected, ordered=True) is None
    limited = direction != "nearest" or (tolerance and join.domain.kind != "float")
    assert (kept.num_rows < right.num_rows, bool(words)) == (limited, limited)


def test_limits_beyond_a_type(spark):
    right = FrameSide.of(to_spark(spark, pa.table({"on": pa.array([1, 2], pa.int8())})), "right")
    schema = pa.schema([("on", pa.int64())])
    for direction, extent, rows in (("backward", (500, 900), 2), ("forward", (500, 900), 0), ("forward", (-900, 0), 2)):
        join = jn.Asof(on="on", direction=direction).resolve(schema, right.schema)
        assert reachable(join, extent, right)[0].frame.count() == rows


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("extent")
    left, right = folder / "left.parquet", folder / "right.parquet"
    pq.write_table(pa.table({"on": [50, 60]}), left)
    pq.write_table(pa.table({"on": range(100), "row": range(100)}), right, row_group_size=10)
    return str(left), str(right)


@pytest.mark.parametrize(
    ("direction", "tolerance", "groups"),
    [("backward", None, 3), ("backward", 1, 7), ("forward", None, 5), ("forward", 1, 8), ("nearest", 1, 7)],
)
def test_row_groups_out_of_reach_are_not_read(spark, files, direction, tolerance, groups):
    spec = jn.Asof(on="on", direction=direction, tolerance=tolerance)
    plan = jn.plan(*files, spec, spark=spark)
    assert ("pruned", f"{groups} of 10 row groups of the right side") in plan.details
    assert "row groups of the right side" in plan.explain()
    assert plan.execute().toPandas()["row"].tolist() == [50, 60]


@pytest.mark.parametrize(("how", "groups"), [("inner", 6), ("full", 0)])
def test_row_groups_out_of_reach_of_a_range_join_are_not_read(spark, files, how, groups):
    # From 45 to 70, which is four row groups.
    plan = jn.plan(*files, jn.Range(on="on", lower=-5, upper=10, how=how), spark=spark, algorithm="range")
    assert [text for heading, text in plan.details if heading == "pruned"] == (
        [f"{groups} of 10 row groups of the right side"] if groups else []
    )
    assert plan.execute().count() == 32 + (100 - 26) * (how == "full")


def test_all_row_groups_are_out_of_reach(spark, files):
    spec = jn.Asof(on="on", direction="forward", how="left")
    far = pa.table({"on": [1_000]})
    pq.write_table(far, files[0].replace("left", "far"))
    plan = jn.plan(files[0].replace("left", "far"), files[1], spec, spark=spark)
    assert plan.execute().toArrow().to_pydict() == {"on": [1_000], "row": [None]}


@pytest.mark.parametrize("how", ["right", "full"])
def test_right_rows_that_are_kept_are_read(spark, files, how):
    plan = jn.plan(*files, jn.Asof(on="on", how=how), spark=spark)
    assert not [heading for heading, _ in plan.details if heading == "pruned"]
    assert plan.execute().count() == 100


def test_ends_of_files(spark, files, tmp_path):
    assert FileSide.of(spark, Files.of(files[1]), 2).footers.ends("on").to_pylist() == [0, 99]
    pq.write_table(pa.table({"on": [1]}), tmp_path / "a.parquet", write_statistics=False)
    assert FileSide.of(spark, Files.of(tmp_path / "a.parquet"), 2).footers.ends("on") is None
