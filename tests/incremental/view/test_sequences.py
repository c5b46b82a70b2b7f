"""Each operator equals DuckDB after every sequence of three inserts, updates and deletes over tables of few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from support.viewing import database

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int64(), "t": pa.string()})

VERSIONS: dict[tuple[str, int], list[tuple[Any, ...]]] = {
    ("a", 0): [(1, 1, "a"), (None, 2, "b")],
    ("a", 1): [(1, 2, "a"), (2, 1, None)],
    ("b", 0): [(1, 1, "a"), (None, 1, "b")],
}
"""The rows of the tables, and two versions of each. A row that is absent, in a version, or in the other one is changed
to either of the others by an insert, an update or a delete.
"""

OF_ONE = {
    "filter and project": "SELECT x + 1, t || 'b' FROM a WHERE x > 1 OR k IS NULL",
    "by DuckDB": "SELECT md5(t), x FROM a WHERE x << 1 > 2",
    "group": "SELECT k, count(*), sum(x)::BIGINT, min(t), max(x), avg(x), count(DISTINCT t) FROM a GROUP BY k",
    "one group": "SELECT count(*), sum(x)::BIGINT, max(t), sum(DISTINCT x)::BIGINT FROM a",
    "groups by DuckDB": "SELECT k, median(x), string_agg(t, ',' ORDER BY x) FROM a GROUP BY k",
    "one group by DuckDB": "SELECT median(x), bool_or(x > 1), list(t ORDER BY x, t) FROM a",
    "deviations and truths": "SELECT k, var_pop(x), bool_and(x > 1), count_if(x > 1)::BIGINT FROM a GROUP BY k",
    "values of extremes": "SELECT k, arg_max(t, x), first(t ORDER BY x DESC) FROM a GROUP BY k",
    "running values": "SELECT (sum(x) OVER w)::BIGINT, min(t) OVER w FROM a WINDOW w AS (ORDER BY x, k)",
    "rollup": "SELECT k, t, count(*), grouping(t) FROM a GROUP BY ROLLUP (k, t) HAVING count(*) > 0",
    "having": "SELECT k FROM a GROUP BY k HAVING count(*) > 1",
    "distinct": "SELECT DISTINCT k FROM a",
    "distinct on": "SELECT DISTINCT ON (t) t, x FROM a ORDER BY t, x DESC",
    "first rows": "SELECT k, x FROM a ORDER BY x, k LIMIT 1",
    "later rows": "SELECT k, x FROM a ORDER BY x, k LIMIT 1 OFFSET 1",
    "row numbers": "SELECT x, row_number() OVER (PARTITION BY k ORDER BY x) FROM a",
    "ranks": "SELECT x, rank() OVER (ORDER BY k), lag(t) OVER (ORDER BY x, k) FROM a",
    "frames": "SELECT x, max(x) OVER (ORDER BY x, k ROWS 1 PRECEDING), count(*) OVER (PARTITION BY t) FROM a",
    "qualify": "SELECT k, x FROM a QUALIFY rank() OVER (PARTITION BY t ORDER BY x DESC) = 1",
    "unnest": "SELECT k, unnest([x, k]) FROM a",
    "self join": "SELECT one.x, other.t FROM a AS one JOIN a AS other ON one.k = other.x",
}
OF_TWO = {
    "join": "SELECT a.x, b.t FROM a JOIN b ON a.k = b.k",
    "join by order": "SELECT a.x, b.x FROM a JOIN b ON a.x <= b.x",
    "join of keys and order": "SELECT a.x, b.x FROM a JOIN b ON a.t = b.t AND a.x > b.x",
    "cross join": "SELECT a.x, b.t FROM a, b",
    "left join": "SELECT a.x, b.t FROM a LEFT JOIN b ON a.k = b.k",
    "right join": "SELECT a.x, b.t FROM a RIGHT JOIN b ON a.k = b.k",
    "full join": "SELECT a.x, b.t FROM a FULL JOIN b ON a.k = b.k AND a.x < 2",
    "full join by both": "SELECT a.x, b.t FROM a FULL JOIN b ON a.k + b.x > 2",
    "as-of join": "SELECT a.x, b.t FROM a ASOF JOIN b ON a.t = b.t AND a.x >= b.x",
    "as-of left join": "SELECT a.x, b.t FROM a ASOF LEFT JOIN b ON a.t = b.t AND a.x > b.x",
    "semi join": "SELECT x FROM a SEMI JOIN b ON a.k = b.k",
    "anti join": "SELECT x FROM a ANTI JOIN b ON a.k = b.k",
    "in": "SELECT x, k IN (SELECT k FROM b) FROM a",
    "not in": "SELECT x FROM a WHERE k NOT IN (SELECT k FROM b)",
    "exists": "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x < a.x)",
    "all": "SELECT x, x > ALL (SELECT k FROM b) FROM a",
    "scalar": "SELECT x, (SELECT max(t) FROM b WHERE b.k = a.k) FROM a",
    "lateral": "SELECT a.x, s.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.x <> a.x) AS s",
    "union": "SELECT k FROM a UNION SELECT k FROM b",
    "union all": "SELECT k FROM a UNION ALL SELECT x FROM b",
    "intersect": "SELECT k FROM a INTERSECT SELECT k FROM b",
    "intersect all": "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
    "except": "SELECT k FROM a EXCEPT SELECT k FROM b",
    "except all": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
}
QUERIES = OF_ONE | OF_TWO


def every_window(count: int, length: int) -> Iterator[int]:
    """Yield a sequence of numbers that has every sequence of a length within it (de Bruijn)."""
    word = [0] * count * length

    def visit(place: int, period: int) -> Iterator[int]:
        if place > length:
            if length % period == 0:
                yield from word[1 : period + 1]
            return
        word[place] = word[place - period]
        yield from visit(place + 1, period)
        for number in range(word[place - period] + 1, count):
            word[place] = number
            yield from visit(place + 1, place)

    numbers = list(visit(1, 1))
    yield from [*numbers, *numbers[: length - 1]]


def tabled(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def rows_of(table: pa.Table) -> list[str]:
    return list(map(str, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def add(answer: Counter[str], batches: Sequence[pa.RecordBatch]) -> None:
    """Add changes of a result to it."""
    for batch in batches:
        *columns, weights = batch.columns
        for row, weight in zip(rows_of(pa.table(columns, batch.schema.names[:-1])), weights.to_pylist(), strict=True):
            answer[row] += weight


@pytest.mark.parametrize("name", QUERIES)
def test_every_sequence_of_changes(name):
    rows = {place: each for place, each in VERSIONS.items() if place[0] == "a" or name in OF_TWO}
    # A change turns a row into its next version, or the one after that: an insert, an update or a delete.
    changes = [(place, step) for place in rows for step in (1, 2)]
    names = dict.fromkeys(table for table, _ in rows)
    view = jn.view(None, QUERIES[name], sources=dict.fromkeys(names, SCHEMA))
    state, expected, answer = dict.fromkeys(rows, 0), {}, Counter[str]()
    connection = database().cursor()
    add(answer, view.apply())
    for number in every_window(len(changes), 3):
        place, step = changes[number]
        old, state[place] = state[place], (state[place] + step) % 3
        versions = [None, *rows[place]]
        change = [(versions[version], weight) for version, weight in ((old, -1), (state[place], 1)) if version]
        weights = pa.array([weight for _, weight in change])
        given = view.apply(**{place[0]: tabled([row for row, _ in change]).append_column("_weight", weights)})
        add(answer, given)
        key = tuple(state.values())
        if key not in expected:
            for table in names:
                there = [rows[each][version - 1] for each, version in state.items() if version and each[0] == table]
                connection.register(table, tabled(there))
            expected[key] = Counter(rows_of(connection.sql(QUERIES[name]).to_arrow_table()))
        assert Counter(rows_of(view.result())) == expected[key], key
        assert {row: count for row, count in answer.items() if count} == dict(expected[key]), key
