"""Plans as values: shown in short, pickled for another process, and copied."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import PlanError

LEFT = pa.table({"ts": [1, 2, 3, 5], "end": [2, 3, 4, 9], "k": ["a", "a", "b", None]})
RIGHT = pa.table({"ts": [2, 2, 3, 4], "end": [3, 3, 5, 4], "k": ["a", "b", "b", "a"], "v": [1.5, 2.5, 3.5, 4.5]})
SPECS = {
    "asof": jn.Asof(on="ts", by="k", tolerance=2),
    "range": jn.Range(on="ts", lower=-1, upper=0, agg={"v": ["mean", "count"]}),
    "overlap": jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end")),
    "where": jn.Where("l.k <=> r.k AND l.ts BETWEEN r.ts - 1 AND r.ts + 1 AND NOT (l.end = 2 AND r.v IN (3.5, 7))"),
    "equi": jn.Equi(on="k", where="l.ts < r.v"),
}

EXECUTE = """
import pickle, sys
plans = pickle.load(sys.stdin.buffer)
pickle.dump([(repr(plan), plan.explain(), plan.execute()) for plan in plans], sys.stdout.buffer)
"""


def forms(table: pa.Table, folder: Path) -> list[Any]:
    """Return a table as each kind of input that can be read again."""
    folder.mkdir()
    paths = [folder / f"{number}.parquet" for number in range(2)]
    for path, rows in zip(paths, (table.slice(0, 2), table.slice(2)), strict=True):
        pq.write_table(rows, path)
    frame = pl.from_arrow(table)
    return [table, str(folder), paths, table.to_pandas(), frame, frame.lazy(), duckdb.from_arrow(table)]


def is_equal(one: Any, other: Any) -> bool:
    """Tell whether two results are of one type and have the same rows; a relation stays where its connection is."""
    if isinstance(other, duckdb.DuckDBPyRelation):
        other = other.to_arrow_table()
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    if isinstance(one, pl.LazyFrame):
        one, other = one.collect(), other.collect()
    return bool(one.equals(other))


def test_a_pickled_plan_gives_the_same_rows_in_another_process(tmp_path):
    plans = [
        jn.plan(left, right, spec)
        for kind, spec in SPECS.items()
        for left, right in zip(forms(LEFT, tmp_path / f"l-{kind}"), forms(RIGHT, tmp_path / f"r-{kind}"), strict=True)
    ]
    process = subprocess.run(
        [sys.executable, "-c", EXECUTE], input=pickle.dumps(plans), capture_output=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr.decode()
    answers = pickle.loads(process.stdout)
    assert len(answers) == len(plans)
    for plan, (shown, explained, result) in zip(plans, answers, strict=True):
        assert (shown, explained) == (repr(plan), plan.explain())
        assert is_equal(result, plan.execute())


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_plan_gives_the_same_rows(kind, duplicate):
    plan = jn.plan(LEFT, RIGHT, SPECS[kind])
    other = duplicate(plan)
    assert repr(other) == repr(plan)
    assert other.execute().equals(plan.execute())
    assert other.analyze(keep=True).result.equals(plan.execute())


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_a_plan_of_a_stream_cannot_leave(side, duplicate):
    tables = {"left": LEFT, "right": RIGHT, side: (LEFT if side == "left" else RIGHT).to_reader()}
    plan = jn.plan(tables["left"], tables["right"], SPECS["asof"])
    with pytest.raises(PlanError, match=f"cannot be pickled or copied, since the {side} table is a reader.*read_all"):
        duplicate(plan)
    # Nothing has been taken from the stream.
    assert plan.execute().num_rows == LEFT.num_rows


@pytest.mark.parametrize("kind", SPECS)
def test_a_plan_is_shown_in_a_few_lines(kind):
    plan = jn.plan(LEFT, RIGHT, SPECS[kind])
    first, *others = repr(plan).splitlines()
    assert first == f"{plan.explain().splitlines()[0]} by {plan.algorithm}: {plan.choice.reason}"
    headings = [line.split()[0] for line in others]
    assert headings == ["left", "right", "output"]
    assert "4 rows, about" in others[0] and "4 rows, about" in others[1]


def test_what_is_not_known_is_shown_as_such():
    plan = jn.plan(LEFT.to_reader(), RIGHT, jn.Where("l.k < r.k"))
    assert repr(plan).splitlines()[1:] == [
        "  left    not counted",
        f"  right   4 rows, about {plan.stats.right.bytes} B",
        "  output  unknown",
    ]


def test_an_analysis_is_shown_as_what_it_found():
    analysis = jn.plan(LEFT, RIGHT, SPECS["asof"]).analyze()
    assert repr(analysis) == str(analysis) == analysis.explain()
