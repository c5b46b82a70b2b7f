"""Range, overlap and predicate joins in-process take tables in any form, and give the left one's type back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn
from support.inputs import FORMS, pass_as
from support.kinds import Spec, defined_rows
from support.tables import difference, read_table

LEFT = read_table("ts: int64 | until: int64 | k: string\n2 | 5 | a\n5 | 90 | a\n8 | 9 | b\n40 | 41 | a\n41 | 43 | c")
RIGHT = read_table(
    "at: int64 | end: int64 | k: string | v: float64\n"
    "1 | 3 | a | 10.0\n4 | 70 | a | 20.0\n8 | 8 | b | 30.0\n39 | 44 | a | 2.0\n80 | 81 | a | 3.0"
)
SPECS = {
    "range": jn.Range(left_on="ts", right_on="at", by="k", lower=-3, upper=1),
    "aggregates": jn.Range(left_on="ts", right_on="at", by="k", lower=-3, upper=1, agg={"v": ["sum", "last"]}),
    "overlap": jn.Overlap(left_interval=("ts", "until"), right_interval=("at", "end"), by="k"),
    "where": jn.Where("l.ts - 3 <= r.at AND r.at <= l.ts + 1 AND l.k = r.k", how="left"),
}


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> Spec:
    return SPECS[request.param]


@pytest.mark.parametrize("form", FORMS)
def test_every_form(tmp_path, spec, form):
    left, right = (pass_as(form, table, tmp_path / side, random.Random(7)) for side, table in sides())
    answer = jn.plan(left, right, spec).execute()
    assert difference(answer, defined_rows(spec, LEFT, RIGHT), ordered=True) is None


def sides() -> list[tuple[str, pa.Table]]:
    return [("left", LEFT), ("right", RIGHT)]


FOREIGN: list[tuple[Callable[[pa.Table], Any], type]] = [
    (pa.Table.to_pandas, pd.DataFrame),
    (pl.from_arrow, pl.DataFrame),
    (lambda table: pl.from_arrow(table).lazy(), pl.LazyFrame),
    (duckdb.from_arrow, duckdb.DuckDBPyRelation),
]


@pytest.mark.parametrize(("convert", "result_type"), FOREIGN, ids=["pandas", "polars", "lazy polars", "duckdb"])
def test_tables_of_other_libraries(spec, convert, result_type):
    expected = defined_rows(spec, LEFT, RIGHT)
    for right in (convert(RIGHT), RIGHT):
        answer = jn.plan(convert(LEFT), right, spec).execute()
        assert type(answer) is result_type
        answer = pa.table(answer.collect() if isinstance(answer, pl.LazyFrame) else answer)
        # pandas has no nulls among integers, and Polars another kind of strings.
        assert difference(answer.cast(expected.schema), expected, ordered=True) is None
    assert type(jn.plan(LEFT, convert(RIGHT), spec).execute()) is pa.Table


def test_batches_as_they_come(spec):
    batches = list(jn.plan(LEFT, RIGHT, spec).batches())
    assert difference(pa.Table.from_batches(batches), defined_rows(spec, LEFT, RIGHT), ordered=True) is None


def test_a_stream_is_read_once(spec):
    plan = jn.plan(LEFT.to_reader(), RIGHT.to_reader(), spec)
    assert plan.execute().num_rows == defined_rows(spec, LEFT, RIGHT).num_rows
    with pytest.raises(jn.PlanError, match="The left table is a reader that an earlier execute"):
        plan.execute()
