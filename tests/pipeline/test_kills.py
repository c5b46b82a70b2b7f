"""`juncture run --changes` and `juncture view` are killed, and run out of disk space, while their sources continue.

Whatever is started again goes on where it was: nothing is lost or doubled.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.test_changes import PIPELINE, SUMS, sinks_of, write_pipeline, write_tables
from support.change_streams import LEFT, RIGHT, epochs, summed
from support.command_process import Commands

LIVES = 4, 200
"""How often a command is started before the last time: in each run of the tests, and in a nightly one."""
FILES = 20
"""How many batches of changes come before each start of a view."""


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    made = Commands()
    yield made
    made.close()


@pytest.fixture
def lives(request) -> int:
    return LIVES[request.config.getoption("--all")]


class Orders:
    """The tables of a pipeline, of which rows come and go in files of their own."""

    def __init__(self, folder: Path, chance: random.Random, files: int) -> None:
        self._folder, self.files = folder, 0
        self._made = {name: epochs(schema, chance, files) for name, schema in (("orders", LEFT), ("rates", RIGHT))}
        for name, (changes, _) in self._made.items():
            (folder / "changes" / name).mkdir(parents=True)
            # So that there is a schema before anything has come.
            pq.write_table(changes[0].slice(0, 0), folder / "changes" / name / "000000.parquet")
        write_tables(folder, {name: tables[0].slice(0, 0) for name, (_, tables) in self._made.items()})

    def change(self, most: int | None = None) -> None:
        """Write the next file of each table, as sources do while a pipeline runs, unless there are enough."""
        if self.files == most:
            return
        for name, (changes, _) in self._made.items():
            path = self._folder / "changes" / name / f"{self.files + 1:06}.parquet"
            pq.write_table(changes[self.files], path.with_name(f"_{path.name}"))
            path.with_name(f"_{path.name}").rename(path)
        self.files += 1

    def write_tables(self) -> None:
        """Write the tables after all of these changes."""
        write_tables(self._folder, {name: tables[self.files - 1] for name, (_, tables) in self._made.items()})


def killed(commands: Commands, out: Path, chance: random.Random, change: Callable[[], object] | None = None) -> int:
    """Kill a command while it starts or after an epoch. Changes that come meanwhile keep it running."""
    files, wants_epoch = len(list(out.glob("*"))), chance.random() < 0.7
    until_s = time.monotonic() + (60 if wants_epoch else chance.uniform(0, 0.5))
    while time.monotonic() < until_s and not (wants_epoch and len(list(out.glob("*"))) > files):
        time.sleep(0.001 if change is None else 0.01)
        if change is not None:
            change()
    if change is not None:
        time.sleep(chance.uniform(0, 0.1))
    return commands.end("kill")


def file_bytes(folder: Path, chance: random.Random) -> int:
    """Return where files are cut: within the log of the state, or within others."""
    longest = max((path.stat().st_size for path in folder.rglob("*.log")), default=0)
    return chance.choice([0, chance.randint(0, 3_000), chance.randint(0, longest + 2_000)])


def check_ends(ends: Counter[int], lives: int) -> None:
    """Check that commands were killed, done, or ended with a message because the disk was full."""
    assert set(ends) <= {-signal.SIGKILL, 0, 2}
    assert ends[-signal.SIGKILL] > 0
    assert ends[2] > lives // 10


def test_a_pipeline(commands, lives, tmp_path):
    chance = random.Random(lives)
    orders = Orders(tmp_path, chance, 3 * lives)
    pipeline = write_pipeline(tmp_path, PIPELINE + SUMS)
    run = ("--quiet", "run", str(tmp_path / "juncture.toml"), "--changes", "--engine", "local")
    ends = Counter()
    # Kernels are compiled and stored first.
    commands.begin(*run)
    assert commands.end() == 0
    for life in range(lives):
        orders.change()
        if life % 2:
            commands.begin(*run, file_bytes=file_bytes(tmp_path, chance))
            ends[commands.end()] += 1
        else:
            commands.begin(*run, "--poll-interval", "10ms")
            change = partial(orders.change, orders.files + 2)
            ends[killed(commands, tmp_path / "shown-changes", chance, change)] += 1
    commands.begin(*run)
    assert commands.end() == 0
    orders.write_tables()
    for given, wanted in sinks_of(tmp_path, pipeline).values():
        assert given == wanted
        assert wanted
    check_ends(ends, lives)


VIEW = "SELECT k, count(*) AS n, sum(far) AS far FROM orders GROUP BY k"


def test_a_view(commands, lives, tmp_path):
    chance = random.Random(lives)
    # So many that the command is still at work when it is killed.
    made, tables = epochs(LEFT, chance, FILES * (lives + 2))
    inputs, out, state = tmp_path / "orders.jsonl", tmp_path / "out", tmp_path / "state"
    run = ("--quiet", "view", VIEW, "--columns", "orders=k tinyint, on bigint, far bigint, n bigint", "-o", str(out))
    run += ("--changes", f"orders={inputs}", "--epoch-rows", "2", "--state", str(state))
    ends = Counter()
    for life in range(lives + 2):
        with inputs.open("a") as file:
            for rows in made[FILES * life : FILES * (life + 1)]:
                file.writelines(json.dumps(row) + "\n" for row in rows.to_pylist())
        if life in (0, lives + 1):
            commands.begin(*run)
            assert commands.end() == 0
        elif life % 2:
            commands.begin(*run, file_bytes=file_bytes(tmp_path, chance))
            ends[commands.end()] += 1
        else:
            commands.begin(*run)
            ends[killed(commands, out, chance)] += 1
    found = summed(pq.read_table(sorted(out.glob("*.parquet"))))
    groups = tables[-1].group_by("k").aggregate([([], "count_all"), ("far", "sum")])
    assert found == Counter(zip(*groups.to_pydict().values(), strict=True))
    check_ends(ends, lives)
