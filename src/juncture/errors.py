"""What can go wrong, as a tree of exceptions.

::

    JunctureError
    ├── SpecError     the question itself is wrong: an argument, its value or their combination
    ├── SchemaError   the question does not fit these tables: a missing column, types that do not compare
    ├── PlanError     the question is right, but cannot be run this way: an algorithm or engine that does not serve
    ├── DataError     the data break a promise: a truncated file, a tie where ties are errors
    └── StateError    what the join keeps while it runs is lost or has no room: a full spill disk

Each message names the argument, the column and its type, says what was expected, and how to mend it.
``SpecError`` and ``SchemaError`` are also ``ValueError``, so that code written for pandas or Polars keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SCREEN_LINES = 20
_SCREEN_CHARACTERS = 1_600


class JunctureError(Exception):
    """Any error that Juncture raises on purpose. Its message fits on a screen: a longer one loses its middle."""

    def __init__(self, message: object = "") -> None:
        super().__init__(_on_a_screen(str(message)))


class SpecError(JunctureError, ValueError):
    """An argument has a value that no tables could satisfy."""


class SchemaError(JunctureError, ValueError):
    """The arguments do not fit the schemas of the two tables."""


class PlanError(JunctureError):
    """The join is well defined but cannot be run with this algorithm, engine or setting."""


class DataError(JunctureError):
    """The data, once read, break what was promised of them."""


class StateError(JunctureError):
    """What a join keeps while it runs (spill files, state) cannot be kept."""


def _on_a_screen(message: str) -> str:
    """Return a message without its middle, where it is long: what is wrong comes first, and how to mend it last."""
    lines = message.split("\n")
    if len(lines) > _SCREEN_LINES:
        half = _SCREEN_LINES // 2
        message = "\n".join([*lines[:half], "…", *lines[-half:]])
    if len(message) > _SCREEN_CHARACTERS:
        half = _SCREEN_CHARACTERS // 2
        message = f"{message[:half]} … {message[-half:]}"
    return message


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelled most like a name, if any is.

    Examples
    --------
    >>> closest("robot", ["ts", "robot_id"])
    'robot_id'
    """
    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest of the known names, or lists them.

    Examples
    --------
    >>> did_you_mean("robot", ["ts", "robot_id"])
    "Did you mean 'robot_id'?"
    >>> did_you_mean("zzz", ["ts", "robot_id"])
    "There are: 'ts', 'robot_id'."
    """
    names = list(known)
    close = closest(name, names)
    if close is not None:
        return f"Did you mean {close!r}?"
    if not names:
        return "There are none."
    shown = ", ".join(repr(candidate) for candidate in names[:12])
    return f"There are: {shown}{', …' if len(names) > 12 else ''}."
