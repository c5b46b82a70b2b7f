"""What happens at large sizes, brought about at small ones: everything is cut into pieces of a few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

__all__ = ["SMALL", "small_pieces"]

SMALL = {
    "juncture.local.resources.LEAST_MEMORY_BYTES": 0,
    "juncture.runtime.sources._SLICE_ROWS": 2,
    "juncture.runtime.sources.BATCH_ROWS": 3,
    "juncture.runtime.take._SLICE_ROWS": 3,
    "juncture.runtime.take._SLICE_LEAST": 1,
    "juncture.runtime.sort._SLICE_LEAST": 1,
    "juncture.local.output.pairs._SLICE_LEAST": 16,
    "juncture.local.asof.probe._BATCH_ROWS": 5,
    "juncture.local.asof.probe._BATCH_ROWS_LEAST": 3,
    "juncture.local.asof.probe._PARTITION_SLOTS": 2,
    "juncture.local.asof.known._BATCH_ROWS": 5,
    "juncture.local.asof.known._CHUNK_LEAST": 2,
    "juncture.local.asof.known._PARTITION_ROWS": 3,
    "juncture.local.asof.probe._TIES_ROOM": 1,
    "juncture.local.asof.probe._TIES_MOST": 6,
    "juncture.local.output.pairs.PAIRS_MOST": 3,
    "juncture.local.output.show._SLICE_ROWS": 2,
    "juncture.local.output.show._PAIRS_LEAST": 2,
    "juncture.local.output.show._CHECKED_LEAST": 2,
    "juncture.local.inequality.aggregate._PAIRS_MOST": 3,
    "juncture.local.inequality.aggregate._LISTED_MOST": 4,
    "juncture.local.inequality.block_nested_loop._BLOCK_ROWS": 3,
    "juncture.runtime.spill._PART_ROWS": 3,
    "juncture.runtime.sort._BATCH_ROWS": 3,
    "juncture.local.equi.hash_index._CODES_LEAST": 2,
    "juncture.local.equi.on_disk._PIECES_MOST": 2,
}
"""The sizes that decide when a join is done in pieces, each as small as it goes."""


@contextmanager
def small_pieces() -> Iterator[None]:
    """Cut everything small while the context lasts."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(mock.patch(name, value))
        yield
