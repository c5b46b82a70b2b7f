"""Joins of streams whose left rows are the results of another one equal the two joins of tables."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from support.kinds import Spec, defined_rows
from support.streams import SIDES, arrange, in_time, picked
from support.tables import difference

FIRST = pa.schema({"k": pa.int8(), "t": pa.int64(), "n": pa.int64()})
SECOND = pa.schema({"k": pa.int8(), "t": pa.int64(), "v": pa.int64()})
THIRD = pa.schema({"k": pa.int8(), "t": pa.int64(), "w": pa.int64()})
EVERY_VALUE = 1_000  # a delay that exceeds all differences of the values

STEPS: list[Any] = [
    lambda how, _: jn.Asof(on="t", by="k", tolerance=6, how=how),
    lambda how, _: jn.Asof(on="t", by="k", direction="nearest", tolerance=4, how=how),
    lambda how, _: jn.Range(on="t", by="k", lower=-5, upper=3, how=how),
    lambda how, name: jn.Range(
        on="t", by="k", lower=-5, upper=3, how="left" if how in ("semi", "anti") else how, agg={name: ["max", "count"]}
    ),
    lambda how, _: jn.Equi(on="k", how=how, where="l.t - r.t BETWEEN -2 AND 4"),
    lambda how, _: jn.Where("l.k = r.k AND l.t >= r.t AND l.t <= r.t + 7", how=how),
]
HOWS = st.sampled_from(["inner", "left", "semi", "anti"])


def rows_of(schema: pa.Schema, chance: random.Random) -> pa.Table:
    count = chance.randint(0, 30)
    cells = {each.name: [chance.randint(0, 2 if each.name == "k" else 40) for _ in range(count)] for each in schema}
    return pa.table(cells, schema=schema)


def in_turn(tables: dict[str, pa.Table], chance: random.Random) -> Any:
    """Yield random pieces of the tables in random turn."""
    rest = {name: table for name, table in tables.items() if table.num_rows}
    while rest:
        name = chance.choice(sorted(rest))
        rows = chance.randint(1, 6)
        yield name, rest[name].slice(0, rows)
        rest[name] = rest[name].slice(rows)
        if not rest[name].num_rows:
            del rest[name]


class Chain:
    """A join whose results are the left rows of another one."""

    def __init__(self, specs: list[Spec], orders: dict[str, jn.Order], expression: str) -> None:
        self.first = jn.stream(FIRST, SECOND, specs[0], left_order=orders["left"], right_order=orders["right"])
        order = jn.Order(expression, delay=EVERY_VALUE, descending=orders["left"].descending)
        self.second = jn.stream(
            self.first.schema, THIRD, specs[1], left_order=order, right_order=orders["third"], late="error"
        )
        self.answer: list[pa.RecordBatch] = []

    def pass_on(self, results: list[pa.RecordBatch]) -> None:
        for batch in results:
            self.answer += self.second.push(left=batch)
        self.answer += self.second.advance(left=self.first.output_position())

    def close(self) -> pa.Table:
        for batch in self.first.close():
            self.answer += self.second.push(left=batch)
        self.answer += self.second.close()
        return pa.Table.from_batches(self.answer, self.second.schema)


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.tuples(st.sampled_from(STEPS), st.sampled_from(STEPS)),
    hows=st.tuples(HOWS, HOWS),
    falling=st.booleans(),
)
def test_a_chain_equals_the_joins_of_tables(seed, steps, hows, falling, tmp_path_factory):
    chance = random.Random(seed)
    specs = [step(how, name) for step, how, name in zip(steps, hows, "vw", strict=True)]
    orders, tables = {}, {}
    for name, schema in zip((*SIDES, "third"), (FIRST, SECOND, THIRD), strict=True):
        delay = chance.choice([0, 2, 5])
        orders[name] = jn.Order("t", delay=delay, descending=falling)
        side = "left" if name == "left" else "right"
        ordered = arrange(rows_of(schema, chance), side, orders[name], chance, disorder=delay)
        # The second join raises an error for late rows.
        tables[name] = picked(ordered, in_time(ordered, side, [orders[name]]))
    chain = Chain(specs, orders, "t")
    folder = tmp_path_factory.mktemp("state") if seed % 4 == 1 else None
    for name, piece in in_turn(tables, chance):
        if name == "third":
            chain.answer += chain.second.push(right=piece)
        else:
            chain.pass_on(chain.first.push(**{name: piece}))
        if folder is not None:
            chain.first.save(folder / "state")
            chain.first = jn.StreamJoin.restore(folder / "state")
    answer = chain.close()
    between = defined_rows(specs[0], tables["left"], tables["right"])
    problem = difference(answer, defined_rows(specs[1], between, tables["third"]), ordered=False)
    assert problem is None, problem


def test_results_leave_the_second_join_while_both_advance():
    order = jn.Order("t")
    spec = jn.Asof(on="t", by="k", tolerance=6)
    chain = Chain([spec, spec], dict.fromkeys((*SIDES, "third"), order), "t")
    for t in range(0, 500, 5):
        for name, schema in zip((*SIDES, "third"), (FIRST, SECOND, THIRD), strict=True):
            piece = pa.table([[1], [t], [t]], schema=schema)
            if name == "third":
                chain.answer += chain.second.push(right=piece)
            else:
                chain.pass_on(chain.first.push(**{name: piece}))
        assert chain.second.state.left.rows + chain.second.state.right.rows <= 6
    assert sum(batch.num_rows for batch in chain.answer) >= 97


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([7_000_000_001, 9_000_000_001], pa.timestamp("ns")), datetime(1970, 1, 1, 0, 0, 7)),
        (pa.array([7, 9], pa.timestamp("s", "UTC")), datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)),
        (pa.array([7, 9], pa.date32()), datetime(1970, 1, 8).date()),
        (pa.array([0.1, 2.5]), 0.1),
    ],
)
def test_positions_are_python_values_that_are_not_too_great(values, expected):
    schema = pa.schema({"t": values.type})
    delay = 0 if pa.types.is_floating(values.type) else timedelta(0)
    order = jn.Order("t", delay=delay)
    join = jn.stream(schema, schema, jn.Asof(on="t"), left_order=order, right_order=order)
    assert join.output_position() == [None]
    assert join.push(left=pa.table({"t": values})) == []
    assert join.output_position() == [expected]
    join.advance(left=join.output_position())
    join.end("left")
    assert join.output_position() == [expected]
    join.close()
    assert join.output_position() == [None]


def test_rows_without_a_left_row_have_no_position():
    order = jn.Order("t")
    join = jn.stream(FIRST, SECOND, jn.Asof(on="t", how="full"), left_order=order, right_order=order)
    with pytest.raises(jn.PlanError, match=r"how='full' also emits right rows alone"):
        join.output_position()
    assert "results in the order: none" in join.explain()
