"""Killed at each stage of an epoch, the follower goes on, and the sink has what the query gives: nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import juncture
from support.follower_process import STAGES
from support.shop import EXPECTED, Database, change_shop, filled_shop

LAST = "INSERT INTO sales VALUES (0, 1, 1, 'the last')"
ANSWER = "SELECT id, name, id_right, price, note FROM answer"
WRONG = f"SELECT count(*) FROM (({EXPECTED}) EXCEPT ALL {ANSWER} UNION ALL ({ANSWER} EXCEPT ALL ({EXPECTED}))) d"

Live = Callable[[str | None], subprocess.Popen[str]]


@pytest.fixture
def begin(database: Database, tmp_path: Path) -> Iterator[Callable[..., Callable[[], int]]]:
    """Begin a life of a follower; what it gives waits for its end, and returns how it ended."""
    paths = [str(Path(juncture.__file__).parents[1]), str(Path(__file__).parents[2])]
    process = subprocess.Popen(
        [sys.executable, "-m", "support.follower_process"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def begin(stage: str | None, *, is_apart: bool = False) -> Callable[[], int]:
        life = {"dsn": database.dsn, "folder": str(tmp_path), "stage": stage, "is_apart": is_apart}
        process.stdin.write(json.dumps(life) + "\n")
        process.stdin.flush()
        return lambda: int(process.stdout.readline())

    with process:
        yield begin
        process.stdin.close()


@pytest.mark.parametrize(
    ("customers", "sales", "transactions", "changes"),
    [(500, 20_000, 20, 10), pytest.param(50_000, 1_000_000, 200, 100, marks=pytest.mark.nightly)],
)
def test_killed_at_every_stage(database, begin, customers, sales, transactions, changes):
    filled_shop(database, customers, sales)
    stages = [*STAGES, "the state is written"]
    for seed, stage in enumerate(stages):
        ended = begin(stage)
        change_shop(database, seed, transactions, changes)
        assert ended() == -signal.SIGKILL, stage
    database.run(LAST)
    assert begin(None)() == 0
    assert database.rows(WRONG) == [(0,)]
    assert database.rows("SELECT count(*) > 1000 FROM answer") == [(True,)]


@pytest.mark.parametrize("is_apart", [False, True])
def test_the_control_an_offset_that_is_written_apart(database, begin, is_apart):
    filled_shop(database)
    assert begin("the state is populated", is_apart=is_apart)() == -signal.SIGKILL
    ended = begin("the state is written", is_apart=is_apart)
    database.run("INSERT INTO sales VALUES (100000, 1, 1, 'once')")
    assert ended() == -signal.SIGKILL
    database.run(LAST)
    is_right = begin(None, is_apart=is_apart)() == 0 and database.rows(WRONG) == [(0,)]
    assert is_right is not is_apart
