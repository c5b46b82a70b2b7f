"""What type checkers and editors know of joins: what comes back for each library, and which arguments there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import juncture as jn
from juncture.joins import arguments

PROGRAM = """\
from typing import Any, assert_type

import pandas as pd
import polars as pl
import pyspark.sql

import juncture as jn


def known(frame: pd.DataFrame, table: pl.DataFrame, lazy: pl.LazyFrame, spark: pyspark.sql.DataFrame, other: Any):
    assert_type(jn.join_asof(frame, other, on="ts", by=["a", "b"], tolerance="5m"), pd.DataFrame)
    assert_type(jn.join_range(table, other, on="ts", lower=-5), pl.DataFrame)
    assert_type(jn.join_where(lazy, other, "l.a < r.b"), pl.LazyFrame)
    assert_type(jn.join(spark, "right.parquet", on="id"), pyspark.sql.DataFrame)
    intervals = jn.join_overlap(left=frame, right=other, left_interval=("a", "b"), right_interval=("a", None))
    assert_type(intervals, pd.DataFrame)
    assert_type(jn.join(other, other, on="id"), Any)


def wrong(frame: pd.DataFrame) -> None:
    jn.join_asof(frame, frame, on="ts", tolerence="5m")
    jn.join_range(frame, frame, on="ts", how="outer")
    jn.join_overlap(frame, frame, left_interval=("a", "b"))
    jn.join_where(frame, frame)
    jn.join(frame, frame, on=3)
"""
JOINS = {
    jn.join_asof: arguments.AsofArguments,
    jn.join_range: arguments.RangeArguments,
    jn.join_overlap: arguments.OverlapArguments,
    jn.join_where: arguments.WhereArguments,
    jn.join: arguments.EquiArguments,
}


def test_a_checker_knows_what_comes_back_and_finds_mistakes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    source = Path(jn.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}", "program.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(source)}
    )
    found = {int(line) for line in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    lines = PROGRAM.splitlines()
    wrong = lines.index("def wrong(frame: pd.DataFrame) -> None:") + 1
    assert found == set(range(wrong + 1, len(lines) + 1)), done.stdout + done.stderr


@pytest.mark.parametrize(("join", "typed"), JOINS.items())
def test_what_a_checker_knows_is_what_there_is(join: Callable[..., Any], typed: Any) -> None:
    there = {name: each for name, each in signature(join).parameters.items() if each.kind is Parameter.KEYWORD_ONLY}
    wanted = {
        name: f"Required[{each.annotation}]" if each.default is Parameter.empty else each.annotation
        for name, each in there.items()
    }
    assert {name: each.__forward_arg__ for name, each in typed.__annotations__.items()} == wanted
