"""Whoever stops reading a join on disk in the middle leaves nothing behind: no file and no thread."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.runtime.sources import TableSource
from support.engines import execute
from support.kinds import Spec
from support.small import plan_in_pieces

BAND = {"on": "v", "by": "k", "lower": -3, "upper": 1}
ENDS = {"left_interval": ("v", "w"), "right_interval": ("v", "w")}
JOINS: dict[str, tuple[Spec, str]] = {
    "as-of, probed": (jn.Asof(on="v", by="k"), "probe"),
    "as-of, merged": (jn.Asof(on="v", by="k", how="full"), "merge"),
    "range": (jn.Range(**BAND), "external_merge"),
    "range, aggregated": (jn.Range(**BAND, agg={"v": "sum"}), "external_merge"),
    "overlap": (jn.Overlap(**ENDS, by="k", how="right"), "external_merge"),
    "overlap, aggregated": (jn.Overlap(**ENDS, by="k", agg={"*": "count"}), "external_merge"),
    "where, in a band": (jn.Where("l.v - 1 <= r.v AND r.v <= l.v + 1"), "external_merge"),
    "where, by keys": (jn.Where("l.k = r.k AND l.v < r.w", how="left"), "external_merge"),
    "where, block by block": (jn.Where("l.v + r.v = 120 OR l.w = r.v"), "external_merge"),
    "equi, Grace": (jn.Equi(on="k"), "grace"),
    "equi, merged": (jn.Equi(on="k", how="full"), "external_sort_merge"),
}
ROWS, MEMORY_BYTES = 120, 8_000


def side(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    v = chance.integers(0, ROWS, ROWS)
    return pa.table({"k": chance.integers(0, 12, ROWS), "v": v, "w": v + chance.integers(0, 5, ROWS)})


def threads_at_work() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("juncture")]


def assert_nothing_is_left(scratch: Path) -> None:
    assert list(scratch.iterdir()) == []
    assert threads_at_work() == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("stop", [GeneratorExit, KeyboardInterrupt])
def test_a_join_that_is_stopped(kind, stop, scratch):
    spec, algorithm = JOINS[kind]
    left, right = side(1), side(2)
    join = spec.resolve(left.schema, right.schema)
    rows = execute(join, TableSource(left), TableSource(right), algorithm, threads=2, memory_bytes=MEMORY_BYTES)
    assert next(rows).num_rows > 0
    assert list(scratch.iterdir()) != []
    assert threads_at_work() != []
    with pytest.raises(stop):
        rows.throw(stop)
    assert_nothing_is_left(scratch)


@pytest.mark.parametrize("kind", JOINS)
def test_a_plan_whose_batches_are_let_go(kind, scratch):
    spec, algorithm = JOINS[kind]
    streams = (each.to_reader(max_chunksize=40) for each in (side(1), side(2)))
    batches = plan_in_pieces(*streams, spec, algorithm=algorithm, memory_bytes=MEMORY_BYTES).batches()
    assert batches.read_next_batch().num_rows > 0
    assert list(scratch.iterdir()) != []
    del batches
    assert_nothing_is_left(scratch)
