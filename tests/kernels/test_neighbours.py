"""The nth living row before and after a place, against looking at all rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from juncture.kernels.next_row import nth_neighbours

GREATEST = 2**63 - 1


def expected(rows, key, code, nth, forward, farthest):
    """Return the code of the nth living row of a key, or the farthest."""
    living = [held for group, held, weight in rows if group == key and weight]
    there = sorted((held for held in living if (held >= code if forward else held <= code)), reverse=not forward)
    if len(there) < nth:
        return farthest
    return (min if forward else max)(there[nth - 1], farthest)


@pytest.mark.parametrize("forward", [False, True])
def test_against_all_rows(forward):
    chance = random.Random(forward)
    for _ in range(200):
        rows = sorted(
            (chance.randint(0, 3), chance.choice([-GREATEST - 1, 0, 1, 2, 3, GREATEST]), chance.randint(0, 2))
            for _ in range(chance.randint(0, 12))
        )
        keys = np.array([row[0] for row in rows], np.int32)
        groups, starts = np.unique(keys, return_index=True)
        asked = [(chance.randint(0, 4), chance.choice([-GREATEST - 1, 0, 1, 2, GREATEST])) for _ in range(8)]
        nth, farthest = chance.randint(1, 3), chance.choice([0, 2, GREATEST if forward else -GREATEST - 1])
        found = np.full(len(asked), farthest)
        nth_neighbours(
            np.array([key for key, _ in asked], np.int32),
            np.array([code for _, code in asked], np.int64),
            groups.astype(np.int32),
            np.append(starts, len(rows)).astype(np.int64),
            np.array([row[1] for row in rows], np.int64),
            np.array([row[2] for row in rows], np.int64),
            nth,
            forward,
            found,
        )
        assert found.tolist() == [expected(rows, *each, nth, forward, farthest) for each in asked]
