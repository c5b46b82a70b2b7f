"""State in a folder: it is there whole, or an error says why it cannot be used, and nothing is lost."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError, StateError
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.state.blocks import BlockRows
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.state.records import Position
from juncture.incremental.state.store import Store
from support.state import changes_in, write_version

CUSTOMERS = pa.schema({"id": pa.int64(), "name": pa.string()})
SALES = pa.schema({"id": pa.int64(), "book": pa.string()})
SPEC = jn.Equi(on="id", how="left")
POLICY = MemoryPolicy.of(1 << 26)


def opened(folder: Path, spec: jn.Equi = SPEC) -> jn.ChangeJoin:
    return jn.changes(CUSTOMERS, SALES, spec, state=folder)


def filled(folder: Path, epochs: int = 3, policy: MemoryPolicy = POLICY) -> None:
    """Leave a state of some epochs in a folder."""
    with changes_in(CUSTOMERS, SALES, SPEC, state=folder, policy=policy) as join:
        join.populate(left=pa.table({"id": [0, 1], "name": ["Adam", "Eve"]}, schema=CUSTOMERS))
        for epoch in range(1, epochs):
            join.apply(right=pa.table({"id": [epoch % 2], "book": [f"b{epoch}"]}, schema=SALES))


def rows(join: jn.ChangeJoin) -> list[dict[str, object]]:
    return sorted(join.result().to_pylist(), key=str)


def test_a_folder_goes_on_where_it_was_left(tmp_path):
    filled(tmp_path / "state")
    with opened(tmp_path / "state") as join:
        assert join.epoch == 3
        assert rows(join) == [{"id": 0, "name": "Adam", "book": "b2"}, {"id": 1, "name": "Eve", "book": "b1"}]
        assert [batch.to_pylist() for batch in join.last()] == [
            [
                {"id": 0, "name": "Adam", "book": "b2", "_weight": 1},
                {"id": 0, "name": "Adam", "book": None, "_weight": -1},
            ]
        ]
        with pytest.raises(PlanError, match="needs a new join"):
            join.populate()


def test_a_folder_that_is_open(tmp_path):
    with opened(tmp_path / "state"), pytest.raises(StateError, match="open in another process"):
        opened(tmp_path / "state")
    opened(tmp_path / "state").close()


def test_a_folder_of_another_join(tmp_path):
    filled(tmp_path / "state")
    with pytest.raises(StateError, match=r"another join: its spec is\n.*left.*\nExpected\n.*equi"):
        opened(tmp_path / "state", jn.Equi(on="id", how="inner"))
    with pytest.raises(StateError, match=r"its right_schema is\nid: int64, book: string\nExpected\n.*date32"):
        jn.changes(CUSTOMERS, SALES.append(pa.field("at", pa.date32())), SPEC, state=tmp_path / "state")
    with opened(tmp_path / "state") as join:
        assert join.epoch == 3


def test_a_folder_of_other_things(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="has other files"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(StateError, match="is not a folder"):
        opened(tmp_path / "notes.txt")


@pytest.mark.parametrize(("key", "written", "said"), [(b"identity", 5, "5"), (b"join", 3, "3 or earlier")])
def test_a_folder_of_another_version(tmp_path, key, written, said):
    write_version(tmp_path / "state", key, written)
    with pytest.raises(StateError, match=f"of version {said}, but this Juncture reads version 6"):
        opened(tmp_path / "state")


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
@pytest.mark.parametrize("how", ["lost", "garbled"])
def test_a_damaged_folder(tmp_path, pattern, how):
    filled(tmp_path / "state")
    damaged = next((tmp_path / "state").glob(pattern))
    content = damaged.read_bytes()
    if how == "lost":
        damaged.unlink()
    else:
        damaged.write_bytes(bytes(255 - byte for byte in content))
    with pytest.raises(StateError, match=r"damaged: .*Nothing in it was changed"):
        opened(tmp_path / "state")
    damaged.write_bytes(content)
    with opened(tmp_path / "state") as join:
        assert join.epoch == 3


def test_an_epoch_that_was_written_half(tmp_path):
    with opened(tmp_path / "state") as join:
        join.populate(left=pa.table({"id": [0], "name": ["Adam"]}, schema=CUSTOMERS))
        states = [rows(join)]
        for epoch in range(4):
            join.apply(right=pa.table({"id": [0], "book": [f"b{epoch}"]}, schema=SALES))
            states.append(rows(join))
        copy = shutil.copytree(tmp_path / "state", tmp_path / "copy")
    log = largest_log(copy)
    content, epochs = log.read_bytes(), set()
    for size in range(0, len(content), len(content) // 20):
        again = shutil.copytree(copy, tmp_path / f"copy{size}")
        (again / log.name).write_bytes(content[:size])
        # The process died before it recorded an epoch.
        (again / "epoch").write_text("0")
        with opened(again) as join:
            epochs.add(join.epoch)
            assert rows(join) == (states[join.epoch - 1] if join.epoch else [])
    assert len(epochs) >= 4


def largest_log(folder: Path) -> Path:
    return max(folder.glob("*.log"), key=lambda path: path.stat().st_size)


def opened_view(folder: Path) -> jn.View:
    sql = "SELECT customers.id, book FROM customers LEFT JOIN sales ON customers.id = sales.id"
    return jn.view(folder, sql, sources={"customers": CUSTOMERS, "sales": SALES})


@pytest.mark.parametrize("kind", ["join", "view"])
@pytest.mark.parametrize("how", ["removed", "shortened", "flipped", "zeroed"])
def test_a_damaged_write_ahead_log(tmp_path, kind, how):
    """Committed epochs are never lost silently, and the folder stays as it is, so that it can be restored."""
    open_query, names = (opened, ("left", "right")) if kind == "join" else (opened_view, ("customers", "sales"))
    with open_query(tmp_path / "state") as query:
        query.apply(**{names[0]: pa.table({"id": [0], "name": ["Adam"]}, schema=CUSTOMERS)})
        for epoch in range(40):
            query.apply(**{names[1]: pa.table({"id": [0], "book": [f"b{epoch}"]}, schema=SALES)})
        expected = rows(query)
        copy = shutil.copytree(tmp_path / "state", tmp_path / "copy")
    log = largest_log(copy)
    content = log.read_bytes()
    for place in [0] if how == "removed" else range(7, len(content), len(content) // 9):
        if how == "removed":
            log.unlink()
        else:
            middle = {"shortened": b"", "flipped": bytes([content[place] ^ 0xFF]), "zeroed": bytes(400)}[how]
            log.write_bytes(content[:place] + middle + (b"" if how == "shortened" else content[place + len(middle) :]))
        before = {path.name for path in copy.glob("[0-9]*")}
        for _ in range(2):
            with pytest.raises(StateError, match=r"damaged: .*Nothing in it was changed") as error:
                open_query(copy)
            assert error.value.name == "JN-STATE-DAMAGED"
        assert {path.name for path in copy.glob("[0-9]*")} == before
        log.write_bytes(content)
    with open_query(copy) as query:
        assert (query.epoch, rows(query)) == (41, expected)


@pytest.mark.parametrize(("content", "problem"), [(None, "is missing"), (b"x", "is not a number")])
def test_a_damaged_epoch_file(tmp_path, content, problem):
    filled(tmp_path / "state")
    path = tmp_path / "state" / "epoch"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(StateError, match=f"the file 'epoch' {problem}"):
        opened(tmp_path / "state")


def one_table(folder: Path) -> Store:
    return Store(folder, "view", MemoryPolicy.of(1 << 26), {}, {"sales": SALES})


def some_sales(first: int, count: int = 30) -> ChangeBatch:
    numbers = range(first, first + count)
    batch = pa.record_batch([pa.array(numbers), pa.array([f"b{number}" for number in numbers])], schema=SALES)
    return ChangeBatch(batch, np.ones(count, np.int64))


def unsorted(batch: pa.RecordBatch, weights: np.ndarray) -> BlockRows:
    return BlockRows(batch, np.zeros((0, batch.num_rows), np.int64), weights[None])


def test_changes_in_several_batches(tmp_path):
    store = one_table(tmp_path / "state")
    store.commit(Position(1, None, {}), {"sales": [some_sales(0)]}, {})
    store.commit(Position(2, None, {}), {"sales": [some_sales(30), some_sales(60, 0), some_sales(60)]}, {})
    store.close()
    store = one_table(tmp_path / "state")
    batches = [batch for changes in store.epochs() for batch, _ in changes["sales"]]
    assert [number for batch in batches for number in batch["id"].to_pylist()] == list(range(90))
    store.close()


def test_runs_are_not_compacted(tmp_path):
    """Each run has its own range of keys, so RocksDB stores it at the last level and never writes it again."""
    store = one_table(tmp_path / "state")
    for epoch in range(1, 10):
        store.write([unsorted(*some_sales(epoch))], is_sorted=False)
        store.commit(Position(epoch, None, {}), {"sales": [some_sales(epoch)]}, {})
    assert store._database.property_value("rocksdb.num-files-at-level6") == "9"
    store.close()
    store = one_table(tmp_path / "state")
    assert not list((tmp_path / "state").glob("run-*"))
    # Uncommitted runs are removed.
    assert store._stored_runs() == set()
    store.close()


def test_a_checkpoint_takes_the_place_of_changes(tmp_path):
    filled(tmp_path / "state", epochs=12, policy=replace(POLICY, log_rows=3))
    with opened(tmp_path / "state") as join:
        assert join.epoch == 12
        assert join.left.rows == 2
        assert join.right.rows == 11
        assert len(rows(join)) == 11


def test_an_epoch_that_cannot_be_written_is_not_taken(tmp_path, monkeypatch):
    with opened(tmp_path / "state") as join:
        join.populate(left=pa.table({"id": [0], "name": ["Adam"]}, schema=CUSTOMERS))
        before = rows(join)
        sale = pa.table({"id": [0], "book": ["b"]}, schema=SALES)

        def full(*_: object) -> None:
            raise StateError("The state cannot be written: the disk is full.")

        with monkeypatch.context() as patched:
            patched.setattr(join._runtime.store, "commit", full)
            with pytest.raises(StateError, match="disk is full"):
                join.apply(right=sale)
        assert (join.epoch, rows(join)) == (1, before)
        assert len(join.apply(right=sale)) == 1


class FoundDamaged:
    """A database that has found damage in the background, which it says of each write and of its end."""

    def __init__(self, database):
        self._database = database

    def __getattr__(self, name):
        return getattr(self._database, name)

    def write(self, *_):
        raise Exception("Corruption: block checksum mismatch")

    def close(self):
        self._database.close()
        self.write()


def test_damage_that_is_found_in_the_background(tmp_path, caplog):
    filled(tmp_path / "state")
    with opened(tmp_path / "state") as join:
        epoch, before = join.epoch, rows(join)
        join._runtime.store._database = FoundDamaged(join._runtime.store._database)
        with pytest.raises(StateError, match=r"is damaged: Corruption: block.*Nothing in it was changed"):
            join.apply(right=pa.table({"id": [0], "book": ["b"]}, schema=SALES))
    assert "is damaged" in caplog.text
    with opened(tmp_path / "state") as join:
        assert (join.epoch, rows(join)) == (epoch, before)


KILLED = """
import sys
import pyarrow as pa
import juncture as jn
left, right = pa.schema({"id": pa.int64()}), pa.schema({"id": pa.int64(), "n": pa.int64()})
with jn.changes(left, right, jn.Equi(on="id", how="full"), state=sys.argv[1]) as join:
    while True:
        epoch = join.epoch
        gone = {"id": [epoch - 2], "_weight": [-1]} if epoch >= 2 else {"id": [], "_weight": []}
        left = pa.table({"id": pa.array([epoch, *gone["id"]]), "_weight": pa.array([1, *gone["_weight"]])})
        join.apply(left=left, right=pa.table({"id": [epoch % 7], "n": [epoch]}), offset=epoch)
        print(join.epoch, flush=True)
"""


@pytest.mark.early
def test_a_process_that_is_killed(tmp_path):
    least = 0
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "state")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(25):
                least = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        schemas = pa.schema({"id": pa.int64()}), pa.schema({"id": pa.int64(), "n": pa.int64()})
        with jn.changes(*schemas, jn.Equi(on="id", how="full"), state=tmp_path / "state") as join:
            assert join.epoch >= least
            assert join.offset == join.epoch - 1
            assert sorted(join.table("left")["id"].to_pylist()) == [join.epoch - 2, join.epoch - 1]
            assert sorted(join.table("right")["n"].to_pylist()) == list(range(join.epoch))
