"""The simulation of large tables: partitions that weigh the same, whatever keys and times are like."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from juncture.spark.tasks.cuts import BEFORE_ALL, Cuts
from juncture_benchmarks.scale.simulation import carryover_rows, simulate
from juncture_benchmarks.scale.tables import EVENLY, SHAPES, Table, hashes_of, in_bursts

KEYS = np.array([0.5, 0.25, 0.125, 0.125])


@pytest.mark.parametrize("shape", SHAPES)
def test_partitions_are_even(shape):
    outcome = simulate(shape, 10**9, executors=10)
    assert outcome["partitions"] == 150
    assert outcome["largest"] <= 1.3
    assert outcome["algorithm"] == ("hash" if shape == "a million keys" else "range")
    assert (outcome["carryover_rows"] > 0) == (outcome["split_keys"] > 0) == (shape != "a million keys")


@pytest.mark.parametrize("clock", [EVENLY, in_bursts()])
def test_counted_rows_are_those_that_are_drawn(clock):
    table = Table(10**9, KEYS, clock)
    drawn = table.drawn(200_000, seed=1)
    hashes, times = hashes_of(4)[drawn["k"].to_numpy()], drawn["ts"].to_numpy()
    ends = sorted((int(hashed), int(time)) for hashed in hashes_of(4) for time in np.quantile(times, [0.2, 0.7]))
    cuts = Cuts(np.array([end[0] for end in ends], np.uint64), np.array([end[1] for end in ends]))
    counted = np.bincount(cuts.partition_of(hashes, times), minlength=cuts.partitions)[:-1].cumsum() / len(drawn)
    assert np.allclose(table.share_before(cuts), counted, atol=0.005)


def test_a_cut_between_keys():
    hashes = np.sort(hashes_of(4))
    cuts = Cuts(hashes[1:], np.full(3, BEFORE_ALL))
    shares = KEYS[np.argsort(hashes_of(4))]
    assert np.allclose(Table(10**9, KEYS, EVENLY).share_before(cuts), shares.cumsum()[:3])
    assert carryover_rows(Table(10**9, KEYS, EVENLY), cuts) == 0


def test_each_task_sends_a_row_to_each_partition_behind():
    cuts = Cuts(np.zeros(3, np.uint64), np.array([1, 2, 3]) * 21_600_000_000)
    rows = 10**8
    tasks = -(-rows * 40 // (128 << 20))
    assert carryover_rows(Table(rows, None, EVENLY), cuts) == 3 * tasks
    assert pa.table(Table(rows, None, EVENLY).drawn(10, 1)).num_rows == 10
