"""What a sample tells of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from juncture.planner.statistics import KeySample

ROWS, PICKED = 400_000, 20_000


def sample_of(keys, seed=0):
    picked = np.random.default_rng(seed).choice(keys, PICKED, replace=False)
    counts = np.unique(picked[picked >= 0], return_counts=True)[1]
    return KeySample(counts, PICKED, len(keys), "sample of 20,000 rows")


@pytest.mark.parametrize(
    ("keys", "distinct", "within"),
    [
        pytest.param(np.arange(ROWS), ROWS, 1.01, id="all different"),
        pytest.param(np.arange(ROWS) % 1_000, 1_000, 1.01, id="each often"),
        pytest.param(np.arange(ROWS) % 100_000, 100_000, 1.2, id="each a few times"),
        pytest.param(np.where(np.arange(ROWS) % 2, 0, np.arange(ROWS)), ROWS // 2, 2.0, id="one hot"),
        pytest.param(np.where(np.arange(ROWS) % 4, -1, np.arange(ROWS) % 100), 25, 1.01, id="nulls"),
    ],
)
def test_distinct_keys_are_about_right_and_within_their_limits(keys, distinct, within):
    estimate, least, most = sample_of(keys).keys()
    assert least <= distinct <= most * 1.05
    assert distinct / within <= estimate <= distinct * within


def test_shares_are_within_their_error():
    keys = np.where(np.arange(ROWS) % 10 < 3, 7, np.arange(ROWS))
    keys[::4] = -1
    share = np.count_nonzero(keys == 7) / ROWS
    figures, sources = sample_of(keys).figures()
    assert figures["hottest_key_share"] == pytest.approx(share, abs=0.01)
    assert sources["hottest_key_share"] == "sample of 20,000 rows, ± 0.6%"
    assert figures["null_rows"] == pytest.approx(ROWS / 4, rel=0.05)
    assert sources["null_rows"].startswith("sample of 20,000 rows, ± 2,")
    assert sources["distinct_keys"].startswith("sample of 20,000 rows, between ")


def test_all_rows_have_no_error():
    figures, sources = KeySample(np.array([2, 1]), 4, 4, "all 4 rows").figures()
    assert figures == {"distinct_keys": 2, "hottest_key_share": 0.5, "null_rows": 1}
    assert set(sources.values()) == {"all 4 rows"}


def test_no_rows():
    figures, _ = KeySample(np.zeros(0, np.int64), 0, 0, "all 0 rows").figures()
    assert figures == {"distinct_keys": 0, "hottest_key_share": 0.0, "null_rows": 0}
