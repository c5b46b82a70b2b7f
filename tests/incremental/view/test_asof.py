"""ASOF JOIN … MATCH_CONDITION within a query, and beside what the batch join answers."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import SpecError
from juncture.incremental.sql.binder import with_conditions_joined
from support.state import ON_DISK, view_in

TRADES = pa.schema({"sym": pa.string(), "ts": pa.int64(), "size": pa.int64()})
QUOTES = pa.schema({"sym": pa.string(), "ts": pa.int64(), "bid": pa.int64()})

SHAPES = {
    "ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym": jn.Asof(on="ts", by="sym", how="inner"),
    "ASOF LEFT JOIN q MATCH_CONDITION (q.ts < t.ts) ON t.sym = q.sym": jn.Asof(
        on="ts", by="sym", allow_exact_matches=False
    ),
    "ASOF LEFT JOIN q MATCH_CONDITION (t.ts <= q.ts) ON t.sym = q.sym": jn.Asof(on="ts", by="sym", direction="forward"),
    "ASOF JOIN q ON t.sym = q.sym AND t.ts >= q.ts": jn.Asof(on="ts", by="sym", how="inner"),
}


@pytest.mark.parametrize(("join", "spec"), SHAPES.items(), ids=range(len(SHAPES)))
def test_a_total_over_an_asof_join(join, spec, tmp_path):
    sql = f"SELECT t.sym, sum(t.size * q.bid) AS value, count(*) AS n FROM t {join} GROUP BY t.sym"
    sources = {"t": TRADES, "q": QUOTES}
    chance, there = random.Random(1), {"t": [], "q": []}
    view = jn.view(tmp_path / "state", sql, sources=sources)
    for epoch in range(10):
        changes = {}
        for name, rows in there.items():
            weights = []
            for _ in range(chance.randint(0, 5)):
                if rows and chance.random() < 0.4:
                    weights.append((rows.pop(chance.randrange(len(rows))), -1))
                else:
                    # No two quotes of a symbol at one time, so that none is as good as another.
                    row = (chance.choice("xy"), chance.randint(0, 30), chance.randint(1, 9))
                    if name == "t" or all(row[:2] != other[:2] for other in rows):
                        rows.append(row)
                        weights.append((row, 1))
            columns = list(zip(*(row for row, _ in weights), strict=True)) or [(), (), ()]
            arrays = [pa.array(column, each.type) for column, each in zip(columns, sources[name], strict=True)]
            changes[name] = pa.table(arrays, schema=sources[name]).append_column(
                "_weight", pa.array([weight for _, weight in weights], pa.int64())
            )
        view.apply(**changes)
        if epoch % 3 == 2:
            view.close()
            view = jn.view(tmp_path / "state", sql, sources=sources)
        tables = [
            pa.Table.from_pylist([dict(zip(sources[name].names, row, strict=True)) for row in rows], sources[name])
            for name, rows in there.items()
        ]
        joined = jn.plan(*tables, spec).execute().to_pylist()
        wanted = {}
        for row in joined:
            total, count = wanted.get(row["sym"], (None, 0))
            value = None if row["bid"] is None else row["size"] * row["bid"]
            total = value if total is None else total if value is None else total + value
            wanted[row["sym"]] = (total, count + 1)
        assert {row["sym"]: (row["value"], row["n"]) for row in view.result().to_pylist()} == wanted
    view.close()


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("ASOF JOIN q ON t.sym = q.sym", "Missing ASOF JOIN inequality"),
        ("ASOF JOIN q MATCH_CONDITION (t.ts = q.ts) ON t.sym = q.sym", "Missing ASOF JOIN inequality"),
        ("ASOF JOIN q MATCH_CONDITION (t.ts >= t.size) ON t.sym = q.sym", "Missing ASOF JOIN inequality"),
        ("ASOF JOIN q ON t.sym = q.sym AND t.ts >= q.ts AND t.size > q.bid", "Multiple ASOF JOIN inequalities"),
        (
            "ASOF LEFT JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym AND t.size > 3",
            "conditions other than equalities",
        ),
        ("ASOF RIGHT JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym", "ASOF RIGHT JOIN"),
    ],
)
def test_as_of_what(join, message):
    with pytest.raises(SpecError, match=message):
        jn.view(None, f"SELECT t.sym FROM t {join}", sources={"t": TRADES, "q": QUOTES})


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        (
            "a ASOF JOIN b MATCH_CONDITION (a.x >= b.y) ON a.k = b.k",
            "a ASOF JOIN b ON              (a.x >= b.y)AND a.k = b.k",
        ),
        (
            "a ASOF JOIN b match_condition((a.x) > b.y)\nON a.k = b.k",
            "a ASOF JOIN b ON             ((a.x) > b.y)AND a.k = b.k",
        ),
        ("a ASOF JOIN b MATCH_CONDITION (a.x >= b.y)", "a ASOF JOIN b ON              (a.x >= b.y)"),
        ("a WHERE t = 'MATCH_CONDITION (x) ON'", "a WHERE t = 'MATCH_CONDITION (x) ON'"),
    ],
)
def test_match_condition_is_bound_as_on_at_equal_positions(query, bound):
    assert with_conditions_joined(f"FROM {query}") == f"FROM {bound}"


def weighted(*rows):
    schema = pa.schema({"k": pa.int64(), "n": pa.int64(), "_weight": pa.int64()})
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def test_copies_of_a_row_that_are_stored_apart_are_deleted_once_each(tmp_path):
    sql = "SELECT l.k, l.n, r.n AS m FROM l ASOF JOIN r ON l.k = r.k AND l.n <= r.n"
    sources = dict.fromkeys(("l", "r"), pa.schema({"k": pa.int64(), "n": pa.int64()}))
    policy = replace(ON_DISK, initial_bytes=0, merged_runs=2)
    with view_in(tmp_path / "state", sql, sources=sources, policy=policy) as view:
        view.populate(l=weighted(*[(3, 0, 1)] * 3, (2, 0, 1)), r=weighted((3, 5, 1), (2, 5, 1)))
        for _ in range(4):
            # The copies are in one run in the end.
            view._runtime.tables.finish_merges()
            view.apply()
        changes = view.apply(l=weighted((3, 0, -2)), r=weighted((3, 0, 1), (1, 10, 1)))
        assert sorted(tuple(row.values()) for batch in changes for row in batch.to_pylist()) == [
            (3, 0, 0, 1),
            (3, 0, 5, -3),
        ]
