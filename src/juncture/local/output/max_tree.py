"""Trees of greatest values over the rows of a sorted side, which find those of a span that reach a threshold."""

from __future__ import annotations

from functools import partial

import numpy as np

from juncture.kernels import overlap
from juncture.kernels.array_types import Ints
from juncture.kernels.intrinsics import WINDOW
from juncture.runtime.context import JoinContext
from juncture.runtime.threads import slices

_SLICE_LEAST = 1 << 16


class MaxTree:
    """The second values in the order of the first, with the greatest of each block, block of blocks and so on."""

    def __init__(self, leaves: Ints, context: JoinContext) -> None:
        sizes, self.levels = levels_of(len(leaves))
        self.values = np.full(int(self.levels[-1]), overlap.LEAST, np.int64)
        self.values[: len(leaves)] = leaves
        for level in range(1, len(sizes)):
            below, above = int(self.levels[level - 1]), int(self.levels[level])
            nodes = sizes[level - 1] // WINDOW
            cuts = slices(nodes, 4 * context.threads.count, least=_SLICE_LEAST // WINDOW)
            context.threads.run(partial(self._build, below, above), cuts)

    def _build(self, below: int, above: int, nodes: tuple[int, int]) -> None:
        overlap.build_level(self.values, below, above, *nodes)


def levels_of(length: int) -> tuple[list[int], Ints]:
    """Return the padded size of each level of a tree with a number of leaves, and the start of each; the end last."""
    sizes = [_padded(length)]
    while sizes[-1] > WINDOW:
        sizes.append(_padded(sizes[-1] // WINDOW))
    return sizes, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _padded(length: int) -> int:
    return max(1, -(-length // WINDOW)) * WINDOW
