"""Rows in the order of key and code: insertion and removal of rows."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Bytes, Codes, CodesOut, Ints, IntsOut
from juncture.kernels.compiled import compiled


@compiled
def merge_rows(
    keys: Codes,
    codes: Ints,
    slots: Ints,
    more_keys: Codes,
    more_codes: Ints,
    more_slots: Ints,
    all_keys: CodesOut,
    all_codes: IntsOut,
    all_slots: IntsOut,
) -> None:
    """Merge two runs of rows sorted by key and code, stably, in one pass; ``all_*`` have room for all rows."""
    place, more = np.int64(0), np.int64(0)
    for row in range(len(all_keys)):
        takes_more = place == len(keys)
        if not takes_more and more < len(more_keys):
            takes_more = more_keys[more] < keys[place] or (
                more_keys[more] == keys[place] and more_codes[more] < codes[place]
            )
        if takes_more:
            all_keys[row], all_codes[row], all_slots[row] = more_keys[more], more_codes[more], more_slots[more]
            more += 1
        else:
            all_keys[row], all_codes[row], all_slots[row] = keys[place], codes[place], slots[place]
            place += 1


@compiled
def keep_rows(wanted: Bytes, keys: CodesOut, codes: IntsOut, slots: IntsOut, gone: IntsOut) -> int:
    """Move the rows marked 1 in ``wanted`` to the front, in their order; return their number.

    ``gone`` receives the slots of the other rows, with room for all.
    """
    kept, lost = np.int64(0), np.int64(0)
    for row in range(len(keys)):
        if wanted[row]:
            keys[kept], codes[kept], slots[kept] = keys[row], codes[row], slots[row]
            kept += 1
        else:
            gone[lost] = slots[row]
            lost += 1
    return int(kept)
