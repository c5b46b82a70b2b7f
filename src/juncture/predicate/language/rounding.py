"""Rounding of exact numbers to the values of a type: floats up or down, decimals and integers to a step."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from juncture.predicate.language.types import Real


def exact(value: int | Fraction | float) -> Real:
    """Return a number as an exact one; infinities stay floats."""
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else Fraction(value)
    return int(value) if isinstance(value, bool) else value


def near_float(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number; infinite beyond the greatest."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if bits == 64 or not math.isfinite(number):
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def float_below(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number and not above it."""
    near = near_float(value, bits)
    return near if exact(near) <= value else next_float(near, -1, bits)


def float_above(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number and not below it."""
    near = near_float(value, bits)
    return near if exact(near) >= value else next_float(near, 1, bits)


def next_float(value: float, direction: int, bits: int) -> float:
    """Return the neighbor of a float, upward or downward."""
    toward = math.inf if direction > 0 else -math.inf
    if bits == 64:
        return math.nextafter(value, toward)
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(value), np.float32(toward)))


def floor_to(value: Real, step: Real) -> Real:
    """Return the greatest multiple of a step that is not above a number."""
    if step == 1:
        return math.floor(value)
    return math.floor(Fraction(value) / step) * step


def half_up(value: Real, step: Real) -> Real:
    """Return the multiple of a step nearest to a number; of two, the one farther from zero, as in Spark."""
    half = Fraction(step) / 2
    return floor_to(value + half, step) if value >= 0 else -floor_to(half - value, step)
