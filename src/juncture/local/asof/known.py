"""As-of joins of what was known: sort the right side, or as much of it as fits at a time, and search it for known rows.

Each batch of right rows is sorted by key, ``on`` and when it was known, with a tree of the least known codes; each left
row finds its candidates there, and keeps the best of all batches (see `juncture.kernels.asof_known`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from juncture.kernels import asof_known as kernels
from juncture.kernels.array_types import Ints, Mask
from juncture.local.asof.batches import Batch, nothing, search_batches
from juncture.local.asof.probe import Direction, RightRows
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots


def search_known(
    slots: Slots,
    seen: Ints,
    right: RightRows,
    directions: Sequence[Direction],
    places: int,
    context: JoinContext,
    *,
    at_once: bool,
) -> tuple[list[Ints], Mask]:
    """Return each slot's best known right rows in each direction, and which keys the right side has.

    Parameters
    ----------
    slots, right, directions, places, context
        As for `juncture.local.asof.probe.probe`.
    seen
        The code of the time of each left row up to which right rows are known to it.
    at_once
        Whether to hold all right rows, rather than as many at a time as fit.

    Notes
    -----
    Time O(R log R + L log R) for each batch, whatever is known when; some 100 ns and core for a right row.
    """

    def searcher(batch: Batch) -> Callable[[Direction], Ints]:
        levels = np.array(kernels.tree_levels(len(batch.pointers)), np.int64)
        tree = np.empty(int(levels[-1]), np.int64)
        tree[: len(batch.known)] = batch.known
        for start, to in pairwise(levels[:-1].tolist()):
            kernels.fill_tree(tree, start, to - start, to)

        def search(direction: Direction) -> Ints:
            best = nothing(slots, places)

            def find(part: tuple[int, int, int]) -> None:
                kernels.find_known(
                    slots.on, seen, slots.starts, *part, batch.on, batch.starts, batch.pointers, batch.ends, tree,
                    levels, direction.forward, direction.strict, best,
                )  # fmt: skip

            context.threads.run(find, slots.ranges(context))
            return best

        return search

    return search_batches(slots, right, directions, places, context, searcher, at_once=at_once)
