"""The ``windows=`` argument of range joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from juncture.errors import SpecError
from juncture.ordered.domain import Distance
from juncture.spec.arguments import check_name
from juncture.spec.distance import freeze_distance

Ends: TypeAlias = tuple[Distance | None, Distance | None]
"""The ends of a window, relative to the left ``on``; None if unbounded."""
Windows: TypeAlias = Mapping[str, Ends | Mapping[str, Any]]
"""The ends of each window by its name: a pair, or a mapping with ``lower`` and ``upper``."""

_SIDES = ("lower", "upper")


def freeze_windows(windows: Windows | None) -> dict[str, Ends] | None:
    """Validate ``windows=`` without schemas, and return a copy in one form.

    Examples
    --------
    >>> freeze_windows({"1h": ["-1h", 0], "before": {"upper": 0}})
    {'1h': ('-1h', 0), 'before': (None, 0)}
    """
    if windows is None:
        return None
    if not isinstance(windows, Mapping) or not windows:
        raise SpecError(
            f'windows={windows!r} is not a mapping of names to windows. Expected for example windows={{"1h": '
            '("-1h", 0), "7d": ("-7d", 0)}.',
            name="JN-WINDOWS-FORM",
        )
    return {name: _frozen(name, ends) for name, ends in windows.items()}


def _frozen(name: str, ends: Any) -> Ends:
    check_name("windows", name)
    if isinstance(ends, Mapping):
        unknown = [side for side in ends if side not in _SIDES]
        pair: Any = None if unknown else [ends.get(side) for side in _SIDES]
    else:
        pair = ends if isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2 else None
    if pair is None:
        raise SpecError(
            f'windows[{name!r}]={ends!r} is not a window. Expected its two ends, such as ("-1h", 0), '
            'or one of them if the other is open, such as {"upper": 0}.',
            name="JN-WINDOWS-FORM",
        )
    lower, upper = (_distance(f"windows[{name!r}]", end) for end in pair)
    return lower, upper


def _distance(argument: str, end: Any) -> Distance | None:
    """Return an end of a window in one form. Decimals are encoded as in `Spec.to_dict`."""
    if isinstance(end, Mapping) and end.keys() == {"decimal"}:
        end = Decimal(end["decimal"])
    frozen: Distance | None = freeze_distance(argument, end)
    return frozen
