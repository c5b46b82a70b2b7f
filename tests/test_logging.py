"""What joins log: what was chosen and why, what was spilled and where, and the steps."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.local import kinds
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.runtime.spill import SpillFolder
from juncture.spark.tasks import engine

TABLE = pa.table({"ts": [1, 2, 3], "end": [2, 3, 4]})
SPECS = {
    "asof": jn.Asof(on="ts"),
    "range": jn.Range(on="ts", lower=-1, upper=0),
    "overlap": jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end"), closed="both"),
    "where": jn.Where("l.ts < r.end"),
    "equi": jn.Equi(on="ts"),
}
ROWS = 1_000_000
WIDE = pa.table({"ts": pa.array(range(ROWS), pa.int64()), "a": pa.array(range(ROWS), pa.int64())})


@pytest.fixture
def lines(caplog) -> Any:
    """Return what was logged at a level, by loggers' names."""
    caplog.set_level(logging.DEBUG, "juncture")

    def logged(level: str) -> list[tuple[str, str]]:
        return [(record.name, record.getMessage()) for record in caplog.records if record.levelname == level]

    return logged


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("run", ["execute", "analyze", "batches"])
def test_a_plan_that_is_run_says_in_one_line_what_was_chosen_and_why(lines, kind, run):
    plan = jn.plan(TABLE, TABLE, SPECS[kind])
    assert lines("INFO") == []
    getattr(plan, run)()
    [(name, line)] = lines("INFO")
    assert name == "juncture.planner.plan"
    shown = repr(plan).splitlines()
    assert line == "; ".join(re.sub(r" +", " ", part.strip()) for part in shown)
    assert plan.choice.reason in line


@pytest.mark.parametrize(
    ("kind", "algorithm", "step"),
    [
        ("asof", "probe", "The left side does not fit: it is joined in pieces of "),
        ("range", "auto", "Sorting by way of the disk: rows are cut into about "),
        ("equi", "grace", "Neither side fits: rows are cut into "),
    ],
)
def test_what_is_spilled_where_and_how_much(lines, scratch, kind, algorithm, step):
    spec = jn.Range(on="ts", lower=0, upper=0) if kind == "range" else SPECS[kind]
    plan = jn.plan(WIDE, WIDE, spec, memory="64MB", algorithm=algorithm)
    assert sum(batch.num_rows for batch in plan.batches()) == ROWS
    _, begun, ended = lines("INFO")
    assert begun[0] == ended[0] == "juncture.runtime.spill"
    folder = re.fullmatch(r"Spilling rows that exceed the memory to (\S+)", begun[1])
    assert folder is not None and folder[1].startswith(str(scratch))
    assert re.fullmatch(rf"Spilled [\d.]+ MB to {folder[1]}, which was removed", ended[1])
    assert any(line.startswith(step) for _, line in lines("DEBUG"))


def test_a_folder_that_was_not_needed_is_not_spoken_of(lines):
    with SpillFolder():
        pass
    jn.join(TABLE, TABLE, on="ts")
    assert not any(name == "juncture.runtime.spill" for name, _ in lines("INFO"))


def test_another_algorithm_than_planned_is_spoken_of(lines):
    stats = jn.Stats(left=jn.SideStats(rows=10, row_bytes=16), right=jn.SideStats(rows=10, row_bytes=16))
    left, right = (pa.RecordBatchReader.from_batches(WIDE.schema, WIDE.to_batches()) for _ in range(2))
    plan = jn.plan(left, right, jn.Equi(on="ts"), algorithm="hash", stats=stats, memory="64MB")
    assert sum(batch.num_rows for batch in plan.batches()) == ROWS
    said = [line for name, line in lines("INFO") if name == "juncture.local.plan"]
    assert len(said) == 1
    assert re.fullmatch("What came is too large for hash: joining by [a-z_]+", said[0])


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([0, 10**30, 10**30 + 1], pa.decimal128(38, 0)), "do not fit 64 bits"),
        # More than fit in an eighth of the memory.
        (pa.array([7] * 100_000, pa.int64()), "many right rows tie"),
    ],
)
def test_a_search_that_starts_again_says_why(lines, values, why):
    right = pa.table({"ts": values, "v": range(len(values))})
    jn.join_asof(right.select(["ts"]), right, on="ts", algorithm="probe", memory="64MB")
    said = lines("DEBUG")
    again = [line for name, line in said if name == "juncture.local.asof.search" and line.startswith("Starting again")]
    assert any(why in line for line in again)
    phases = [line for name, line in said if name == "juncture.runtime.progress"]
    assert any(re.fullmatch(r"Phase right took [\d.]+ s", line) for line in phases)


def test_tasks_on_spark_say_what_they_join(lines):
    with join_context(threads=1) as context:
        join = SPECS["asof"].resolve(TABLE.schema, TABLE.schema)
        list(engine.execute(join, TableSource(TABLE), TableSource(TABLE), context))
    said = [line for name, line in lines("DEBUG") if name == kinds.__name__]
    assert len(said) == 1
    assert said[0].startswith("Join of 3 left and 3 right rows by ")


def test_nothing_is_printed_unless_asked_for(tmp_path):
    program = (
        "import juncture as jn, pyarrow as pa\n"
        "table = pa.table({'ts': range(1_000_000), 'a': range(1_000_000)})\n"
        "plan = jn.plan(table, table, jn.Asof(on='ts'), memory='64MB')\n"
        "assert sum(batch.num_rows for batch in plan.batches()) == 1_000_000\n"
        "import logging\n"
        "logging.getLogger('juncture').warning('nobody asked for this')\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert process.stdout == process.stderr == ""
