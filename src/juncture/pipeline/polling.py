"""The interval at which a pipeline polls its sources."""

from __future__ import annotations

from juncture.errors import SpecError
from juncture.ordered.duration import TimeLength, duration_ns

_NS_PER_MS = 1_000_000


def poll_interval_ms(value: str | TimeLength | None, *, argument: str = "poll_interval") -> int | None:
    """Return a polling interval in milliseconds, the unit of Spark's triggers, rounded up; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str | TimeLength):
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) is not a duration. Expected text such as '10s', or a "
            "timedelta.",
            name="JN-ARGUMENT-TYPE",
        )
    nanoseconds = duration_ns(value, argument=argument)
    if nanoseconds < 0:
        raise SpecError(
            f"{argument}={value!r} is negative. Expected zero or more, such as '10s'.", name="JN-ARGUMENT-VALUE"
        )
    return -(-nanoseconds // _NS_PER_MS)
