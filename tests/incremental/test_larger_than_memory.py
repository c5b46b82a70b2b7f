"""Rows that do not fit in memory: they are looked up on disk, and the answer is that of the batch join."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, StateError
from juncture.incremental.state.policy import MemoryPolicy
from support.state import changes_in

SALES = pa.schema({"sale": pa.int64(), "customer": pa.int64(), "price": pa.float64()})
CUSTOMERS = pa.schema({"customer": pa.int64(), "region": pa.int64()})
MEMORY = 400_000


def sales(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"sale": numbers, "customer": numbers % 997, "price": numbers / 4}, schema=SALES)


def customers(count: int) -> pa.Table:
    return pa.table({"customer": np.arange(count), "region": np.arange(count) % 7}, schema=CUSTOMERS)


def weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_weight", pa.array([weight] * rows.num_rows))


def opened(folder: Path, memory: int = MEMORY, how: str = "left") -> jn.ChangeJoin:
    policy = MemoryPolicy.of(memory)
    return changes_in(SALES, CUSTOMERS, jn.Equi(on="customer", how=how), state=folder, policy=policy)


def is_on_disk(join: jn.ChangeJoin) -> bool:
    return join._operator.sides["left"].arrangement.pages is not None


def added(answer: Counter, changes: list[pa.RecordBatch]) -> None:
    for batch in changes:
        for row in batch.to_pylist():
            weight = row.pop("_weight")
            answer[tuple(row.values())] += weight
            if not answer[tuple(row.values())]:
                del answer[tuple(row.values())]


def rows_of(table: pa.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("is_read", [False, True])
def test_many_epochs_in_little_memory(tmp_path, is_read):
    chance, answer = random.Random(3), Counter()
    there = list(range(12_000))
    ours = sales(0, len(there))
    with opened(tmp_path / "state") as join:
        given = ours.to_reader(max_chunksize=1_000) if is_read else ours
        told = []
        added(answer, join.populate(left=given, right=customers(700), progress=lambda *now: told.append(now)))
        assert is_on_disk(join)
        assert {phase for phase, _, _ in told} == {"left", "right", "output"}
        assert ("left", 12_000, 12_000) in told
        for epoch in range(12):
            gone = chance.sample(there, 40)
            come = sales(20_000 + 700 * epoch, 700)
            there = sorted({*there, *come["sale"].to_pylist()} - set(gone))
            changes = pa.concat_tables([weighted(sales(row, 1), -1) for row in gone] + [weighted(come, 1)])
            added(answer, join.apply(left=changes, right=weighted(customers(700).slice(epoch * 50, 20), -1)))
            assert join.left.bytes + join.right.bytes < MEMORY / 2
            assert join.left.rows >= len(there)
        assert rows_of(join.result()) == answer
    with opened(tmp_path / "state", 1_000 * MEMORY) as join:
        # Rows that fit are loaded when they are first looked up.
        for weight in (-1, 1):
            added(answer, join.apply(left=weighted(sales(there[0], 1), weight)))
        assert not is_on_disk(join)
        assert join.left.rows == len(there)
        assert rows_of(join.result()) == answer
    with opened(tmp_path / "state") as join:
        assert is_on_disk(join)
        added(answer, join.apply(left=weighted(sales(there[5], 1), -1)))
        assert rows_of(join.result()) == answer
    kept = sales(0, 40_000).filter(pa.array(np.isin(np.arange(40_000), np.setdiff1d(there, there[5]))))
    gone = [region for epoch in range(12) for region in range(epoch * 50, epoch * 50 + 20)]
    now = customers(700).filter(pa.array([row not in gone for row in range(700)]))
    assert rows_of(jn.join(kept, now, on="customer", how="left")) == answer


def test_memory_that_becomes_too_little(tmp_path):
    answer = Counter()
    with opened(tmp_path / "state", how="full") as join:
        seen = []
        for epoch in range(10):
            added(answer, join.apply(left=sales(400 * epoch, 400), right=customers(100) if not epoch else None))
            seen.append(is_on_disk(join))
        assert seen == sorted(seen)
        assert set(seen) == {False, True}
        added(answer, join.apply(left=weighted(sales(0, 2_000), -1)))
        assert (
            rows_of(join.result())
            == answer
            == rows_of(jn.join(sales(2_000, 2_000), customers(100), on="customer", how="full"))
        )


def test_memory_that_is_less_than_before(tmp_path):
    """Rows in memory have an unsorted copy on disk. It is sorted in pieces if they do not fit any more."""
    answer = Counter()
    with opened(tmp_path / "state", 1_000 * MEMORY) as join:
        added(answer, join.populate(left=sales(0, 12_000), right=customers(700)))
        added(answer, join.apply(left=weighted(sales(3, 500), -1)))
        assert not is_on_disk(join)
    for epoch in range(2):
        with opened(tmp_path / "state") as join:
            assert is_on_disk(join)
            assert join.left.bytes + join.right.bytes < MEMORY / 2
            added(answer, join.apply(left=weighted(sales(2_000 + epoch, 1), -1), right=customers(1)))
            assert rows_of(join.result()) == answer


def test_runs_on_disk_become_few(tmp_path):
    with opened(tmp_path / "state") as join:
        join.populate(left=sales(0, 12_000), right=customers(10))
        for epoch in range(24):
            join.apply(left=sales(20_000 + 2_000 * epoch, 2_000))
            if join._runtime.tables._merge is not None:
                join._runtime.tables._merge[1].result()
        runs = join._operator.sides["left"].arrangement.pages.stored
        assert len(runs) < 3 * MemoryPolicy.of(MEMORY).merged_runs
        assert max(len(run) for run in runs) > 6_000
        join.apply(left=weighted(sales(20_000, 46_000), -1))
        join.apply(left=sales(90_000, 4_000))
        for _ in range(3):
            if join._runtime.tables._merge is not None:
                join._runtime.tables._merge[1].result()
            join.apply(left=sales(100_000 + 4_000 * join.epoch, 4_000))
    with opened(tmp_path / "state") as join:
        assert join.table("left").num_rows == 12_000 + 24 * 2_000 - 46_000 + 4 * 4_000


def test_a_delete_of_what_is_not_there(tmp_path):
    with opened(tmp_path / "state") as join:
        join.populate(left=sales(0, 12_000), right=customers(10))
        with pytest.raises(DataError, match="delete a row that does not exist"):
            join.apply(left=pa.concat_tables([weighted(sales(5, 1), -1), weighted(sales(12_005, 1), -1)]))
        assert len(join.apply(left=weighted(sales(5, 1), -1))) == 1


def test_a_block_that_is_damaged(tmp_path):
    with opened(tmp_path / "state") as join:
        join.populate(left=sales(0, 12_000), right=customers(10))
    with opened(tmp_path / "state") as join:
        largest = max((tmp_path / "state").glob("*.sst"), key=lambda path: path.stat().st_size)
        whole = largest.read_bytes()
        content = bytearray(whole)
        for place in range(0, len(content) // 2, 64):
            content[place] ^= 0xFF
        largest.write_bytes(content)
        with pytest.raises(StateError, match=r"damaged: .*Nothing in it was changed"):
            for first in range(0, 12_000, 500):
                join.apply(left=weighted(sales(first, 1), -1))
        before = join.epoch
    largest.write_bytes(whole)
    with opened(tmp_path / "state") as join:
        assert join.epoch == before
        assert join.table("left").num_rows == 12_000 - (before - 1)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from incremental.test_larger_than_memory import customers, opened, sales
from pathlib import Path
def killed(phase, done, total):
    if phase == "output" and done > 20:
        os.kill(os.getpid(), signal.SIGKILL)
opened(Path(sys.argv[1])).populate(left=sales(0, 12_000), right=customers(700), progress=killed)
"""


@pytest.mark.early
def test_a_process_that_is_killed_while_it_populates(tmp_path):
    tests = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "state"), tests], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "state").glob("run-*"))
    with opened(tmp_path / "state") as join:
        assert join.epoch == 0
        assert not list((tmp_path / "state").glob("run-*"))
        assert not (tmp_path / "state" / "parts").exists()
        answer = Counter()
        added(answer, join.populate(left=sales(0, 12_000), right=customers(700)))
        assert answer == rows_of(jn.join(sales(0, 12_000), customers(700), on="customer", how="left"))
