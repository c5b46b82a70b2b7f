"""The directions in which left rows of an as-of join search for matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DirectionName = Literal["backward", "forward", "nearest"]


@dataclass(frozen=True, slots=True)
class Direction:
    """A search among the right rows before a left row, or after it (``forward``), in the order of ``on``.

    ``strict`` excludes right rows with an equal ``on``.
    """

    forward: bool
    strict: bool

    @property
    def name(self) -> Literal["backward", "forward"]:
        """The name of the direction."""
        return "forward" if self.forward else "backward"


def directions_of(name: DirectionName, *, strict: bool) -> tuple[Direction, ...]:
    """Return the searches of an as-of join; ``strict`` excludes equal values.

    Examples
    --------
    >>> [direction.name for direction in directions_of("nearest", strict=False)]
    ['backward', 'forward']
    """
    if name == "nearest":
        # The backward search finds equal values.
        return Direction(forward=False, strict=strict), Direction(forward=True, strict=True)
    return (Direction(forward=name == "forward", strict=strict),)
