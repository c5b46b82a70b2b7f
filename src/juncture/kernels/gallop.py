"""Searches in sorted ranges that begin at the last result."""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.compiled import inlined


@inlined
def first_at_least(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the first position of a sorted range whose value is at least a limit."""
    while first < end:
        middle = (first + end) >> 1
        if values[middle] < least:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def first_from_end(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the same, searched from the end backwards: in few steps if it is near the end."""
    step = np.int64(1)
    while first < end:
        position = max(first, end - step)
        if values[position] < least:
            first = position + 1
            break
        end = position
        step <<= 1
    return first_at_least(values, first, end, least)


@inlined
def first_from_start(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the same, searched from the start onwards: in few steps if it is near the start."""
    step = np.int64(1)
    while first < end:
        position = min(end - 1, first + step - 1)
        if values[position] >= least:
            end = position
            break
        first = position + 1
        step <<= 1
    return first_at_least(values, first, end, least)


@inlined
def group_of(groups: Any, first: Any, key: Any) -> Any:
    """Return the first group from a position on whose key is not less, in few steps if it is near."""
    step = np.int64(1)
    end = first
    while end < len(groups) and groups[end] < key:
        first = end + 1
        end += step
        step <<= 1
    return first_at_least(groups, first, min(end, np.int64(len(groups))), key)
