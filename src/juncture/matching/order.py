"""The order of an unbounded source: an expression that grows or falls from row to row, up to a greatest delay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from juncture.errors import SpecError, wrong_type
from juncture.ordered.domain import Distance
from juncture.ordered.duration import TimeLength, duration_ns
from juncture.spec.arguments import freeze_flags
from juncture.spec.base import plain_value, restored
from juncture.spec.distance import freeze_distance


def freeze_delay(argument: str, value: object) -> Distance | None:
    """Validate a distance that is not negative, and return it in one form. None stays None."""
    delay = freeze_distance(argument, value)
    if isinstance(delay, str | TimeLength):
        is_negative = duration_ns(delay, argument=argument) < 0
    else:
        is_negative = delay is not None and delay < 0
    if is_negative:
        raise SpecError(f"{argument}={delay!r} is negative. Expected zero or more.", name="JN-ARGUMENT-VALUE")
    return delay


@dataclass(frozen=True)
class Order:
    """An expression of a stream that grows from row to row, or falls, up to a greatest delay.

    Parameters
    ----------
    expression
        SQL expression of the columns of one side, of numbers, decimals, dates or timestamps.
    delay
        How far a value may be behind the greatest value before it; in a descending order, ahead of the least one. A
        number for numbers. A ``timedelta`` or a duration such as ``"5s"`` for dates and timestamps. None for zero. A
        row that is farther behind is late.
    descending
        Whether the values fall.

    Raises
    ------
    SpecError
        If an argument is invalid for every stream.

    Examples
    --------
    >>> Order("ts", delay="5s")
    Order(expression='ts', delay='5s', descending=False)
    >>> Order("a + b", delay=-1)
    Traceback (most recent call last):
    juncture.errors.SpecError: [JN-ARGUMENT-VALUE] delay=-1 is negative. Expected zero or more.
    """

    expression: str
    delay: Distance | None = field(default=None, kw_only=True)
    descending: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise wrong_type("expression", self.expression, "SQL", 'a string such as "ts" or "a + b"')
        freeze_flags(self, "descending")
        object.__setattr__(self, "delay", freeze_delay("delay", self.delay))

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments that differ from their defaults, as plain data."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: plain_value(name, value) for name, (value, default) in values.items() if value != default}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the order that `to_dict` described."""
        return cls(**restored(values))
