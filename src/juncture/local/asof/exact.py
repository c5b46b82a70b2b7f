"""Choosing matches where distances do not fit 64 bits: with Python's integers, row by row, slowly and exactly."""

from __future__ import annotations

from typing import Any

from juncture.kernels import asof as kernels
from juncture.kernels.array_types import Ints
from juncture.local.asof.left import Left


def choose_exact(
    left: Left, values: list[Any], behind: Ints, ahead: Ints, wanted: int, later: bool, pointers: Ints, counts: Ints
) -> None:
    """Write each left row's matches: as `juncture.kernels.asof.choose`, for codes that are ranks of values.

    `values` has what each rank stands for, in steps of the domain, or floats. The limits of `left` are Python's
    numbers.
    """
    limits: list[Any] = list(left.limits)
    ahead_rank = -1 if later else 1
    places = max(each.shape[1] for each in (behind, ahead) if len(each))
    for slot, row in enumerate(left.slots.rows.tolist()):
        on = values[left.slots.on[slot]]
        near = [(on - values[place[0]], 0, place) for place in _held(behind, slot)]
        far = [(values[~place[0]] - on, ahead_rank, place) for place in _held(ahead, slot)]
        # Stable, and each side ascends by distance already.
        candidates = sorted(near + far, key=lambda candidate: candidate[:2])
        barred = left.barred is not None and left.barred[row]
        limit = limits[row if len(limits) > 1 else 0]
        taken = [] if barred else [c for c in candidates if c[0] <= limit][:places]
        for place, (_, _, candidate) in enumerate(taken[:wanted]):
            pointers[row, place] = candidate[-1]
        if len(taken) > wanted and taken[wanted][2][:-1] == taken[wanted - 1][2][:-1]:
            counts[kernels.TIED] += 1
            first = int(counts[kernels.FIRST_TIED])
            counts[kernels.FIRST_TIED] = row if first < 0 else min(row, first)
        counts[kernels.MATCHED if taken else kernels.BEYOND if candidates else kernels.NOTHING] += 1


def _held(best: Ints, slot: int) -> list[list[int]]:
    """Return the candidates of a slot, without empty places."""
    if len(best) == 0:
        return []
    return [place for place in best[slot].tolist() if place[-1] != kernels.NOWHERE]
