"""Rows that are kept in the order of key and code: more of them put in, and some taken out."""

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
    """Merge two sorted runs of rows; of rows of one key and code those of the first run come first.

    Parameters
    ----------
    keys, codes, slots
        The first run: what it is sorted by, and a number for each row.
    more_keys, more_codes, more_slots
        The second run.
    all_keys, all_codes, all_slots
        Out: both runs, with room for all rows.

    Notes
    -----
    A pass over both.
    """
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
    """Move the rows that are wanted to the front, in their order, and return how many there are.

    Parameters
    ----------
    wanted
        1 for rows that are, 0 for others.
    keys, codes, slots
        The rows. Changed.
    gone
        Out: the numbers of the others. Room for all.
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
