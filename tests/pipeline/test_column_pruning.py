"""Columns that a pipeline reads: those that its sinks and checks come to need, and the same rows as with all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.pipeline.column_pruning import needed_columns

TRADES = pa.table(
    {"ts": [1, 5, 9, 9], "symbol": ["a", "b", "a", "b"], "amount": [10, 20, 30, 40], "note": ["w", "x", "y", "z"]}
)
QUOTES = pa.table(
    {"ts": [0, 4, 4, 8], "symbol": ["a", "b", "b", "a"], "bid": [1.0, 2.0, 3.0, 4.0], "note": ["k", "l", "m", "n"]}
)
SOURCES = """
[sources]
trades = { path = "trades.parquet" }
quotes = { path = "quotes.parquet" }
"""
JOINS = {
    "asof": 'join = "asof"\non = "ts"\nby = "symbol"\n',
    "tuple": 'join = "asof"\non = ["ts", "symbol"]\n',
    "range": 'join = "range"\non = "ts"\nlower = -3\nupper = 0\n',
    "equi": 'join = "equi"\non = "symbol"\n',
    "where": 'join = "where"\npredicate = "l.amount > r.bid * 10"\n',
}

ASKED = {
    ("equi", "ts, bid", ""): {"trades": ["ts", "symbol"], "quotes": ["symbol", "bid"]},
    # Its left namesake gives the right column its other name.
    ("equi", "ts_right", ""): {"trades": ["ts", "symbol"], "quotes": ["ts", "symbol"]},
    ("equi", "bid", "amount > 5 AND Note = 'y'"): {
        "trades": ["symbol", "amount", "note"],
        "quotes": ["symbol", "bid"],
    },
    ("equi", "*", ""): {},
    ("equi", "count(*) OVER () AS n", ""): {"trades": ["symbol"], "quotes": ["symbol"]},
    ("range", "amount, bid", ""): {"trades": ["ts", "amount"], "quotes": ["ts", "bid"]},
    ("where", "ts", ""): {"trades": ["ts", "amount"], "quotes": ["bid"]},
    # All right columns decide between rows of one time.
    ("asof", "amount, bid", ""): {"trades": ["ts", "symbol", "amount"]},
    ("tuple", "amount, bid", ""): {"trades": ["ts", "symbol", "amount"]},
}


def pipeline_of(folder: Path, join: str, select: str, condition: str = "", more: str = "") -> jn.Pipeline:
    filtered = f'filter = "{condition}"\n' if condition else ""
    text = (
        f'{SOURCES}[steps.joined]\nleft = "trades"\nright = "quotes"\n{JOINS[join]}{more}'
        f'[steps.shown]\nfrom = "joined"\n{filtered}select = {select.split(", ")}\n'
        '[sinks.out]\nfrom = "shown"\npath = "out.parquet"\nmode = "overwrite"\n'
    )
    (folder / "juncture.toml").write_text(text)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("asked")
    pq.write_table(TRADES, place / "trades.parquet")
    pq.write_table(QUOTES, place / "quotes.parquet")
    return place


def asked(pipeline: jn.Pipeline, wanted: str = "shown") -> Mapping[str, list[str]]:
    return needed_columns(pipeline.file, pipeline.check(), [wanted])


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_no_other_columns_are_read_than_those_needed(folder, case):
    assert asked(pipeline_of(folder, *case)) == ASKED[case]


def test_a_step_that_is_shown_whole_needs_all_columns(folder):
    assert asked(pipeline_of(folder, "equi", "ts"), "joined") == {}


def test_of_a_right_side_that_is_only_looked_up_the_keys_are_read(folder):
    found = asked(pipeline_of(folder, "asof", "amount", more='how = "semi"\n'))
    assert found == {"trades": ["ts", "symbol", "amount"], "quotes": ["ts", "symbol"]}


def test_what_a_check_looks_at_is_read(folder):
    pipeline = pipeline_of(folder, "equi", "bid")
    text = pipeline.path.read_text() + '[[checks]]\nfrom = "trades"\nunique = "note"\n'
    pipeline.path.write_text(text)
    found = asked(jn.Pipeline.from_toml(pipeline.path))
    assert found == {"trades": ["symbol", "note"], "quotes": ["symbol", "bid"]}


def test_columns_that_only_spark_knows_are_read_whole(folder):
    pipeline = pipeline_of(folder, "equi", "bid")
    schemas = {**pipeline.check(), "trades": None, "joined": None, "shown": None}
    assert needed_columns(pipeline.file, schemas, ["shown"]) == {}


COLUMNS = ["ts", "symbol", "amount", "note", "bid", "note_right"]


@given(
    join=st.sampled_from(sorted(JOINS)),
    how=st.sampled_from(["inner", "left", "right", "full"]),
    select=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True),
    condition=st.sampled_from(["", "amount > 15", "note_right <> 'k'", "bid + ts > 3"]),
)
def test_the_rows_are_those_of_all_columns(folder, join, how, select, condition):
    pipeline = pipeline_of(folder, join, ", ".join(select), condition, f'how = "{how}"\n')
    pipeline.run(force=True)
    expected = pipeline.step("shown")
    order = [(name, "ascending") for name in select]
    assert pq.read_table(folder / "out.parquet").sort_by(order) == expected.sort_by(order)
