"""A case of views as a script to paste, which fails as the case does."""

from __future__ import annotations

import inspect

from fuzz.kind import Outcome
from fuzz.text import changing_text
from fuzz.views.cases import ViewCase
from fuzz.views.judge import same_type

__all__ = ["script"]

_HEAD = """\
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.types as pat

import juncture as jn

nan, inf = float("nan"), float("inf")
connection = duckdb.connect()
"""

_FOLLOW = """\
def text(value):
    return f"{{value + 0.0:.9g}}" if isinstance(value, float) else str(value)


def rows_of(table):
    return sorted(map(str, zip(*([text(value) for value in column.to_pylist()] for column in table.columns))))


view = jn.view(None, query, sources={{name: pool.schema for name, pool in pools.items()}})
there = {{name: Counter() for name in pools}}
for epoch in range({epochs}):
    changes = {{}}
    for name, pool in pools.items():
        changed = [row for row, _ in epochs[name][epoch]]
        weights = pa.array([weight for _, weight in epochs[name][epoch]], pa.int64())
        changes[name] = pool.take(changed).append_column("_weight", weights)
        for row, weight in epochs[name][epoch]:
            there[name][row] += weight
        connection.register("rows_now", pool.take(sorted(there[name].elements())))
        connection.execute(f"CREATE OR REPLACE TABLE {{name}} AS SELECT * FROM rows_now").fetchall()
    try:
        expected = connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        expected = error
    try:
        {apply}
    except jn.JunctureError:
        assert not isinstance(expected, pa.Table), "DuckDB has an answer"
        break
    result = view.result()
    assert isinstance(expected, pa.Table), f"DuckDB raises {{expected}} and the view has {{rows_of(result)}}"
    assert rows_of(result) == rows_of(expected), f"{{rows_of(result)}} and should be {{rows_of(expected)}}"
    types = list(zip(result.schema.types, expected.schema.types))
    assert all(same_type(*pair) for pair in types), types
"""


def script(case: ViewCase, outcome: Outcome | None = None) -> str:
    """Return the text of a script that follows a view, and asserts that its rows are DuckDB's."""
    apply = "view.apply(**changes)"
    follow = _FOLLOW.format(
        epochs=case.epochs,
        apply="view.apply(**changes) if epoch else view.populate(**changes)" if case.populates else apply,
    )
    parts = [_HEAD, inspect.getsource(same_type), changing_text(case.tables), f"query = {str(case.query)!r}\n", follow]
    return "\n".join(parts)
