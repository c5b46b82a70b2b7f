"""Rows that are kept in the order of key and code: more of them put in, and some taken out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.compiled import compiled, int32s, int32s_in, int64, int64s, int64s_in, uint8s_in, void

__all__ = ["keep_rows", "merge_rows"]


@compiled(void(int32s_in, int64s_in, int64s_in, int32s_in, int64s_in, int64s_in, int32s, int64s, int64s))
def merge_rows(
    keys: Codes,
    codes: Ints,
    slots: Ints,
    more_keys: Codes,
    more_codes: Ints,
    more_slots: Ints,
    all_keys: Codes,
    all_codes: Ints,
    all_slots: Ints,
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


@compiled(int64(uint8s_in, int32s, int64s, int64s, int64s))
def keep_rows(wanted: npt.NDArray[np.uint8], keys: Codes, codes: Ints, slots: Ints, gone: Ints) -> int:
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
