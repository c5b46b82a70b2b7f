"""Sides of streams on Spark that fall silent: heartbeats, as docs/operations/streams.md has them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import juncture as jn
from support.streaming import read_stream, run, write_files
from support.tables import difference

ROWS = pa.table({"k": ["a", "b", "a"], "a": [1, 5, 9], "n": [0, 1, 2]})
BEAT = pa.table({"k": ["heartbeat"], "a": [1_000]})


@pytest.mark.in_turn
def test_a_side_that_never_had_data(hosting, tmp_path):
    parts = {"left": [ROWS.slice(0, 2), ROWS.slice(2)], "right": [ROWS.slice(0, 0)]}
    for side, tables in parts.items():
        write_files(tables, tmp_path / side)
        write_files([BEAT.slice(0, 0)], tmp_path / f"{side}-beats")

    def joined():
        sides = [
            read_stream(hosting, tmp_path / side).unionByName(
                read_stream(hosting, tmp_path / f"{side}-beats"), allowMissingColumns=True
            )
            for side in parts
        ]
        orders = {f"{side}_order": jn.Order("a", delay=2) for side in parts}
        return jn.stream(*sides, jn.Range(on="a", by="k", lower=-2, upper=2, how="full"), **orders)

    assert run(joined(), tmp_path).answer.num_rows == 0
    for side in parts:
        write_files([BEAT], tmp_path / f"{side}-beats")
    answer = run(joined(), tmp_path).answer
    tables = [pa.concat_tables(each) for each in parts.values()]
    expected = jn.join_range(*tables, on="a", by="k", lower=-2, upper=2, how="full")
    answer = answer.filter(pc.not_equal(answer["k"], "heartbeat"))
    problem = difference(answer, expected, ordered=False)
    assert problem is None, problem
