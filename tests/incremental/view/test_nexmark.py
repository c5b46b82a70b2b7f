"""The queries of Nexmark equal those of DuckDB while events arrive, and while some are deleted again."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.incremental.state.policy import MemoryPolicy
from support.state import view_in

NEXMARK = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "nexmark.py"))
QUERIES = NEXMARK["QUERIES"]
LEAST_BYTES = 1 << 15
"""Memory for what is not on disk, such as keys."""


def test_all_queries_are_there():
    assert set(QUERIES) == {f"q{number}" for number in range(23)}


def counted(table: pa.Table) -> Counter[tuple[str, ...]]:
    """Return the rows as text, since sums of integers are decimals in DuckDB."""
    return Counter(tuple(map(str, row.values())) for row in table.to_pylist())


@pytest.fixture(scope="module")
def epochs():
    """Six epochs of 400 events at a low rate, so that windows of seconds and sessions end."""
    return list(NEXMARK["epochs"](2_400, 400, 20))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_equals_duckdb_in_memory_and_in_a_folder(query, epochs, tmp_path):
    sql = QUERIES[query]
    sources = NEXMARK["sources_of"](sql)
    connection, random = duckdb.connect(), np.random.default_rng(1)
    rows = {name: epochs[0][name].schema.empty_table() for name in sources}
    stored = None
    with jn.view(None, sql, sources=sources) as view:
        for number, epoch in enumerate(epochs):
            changes = {}
            for name, each in NEXMARK["changes_of"](epoch, sources).items():
                is_deleted = random.random(rows[name].num_rows) < 0.05
                deleted = rows[name].filter(pa.array(is_deleted))
                rows[name] = pa.concat_tables([rows[name].filter(pa.array(~is_deleted)), each])
                weights = pa.array([-1] * deleted.num_rows + [1] * each.num_rows, pa.int64())
                changes[name] = pa.concat_tables([deleted, each]).append_column("_weight", weights)
            view.apply(**changes)
            if number % 2 == 0:
                # Opened again, with a quarter of the memory that the rows take by now.
                if stored is not None:
                    stored.close()
                stored = view_in(
                    tmp_path / "state", sql, sources=sources, policy=MemoryPolicy.of(max(view.nbytes // 4, LEAST_BYTES))
                )
            stored.apply(**changes)
            for name, table in rows.items():
                connection.register(name, table)
            expected = connection.sql(sql).to_arrow_table()
            assert counted(view.result()) == counted(expected)
            assert counted(stored.result()) == counted(expected)
        assert expected.num_rows
        stored.close()
