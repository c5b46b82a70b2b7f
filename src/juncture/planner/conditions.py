"""What a pair of rows has to satisfy, in words: the keys, which all kinds of join have."""

from __future__ import annotations

from juncture.spec.resolved import Resolved

__all__ = ["Condition", "equal_names", "key_conditions"]

Condition = tuple[str, str]
"""What part of a join a condition is, such as ``key``, ``band`` or ``residual``, and the condition itself."""


def equal_names(join: Resolved) -> str:
    """Return the ``by`` columns that have to be equal, as in ``venue, symbol = ticker``."""
    pairs = zip(join.left_by, join.right_by, strict=True)
    return ", ".join(ours if ours == theirs else f"{ours} = {theirs}" for ours, theirs in pairs)


def key_conditions(join: Resolved) -> tuple[Condition, ...]:
    """Return the equality of each pair of ``by`` columns."""
    pairs = zip(join.left_by, join.right_by, strict=True)
    return tuple(("key", f"left {ours} = right {theirs}") for ours, theirs in pairs)
