"""DuckDB as a second oracle of range, overlap, predicate and equality joins: for the definition, and the engine."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where
from support.engines import LOCAL_EQUI, join_in_process
from support.kinds import Spec, defined_rows
from support.tables import difference

# Without a column that decides ties, so that none is needed: aggregates here do not depend on an order.
AGG = {"*": "count", "row": ["sum", "min", "max"]}
CONDITIONS = [
    (Range(on="s", by="k", lower=-5, upper=3), "r.s BETWEEN l.s - 5 AND l.s + 3"),
    (Range(on="s", by="k", lower=-5, closed="none"), "r.s > l.s - 5"),
    (Range(on="s", by="k", lower="e", upper="w", closed="left"), "r.s >= l.s + l.e AND r.s < l.s + l.w"),
    (
        Overlap(left_interval=("s", "e"), right_interval=("s", "e"), by="k"),
        "l.s < r.e AND r.s < l.e AND l.s < l.e AND r.s < r.e",
    ),
    (
        Overlap(left_interval=("s", "e"), right_interval=("s", "e"), by="k", closed="both"),
        "l.s <= r.e AND r.s <= l.e",
    ),
    (Where("l.s < r.e AND l.w > r.w", by="k"), "l.s < r.e AND l.w > r.w"),
    (Where("abs(l.s - r.e) <= 4 AND l.w <> r.w", by="k"), "abs(l.s - r.e) <= 4 AND l.w <> r.w"),
    (Where("l.s + l.w * r.w > r.e * 3 OR l.s = r.s", by="k"), "l.s + l.w * r.w > r.e * 3 OR l.s = r.s"),
]
# A connection for each example takes longer than its joins.
FEW = settings(max_examples=settings.default.max_examples // 3)
NAMES = [f"{type(spec).__name__.lower()}, {condition}" for spec, condition in CONDITIONS]


def side(chance: np.random.Generator, rows: int, keys: int, span: int) -> pa.Table:
    """Return intervals on a line with a key and a number, some of them null, numbered by a column."""
    start = chance.integers(-span, span, rows)
    columns = {
        "s": start,
        "e": start + chance.integers(0, 12, rows),
        "w": chance.integers(-20, 20, rows),
        "k": chance.integers(0, keys, rows),
    }
    table = {name: pa.array(values, mask=chance.random(rows) < 0.05) for name, values in columns.items()}
    return pa.table(table | {"row": pa.array(range(rows), pa.int64())})


def in_duckdb(how: str, condition: str, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return the numbers of the rows that match."""
    on = f"l.k = r.k AND ({condition})"
    query = {
        "semi": f"SELECT l.row FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {on})",
        "anti": f"SELECT l.row FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {on})",
        "agg": f"SELECT l.row, count(r.row) AS count, sum(r.row)::BIGINT AS row_sum, min(r.row) AS row_min, "
        f"max(r.row) AS row_max FROM l LEFT JOIN r ON {on} GROUP BY l.row",
    }.get(how, f"SELECT l.row, r.row AS row_right FROM l {how} JOIN r ON {on}")
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        return connection.sql(query).to_arrow_table()


def asked(spec: Spec, how: str) -> Spec:
    values = spec.to_dict() | ({"agg": AGG} if how == "agg" else {"how": how})
    return type(spec).from_dict(values)


@pytest.mark.parametrize(("spec", "condition"), CONDITIONS, ids=NAMES)
@FEW
@given(data=st.data())
def test_the_definition(spec, condition, data):
    how = data.draw(
        st.sampled_from(["inner", "left", "semi", "anti", *(["agg"] if not isinstance(spec, Where) else [])])
    )
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    keys, span = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([5, 40]))
    left, right = (side(chance, chance.integers(0, 40), keys, span) for _ in range(2))
    expected = in_duckdb(how, condition, left, right)
    ours = defined_rows(asked(spec, how), left, right).select(expected.column_names)
    assert difference(ours, expected, ordered=False) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize(("spec", "condition"), CONDITIONS, ids=NAMES)
def test_the_engine_on_more_rows_than_fit_one_batch_of_work(spec, condition, how):
    chance = np.random.default_rng(7)
    left, right = (side(chance, 20_000, 200, 2_000) for _ in range(2))
    expected = in_duckdb(how, condition, left, right)
    algorithm = {Range: "binary_search", Overlap: "interval_tree", Where: "auto"}[type(spec)]
    ours = join_in_process(asked(spec, how), left, right, algorithm).select(expected.column_names)
    order = [(name, "ascending") for name in expected.column_names]
    assert ours.sort_by(order).equals(expected.sort_by(order).cast(ours.schema))


EQUI = [
    (Equi(on=["k", "s"]), "l.k = r.k AND l.s = r.s"),
    (Equi(on="s", nulls_equal=True), "l.s IS NOT DISTINCT FROM r.s"),
    (Equi(left_on="s", right_on="e", where="l.w > r.w"), "l.s = r.e AND l.w > r.w"),
]
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def equal_in_duckdb(how: str, condition: str, left: pa.Table, right: pa.Table) -> pa.Table:
    query = {
        "semi": f"SELECT l.row FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {condition})",
        "anti": f"SELECT l.row FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {condition})",
    }.get(how, f"SELECT l.row, r.row AS row_right FROM l {how} JOIN r ON {condition}")
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        return connection.sql(query).to_arrow_table()


@pytest.mark.parametrize(
    ("spec", "condition", "how"),
    [
        # Every condition in each run, and each with every `how` in a nightly one.
        pytest.param(*each, how, marks=pytest.mark.nightly if (number + turn) % 6 else [], id=f"{each[1]}-{how}")
        for number, each in enumerate(EQUI)
        for turn, how in enumerate(HOWS)
    ],
)
def test_equal_keys(spec, condition, how):
    for seed, rows, span in ((1, 0, 5), (2, 60, 5), (3, 600, 100)):
        chance = np.random.default_rng(seed)
        left, right = side(chance, rows, 20, span), side(chance, rows // 2, 20, span)
        expected = equal_in_duckdb(how, condition, left, right)
        order = [(name, "ascending") for name in expected.column_names]
        for algorithm in LOCAL_EQUI:
            for memory_bytes in (20_000, 10**9):
                ours = join_in_process(asked(spec, how), left, right, algorithm, memory_bytes=memory_bytes)
                ours = ours.select(expected.column_names)
                assert ours.sort_by(order).equals(expected.sort_by(order).cast(ours.schema))
