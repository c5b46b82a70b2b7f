"""Distances between ``on`` values: tolerances, and the ends of windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import plain_type
from juncture.errors import SchemaError, SpecError, did_you_mean, wrong_type
from juncture.ordered.domain import Distance, Domain
from juncture.ordered.duration import TimeLength, is_duration, length_ns
from juncture.spec.arguments import check_name
from juncture.spec.schema import typed
from juncture.values import plain


def freeze_distance(argument: str, value: object) -> Distance | None:
    """Validate a distance without schemas, and return it in one form. None stays None."""
    distance = plain(value)
    if distance is None:
        return None
    if isinstance(distance, Fraction):
        raise SpecError(
            f"{argument}={value!r} is a fraction that no decimal equals. Pass a Decimal with the digits that you need.",
            name="JN-DISTANCE-VALUE",
        )
    if isinstance(distance, bool) or not isinstance(distance, int | float | Decimal | TimeLength | str):
        expected = 'a number, a timedelta, a duration such as "5m", or the name of a left column'
        raise wrong_type(argument, value, "a distance", expected)
    if isinstance(distance, int | float | Decimal) and Decimal(distance).is_nan():
        raise SpecError(
            f"{argument}=nan would match nothing. Pass a number, or None for no limit.", name="JN-DISTANCE-VALUE"
        )
    if isinstance(distance, TimeLength):
        length_ns(distance, argument=argument)
    return distance


def in_steps(argument: str, value: Distance, domain: Domain, left: pa.Schema) -> Decimal:
    """Return a constant distance in steps of the domain, exactly; infinite if no two values are that far apart."""
    if isinstance(value, str) and not is_duration(value):
        raise SpecError(
            f'{argument}={value!r} is neither a duration, such as "5m", nor a column of the left table. '
            f"{did_you_mean(value, left.names)}",
            name="JN-DURATION-SYNTAX",
        )
    return domain.in_steps(argument, value)


def check_distance_column(argument: str, field: pa.Field, domain: Domain) -> None:
    """Raise SchemaError for a left column whose values are not distances of the domain."""
    data_type = plain_type(field.type)
    if not domain.takes_distances(data_type):
        raise SchemaError(
            f"{argument}={field.name!r} is a left column of type {field.type}, but distances between {domain.kind}s "
            f"need {domain.distance_noun} column. Cast it first.",
            name="JN-DISTANCE-TYPE",
        )


def value_type(distances: Iterable[Distance | None], left: pa.Schema) -> pa.DataType:
    """Return a type for ``on`` columns of the null type that suits the distances: a timestamp for durations."""
    for distance in distances:
        if isinstance(distance, str) and distance in left.names:
            data_type = plain_type(left.field(distance).type)
            if pat.is_duration(data_type):
                return pa.timestamp(data_type.unit)
            if pat.is_floating(data_type) or pat.is_decimal(data_type):
                return data_type
        elif isinstance(distance, TimeLength) or (isinstance(distance, str) and is_duration(distance)):
            return pa.timestamp("us")
    return pa.int64()


def typed_distances(distances: Iterable[Distance | None], domain: Domain, left: pa.Schema) -> pa.Schema:
    """Return a left schema in which distance columns of the null type have the type of the domain's distances."""
    return typed(left, {name: domain.distance_type for name in distances if isinstance(name, str)})


Ends: TypeAlias = tuple[Distance | None, Distance | None]
"""The ends of a window, relative to the left ``on``; None if unbounded."""
Windows: TypeAlias = Mapping[str, Ends | Mapping[str, Any]]
"""The ends of each window by its name: a pair, or a mapping with ``lower`` and ``upper``."""

_SIDES = ("lower", "upper")


def freeze_windows(windows: Windows | None) -> dict[str, Ends] | None:
    """Validate ``windows=`` without schemas, and return a copy in one form: ``{"1h": ("-1h", 0)}``."""
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
    lower, upper = (freeze_distance(f"windows[{name!r}]", end) for end in pair)
    return lower, upper
