"""The values of IN as intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from juncture.predicate.intervals.interval import Interval, intersect, interval, nothing, truth
from juncture.predicate.language.options import Options
from juncture.predicate.language.types import from_steps, in_steps


def among(options: Options, operand: Interval) -> Interval:
    """Return whether an operand can be one of the values, and can be another value."""
    listed = _listed(options, operand)
    is_nan = operand.may_be_nan and options.has_nan
    is_point = operand.lower is not None and operand.lower == operand.upper
    is_other = (not operand.empty and not (listed and is_point)) or (operand.may_be_nan and not options.has_nan)
    null = operand.may_be_null or (is_other and options.has_null)
    return truth(true=bool(listed) or is_nan, false=is_other and not options.has_null, null=null)


def narrow_to(options: Options, operand: Interval) -> Interval:
    """Return the possible values of an operand that is one of the options."""
    listed, nan = _listed(options, operand), operand.may_be_nan and options.has_nan
    if not listed:
        return nothing(operand.type, nan=nan)
    return intersect(operand, interval(operand.type, *listed, nan=nan))


def _listed(options: Options, operand: Interval) -> list[Any]:
    """Return the first and the last value within an interval; empty if there are none."""
    if operand.empty:
        return []
    values, data_type = options.ordered, options.type
    below = bisect_right if operand.lower_open else bisect_left
    above = bisect_left if operand.upper_open else bisect_right
    first = 0 if operand.lower is None else below(values, in_steps(operand.lower, data_type))
    end = len(values) if operand.upper is None else above(values, in_steps(operand.upper, data_type))
    return [from_steps(value, data_type) for value in (values[first], values[end - 1])] if first < end else []
