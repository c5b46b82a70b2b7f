"""As-of joins with a further condition."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture import testing as reference
from juncture.errors import PlanError, SchemaError, SpecError
from juncture.local.asof import condition
from support.engines import LOCAL
from support.reports import expected_report
from support.tables import difference

CONDITIONS = [
    "r.y < l.x",
    "r.y = l.x",
    "r.y <=> l.x AND r.y > 3",
    "l.x > 2 AND r.y <> l.x",
    "r.y + 1 = l.x OR r.y IS NULL",
]
WAYS = {
    "backward": ("r.ts <= l.ts", "r.ts DESC"),
    "forward": ("r.ts >= l.ts", "r.ts"),
    "nearest": ("TRUE", "abs(r.ts - l.ts), r.ts"),
}


def tables(seed: int, rows: tuple[int, int], keys: int, span: int) -> tuple[pa.Table, pa.Table]:
    """Return a left and a right table with a column each for conditions, some of it null, the right rows numbered."""
    chance = np.random.default_rng(seed)
    left, right = (
        pa.table({"ts": chance.integers(0, span, count), "k": chance.integers(0, keys, count), "row": np.arange(count)})
        for count in rows
    )
    x, y = (pa.array(chance.integers(0, 9, count), mask=chance.random(count) < 0.1) for count in rows)
    return left.append_column("x", x), right.append_column("y", y)


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("where", CONDITIONS)
def test_duckdb(direction, where, algorithm):
    left, right = tables(len(where), (300, 900), 3, 400)
    on, by = WAYS[direction]
    query = f"""
        SELECT r.row FROM l LEFT JOIN r ON l.k = r.k AND {on}
        AND abs(r.ts - l.ts) <= 50 AND ({where.replace("<=>", "IS NOT DISTINCT FROM")})
        QUALIFY row_number() OVER (PARTITION BY l.row ORDER BY {by}, r.row DESC) = 1 ORDER BY l.row
    """
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        expected = [row for (row,) in connection.sql(query).fetchall()]
    ours = jn.join_asof(
        left, right, on="ts", by="k", direction=direction, tolerance=50, where=where, algorithm=algorithm
    )
    assert ours["row_right"].to_pylist() == expected


def test_few_pairs_are_tried_where_rows_are_found_nearby(monkeypatch):
    tried = []
    matches = condition.matches
    monkeypatch.setattr(
        condition, "matches", lambda node, left, right: tried.append(left.num_rows) or matches(node, left, right)
    )
    rows = 20_000
    left = pa.table({"ts": np.arange(rows), "x": np.full(rows, 4)})
    right = pa.table({"ts": np.arange(rows), "y": np.arange(rows) % 10})
    ours = jn.join_asof(left, right, on="ts", where="r.y > l.x")
    assert ours["y"].to_pylist()[9:19] == [9, 9, 9, 9, 9, 9, 5, 6, 7, 8]
    assert sum(tried) < 12 * rows


def test_what_is_equal_is_not_tried(monkeypatch):
    monkeypatch.setattr(condition, "matches", lambda *_: pytest.fail("pairs were tried"))
    rows = 3_000
    left = pa.table({"ts": np.arange(rows) + rows, "x": np.arange(rows)})
    right = pa.table({"ts": np.arange(rows), "y": np.arange(rows, dtype=np.int32)})
    ours = jn.join_asof(left, right, on="ts", where="r.y = l.x")
    assert ours["y"].to_pylist() == list(range(rows))


@pytest.mark.parametrize("where", [*CONDITIONS, "r.y > 100", "FALSE"])
@pytest.mark.parametrize("direction", WAYS)
def test_the_match_report(where, direction):
    left, right = tables(7, (40, 60), 4, 30)
    right = right.filter(pa.array(np.asarray(right["k"]) != 2))
    join = jn.Asof(on="ts", by="k", tolerance=3, direction=direction, where=where)
    expected = expected_report(join.resolve(left.schema, right.schema), left, right)
    assert jn.plan(left, right, join).match_report() == expected


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        (5, SpecError, r"where=5 \(int\) is not a string. Expected SQL, such as"),
        ("r.price <", SpecError, "r.price <"),
        ("r.prise < l.limit", SchemaError, "Did you mean 'price'"),
        ("l.limit", SchemaError, "BIGINT, but must be a boolean"),
    ],
)
def test_conditions_that_say_nothing(where, error, said):
    left, right = pa.schema({"ts": pa.int64(), "limit": pa.int64()}), pa.schema({"ts": pa.int64(), "price": pa.int64()})
    with pytest.raises(error, match=said):
        jn.Asof(on="ts", where=where).resolve(left, right)


def test_a_spec_comes_back_from_plain_data():
    spec = jn.Asof(on="ts", where="r.price < l.limit")
    assert jn.Asof.from_dict(spec.to_dict()) == spec


def test_explain_says_the_condition():
    table = pa.table({"ts": [1], "x": [1]})
    text = str(jn.plan(table, table, jn.Asof(on="ts", where="r.x < l.x")).explain())
    assert "of those for which r.x < l.x" in " ".join(text.split())


def test_streams_refuse_it():
    schema = pa.schema({"ts": pa.int64()})
    with pytest.raises(PlanError, match=r"where='r\.ts > 3' is not supported"):
        jn.stream(
            schema, schema, jn.Asof(on="ts", where="r.ts > 3"), left_order=jn.Order("ts"), right_order=jn.Order("ts")
        )


def test_on_spark_every_algorithm_that_sees_all_rows_of_a_key_gives_the_same(spark):
    left, right = tables(5, (50, 200), 3, 90)
    frames = [spark.createDataFrame(table.to_pandas().convert_dtypes()) for table in (left, right)]
    for spec, algorithm in (
        (jn.Asof(on="ts", where="r.y < l.x", how="full"), "hash"),
        (jn.Asof(on="ts", by="k", where="r.y < l.x", direction="nearest"), "broadcast"),
        (jn.Asof(on="ts", by="k", where="r.y = l.x", matches=2), "broadcast_left"),
    ):
        expected = reference.asof_join(spec.resolve(left.schema, right.schema), left, right)
        answer = jn.plan(*frames, spec, algorithm=algorithm).execute().toArrow()
        assert difference(answer, expected, ordered=False) is None
    for algorithm in ("range", "window"):
        with pytest.raises(PlanError, match="the nearest row may not satisfy it"):
            jn.plan(*frames, spec, algorithm=algorithm)


@pytest.mark.in_turn
@pytest.mark.parametrize("by", ["k", None])
def test_a_report_on_spark_counts_what_one_in_process_does(spark, by):
    left, right = tables(6, (50, 200), 3, 90)
    frames = [spark.createDataFrame(table.to_pandas().convert_dtypes()) for table in (left, right)]
    spec = jn.Asof(on="ts", by=by, where="r.y < l.x", how="semi", tolerance=10)
    assert jn.plan(*frames, spec).match_report() == jn.plan(left, right, spec).match_report()
