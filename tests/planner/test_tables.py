"""Tables of a join of many: whether they are sent to every task, or share a shuffle of the spine."""

from __future__ import annotations

import pyarrow as pa

import juncture as jn
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.choose import choose
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.planner.tables import sharing, table_algorithms

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64()})
ROOM = Resources(cores=8, memory_bytes=1 << 30)


def table(rows: int, spine_rows: int = 10_000_000, by: str | None = "k", row_bytes: int = 16) -> PlanningInput:
    stats = Stats(left=SideStats(rows=spine_rows, row_bytes=16), right=SideStats(rows=rows, row_bytes=row_bytes))
    join = jn.Asof(on="ts", by=by).resolve(SCHEMA, SCHEMA)
    return PlanningInput(join=join, engine="spark", stats=stats, resources=ROOM)


def chosen(*tables: PlanningInput) -> list[str]:
    return [choose(each, among=table_algorithms(each.join.spec, "spark")).algorithm for each in sharing(list(tables))]


def test_a_small_table_is_sent_and_a_large_one_shuffled():
    assert chosen(table(1_000)) == ["broadcast"]
    assert chosen(table(20_000_000)) == ["shared_shuffle"]


def test_a_table_of_some_megabytes_is_sent_where_the_spine_would_cost_more():
    assert chosen(table(1_000_000)) == ["broadcast"]
    assert chosen(table(4_000_000, spine_rows=1_000)) == ["shared_shuffle"]


def test_tables_share_the_shuffle_of_one_that_needs_it():
    assert chosen(table(20_000_000), table(1_000_000)) == ["shared_shuffle"] * 2
    assert chosen(table(20_000_000), table(100)) == ["shared_shuffle", "broadcast"]


def test_what_is_too_large_beside_others_is_not_sent():
    large = table(1_000_000)
    crowded = PlanningInput(**{**vars(large), "features": JoinFeatures(sent_bytes=60 << 20)})
    choice = choose(crowded, among=table_algorithms(crowded.join.spec, "spark"))
    assert choice.algorithm == "shared_shuffle"
    assert "exceed 67 MB" in str(choice.options[0].excluded)


def test_a_lookup_is_one_of_the_algorithms_in_process():
    equality = jn.Equi(on="k").resolve(SCHEMA, SCHEMA)
    planning = PlanningInput(join=equality, engine="local", stats=Stats(), resources=ROOM)
    assert choose(planning, among=table_algorithms(equality.spec, "local")).algorithm == "lookup"
    condition = jn.Equi(on="k", where="l.ts < r.ts").resolve(SCHEMA, SCHEMA)
    planning = PlanningInput(join=condition, engine="local", stats=Stats(), resources=ROOM)
    choice = choose(planning, among=table_algorithms(condition.spec, "local"))
    assert choice.algorithm != "lookup"
    assert choice.options[0].excluded == "it finds rows by equal keys alone."
