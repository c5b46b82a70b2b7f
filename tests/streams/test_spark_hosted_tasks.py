"""The tasks of hosted joins, without Spark: over all micro-batches, the join of all rows that came in time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, JunctureError
from juncture.streams.order import SideOrder
from juncture.streams.setup import Setup
from strategies import examples
from support.hosting import Host
from support.kinds import defined_rows
from support.streaming import cut
from support.streams import SIDES, arrange, order_values, picked
from support.tables import difference

ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)

EXAMPLES = {
    "asof": examples(spark=True),
    **{kind: near_examples(kind, spark=True) for kind in ("range", "overlap", "where", "equi")},
    **{f"{kind}, aggregated": near_examples(kind, agg=True, spark=True) for kind in ("range", "overlap")},
}


def an_order(rows: pa.Table, side: str, chance: random.Random) -> jn.Order | None:
    """Return an order by one of the columns that can have one."""
    names = [each.name for each in rows.schema if any(test(each.type) for test in ORDERED)]
    if not names:
        return None
    order = jn.Order(chance.choice(names), descending=chance.random() < 0.3)
    try:
        SideOrder.of(order, side, rows.schema)
    except JunctureError:
        return None
    return order


def in_time(pieces: list[pa.Table], side: str, order: jn.Order | None) -> pa.Table:
    """Return the rows that are not behind those of earlier micro-batches."""
    if order is None:
        return pa.concat_tables(pieces)
    kept, best = [], None
    for piece in pieces:
        found = order_values(piece, side, order.expression)
        late = [
            value is not None and best is not None and (value > best if order.descending else value < best)
            for value in found
        ]
        kept.append(picked(piece, [not each for each in late]))
        known = [value for value in [*found, best] if value is not None]
        best = (min if order.descending else max)(known, default=None)
    return pa.concat_tables(kept)


@pytest.mark.parametrize("kind", EXAMPLES)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_the_join_of_all_rows_in_time(kind, data, seed):
    example = data.draw(EXAMPLES[kind])
    chance = random.Random(seed)
    tables, orders = [], []
    try:
        for side, rows in zip(SIDES, (example.left, example.right), strict=True):
            order = an_order(rows, side, chance)
            orders.append(order)
            tables.append(arrange(rows, side, order, chance, disorder=chance.choice([0, 3])) if order else rows)
        given_orders = [() if order is None else (order,) for order in orders]
        setup = Setup(example.spec, *(table.schema for table in tables), *given_orders, True, "count")
        pieces = [cut(table, chance, 3) for table in tables]
        host = Host(setup, chance.choice([1, 3]), chance)
        answer = [each for left, right in zip(*pieces, strict=True) for each in host.step(left=left, right=right)]
        answer += [pa.Table.from_batches([batch]) for batch in host.close()]
    except DataError as error:
        assume("64 bits" not in str(error) and "no place in it" not in " ".join(str(error).split()))
        refused = "tie" in str(error)
        if not refused:
            raise
        answer = None
    kept = [in_time(*each) for each in zip(pieces, SIDES, orders, strict=True)]
    try:
        wanted = defined_rows(example.spec, *kept)
    except DataError:
        assert answer is None
        return
    assert answer is not None
    schema = example.spec.resolve(*setup_schemas(setup)).given_back(*setup_schemas(setup))
    problem = difference(pa.concat_tables([schema.empty_table(), *answer]), wanted, ordered=False)
    assert problem is None, problem
    late = sum(table.num_rows for table in tables) - sum(table.num_rows for table in kept)
    assert sum(each["left_late_rows"] + each["right_late_rows"] for each in host.metrics) == late


def setup_schemas(setup: Setup) -> tuple[pa.Schema, pa.Schema]:
    return setup.left_schema, setup.right_schema
