"""Joins of streams that are saved to a folder: what is written, and folders that cannot be read or written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import StateError

LEFT = pa.schema({"a": pa.int64(), "name": pa.string()})
RIGHT = pa.schema({"b": pa.int64()})
BAND = jn.Where("l.a > r.b - 3 AND l.a < r.b + 10")


def band(**arguments) -> jn.StreamJoin:
    return jn.stream(LEFT, RIGHT, BAND, **({"left_order": jn.Order("a"), "right_order": jn.Order("b")} | arguments))


def refused(message: str):
    return pytest.raises(StateError, match=f"(?s){message}")


def test_states_that_are_not_there_damaged_or_of_another_join(tmp_path):
    with refused("No state"):
        jn.StreamJoin.restore(tmp_path / "nothing")
    join = band()
    join.push(left=pa.table({"a": [10], "name": ["x"]}, schema=LEFT))
    join.save(tmp_path / "state")
    assert jn.StreamJoin.restore(tmp_path / "state", expected=band()).state.left.rows == 1
    with refused("another join.*left.*delay"):
        jn.StreamJoin.restore(tmp_path / "state", expected=band(left_order=jn.Order("a", delay=5)))
    other = jn.stream(LEFT, RIGHT, jn.Where("l.a = r.b"), left_order=jn.Order("a"), right_order=jn.Order("b"))
    with refused("another join.*spec.*l.a = r.b"):
        jn.StreamJoin.restore(tmp_path / "state", expected=other)
    narrow = jn.stream(LEFT.remove(1), RIGHT, BAND, left_order=jn.Order("a"), right_order=jn.Order("b"))
    with refused("another join.*left_schema.*name: string"):
        jn.StreamJoin.restore(tmp_path / "state", expected=narrow)
    (tmp_path / "state" / "left_state.arrow").write_bytes(b"ARROW1")
    with refused("damaged"):
        jn.StreamJoin.restore(tmp_path / "state")
    (tmp_path / "state" / "left_state.arrow").unlink()
    with refused("missing|damaged"):
        jn.StreamJoin.restore(tmp_path / "state")
    manifest = json.loads((tmp_path / "state" / "join.json").read_text())
    (tmp_path / "state" / "join.json").write_text(json.dumps(manifest | {"version": 99}))
    with refused("version 99"):
        jn.StreamJoin.restore(tmp_path / "state")
    (tmp_path / "state" / "join.json").write_text("{")
    with refused("damaged"):
        jn.StreamJoin.restore(tmp_path / "state")


def test_a_saved_join_is_on_disk_before_it_replaces_another(tmp_path, monkeypatch):
    calls, sync, rename = [], os.fsync, Path.rename

    def synced(opened):
        calls.append(("sync", Path(f"/proc/self/fd/{opened}").readlink().name))
        sync(opened)

    def renamed(path, target):
        calls.append(("rename", path.name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    band().save(tmp_path / "state")
    files = {path.name for path in (tmp_path / "state").iterdir()}
    before, after = calls[: calls.index(("rename", ".state.new"))], calls[calls.index(("rename", ".state.new")) + 1 :]
    assert {name for _, name in before} == {*files, ".state.new"}
    assert after == [("sync", tmp_path.name)]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("cannot be written"):
        band().save(tmp_path / "file" / "state")
