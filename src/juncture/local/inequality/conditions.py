"""What an in-process join uses of a predicate: equal expressions, and limits of right expressions.

All that is used is *conservative*: it holds wherever the predicate does. Where it is also *exact*, the predicate need
not be evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import Mask, plain
from juncture.columnar.order_encoding import StepCoder
from juncture.kernels.array_types import Ints
from juncture.local.inequality.limits import GREATEST, LEAST, Axis, both
from juncture.local.inequality.limits import End as LimitEnd
from juncture.predicate.decompose.shape import Band, Containment, End, Key, Overlap, Shape
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.nodes import Column, Node, sides
from juncture.predicate.language.types import Type, arrow_type
from juncture.spec.schema import TIME_UNITS, Domain

__all__ = ["Equality", "Limit", "Line", "equalities_of", "limits_of", "line_of", "offset_of", "sorting_line"]


@dataclass(frozen=True)
class Equality:
    """Two expressions that are equal in every match.

    Attributes
    ----------
    left, right
        The expressions.
    type
        The type that both are converted to; None if they can be coded as they are.
    null_safe
        Whether two nulls are equal.
    exact
        Whether the converted values are equal only where the expressions are.
    """

    left: Node
    right: Node
    type: pa.DataType | None
    null_safe: bool
    exact: bool

    def types(self, node: Node) -> list[pa.DataType]:
        """Return the types of the key columns of a side."""
        value = self.type or arrow_type(node.type)
        return [pa.bool_(), value] if self.null_safe else [value]

    def columns(self, values: pa.Array) -> list[pa.Array]:
        """Return the key columns of a side by the values of its expression."""
        if self.type is not None:
            values = values.cast(self.type, safe=False)
        if not self.null_safe:
            return [values]
        return [pc.is_null(values), pc.fill_null(values, _zero(values.type))]


def equalities_of(shape: Shape) -> tuple[list[Equality], bool]:
    """Return the equalities that rows can be brought together by, and whether these are all, and exact."""
    found = [equality for key in shape.keys if (equality := _equality(key))]
    return found, len(found) == len(shape.keys) and all(equality.exact for equality in found)


def _equality(key: Key) -> Equality | None:
    kinds = {key.left.type.kind, key.right.type.kind}
    if "null" in kinds or (kinds == {"duration"} and key.left.type.unit != key.right.type.unit):
        return None
    if len(kinds) == 1:
        return Equality(key.left, key.right, None, key.null_safe, exact=True)
    if not kinds <= {"integer", "decimal", "float"}:
        return None
    if "float" in kinds:
        return Equality(key.left, key.right, pa.float64(), key.null_safe, exact=False)
    scale = max(key.left.type.scale, key.right.type.scale)
    if scale > 19:
        return None
    return Equality(key.left, key.right, pa.decimal256(38 + scale, scale), key.null_safe, exact=True)


def _zero(data_type: pa.DataType) -> pa.Scalar:
    """Return a value that nulls have in common; that they are null is told apart from it."""
    if pa.types.is_boolean(data_type):
        return pa.scalar(False)
    if pa.types.is_decimal(data_type):
        return pa.scalar(Decimal(0), data_type)
    if pa.types.is_string(data_type):
        return pa.scalar("")
    if pa.types.is_binary(data_type):
        return pa.scalar(b"")
    if pa.types.is_date32(data_type):
        return pa.scalar(0, pa.int32()).cast(data_type)
    return pa.scalar(0, pa.int64()).cast(data_type)


@dataclass(frozen=True)
class Limit:
    """A limit of a right expression: a left one and a constant.

    Attributes
    ----------
    left, right
        The expressions.
    offset
        Added to the left one: a number, or seconds.
    upper, strict
        Which end it is, and whether the end itself does not match.
    """

    left: Node
    right: Node
    offset: Fraction
    upper: bool
    strict: bool


def limits_of(shape: Shape) -> list[Limit]:
    """Return all limits of right expressions that a shape tells of."""
    limits: list[Limit] = []
    for band in (*shape.bands, *shape.inequalities):
        limits += _band_limits(band)
    for containment in shape.containments:
        limits += _containment_limits(containment)
    for overlap in shape.overlaps:
        limits += _overlap_limits(overlap)
    return limits


def _band_limits(band: Band) -> list[Limit]:
    ends = ((band.lower, False), (band.upper, True))
    return [_limit(band.right, end, upper=upper) for end, upper in ends if end is not None]


def _containment_limits(part: Containment) -> list[Limit]:
    if sides(part.point) == {"right"}:
        return [_limit(part.point, part.lower, upper=False), _limit(part.point, part.upper, upper=True)]
    # The point is left, so the ends are what is limited by it, from the other direction.
    return [
        Limit(part.point, end.expression, -offset_of(end), upper, end.strict)
        for end, upper in ((part.lower, True), (part.upper, False))
    ]


def _overlap_limits(part: Overlap) -> list[Limit]:
    return [_limit(part.right_start, part.left_end, upper=True), _limit(part.right_end, part.left_start, upper=False)]


def _limit(right: Node, end: End, *, upper: bool) -> Limit:
    return Limit(end.expression, right, offset_of(end), upper, end.strict)


def offset_of(end: End) -> Fraction:
    """Return an end's offset as a number, or in seconds."""
    if not end.unit:
        return Fraction(end.offset)
    return Fraction(end.offset) * (86_400 if end.unit == "d" else Fraction(1, 1_000 ** TIME_UNITS.index(end.unit)))


@dataclass(frozen=True)
class Line:
    """The order of a right expression's values, and the limits of it.

    Attributes
    ----------
    right
        The expression.
    limits
        Limits of it, whose left expressions are of the same kind.
    axis
        The codes.
    type
        The type that all values are converted to; None if they are of one kind.
    """

    right: Node
    limits: tuple[Limit, ...]
    axis: Axis
    type: pa.DataType | None

    @property
    def is_exact(self) -> bool:
        """Whether values are within the limits only where the expressions are."""
        return self.axis.domain.kind != "float" or (
            self.type is None and not any(limit.offset for limit in self.limits)
        )

    @property
    def is_band(self) -> bool:
        """Whether there are limits on both ends."""
        return len({limit.upper for limit in self.limits}) == 2

    def toward(self, *, upper: bool) -> Line:
        """Return the line with the limits of one end only."""
        return replace(self, limits=tuple(limit for limit in self.limits if limit.upper == upper))

    def by_rank(self, batches: Iterable[pa.RecordBatch]) -> Line:
        """Return the line with the values of right rows coded by rank."""
        columns = (self._values(evaluate(self.right, right=batch)) for batch in batches)
        return replace(self, axis=self.axis.by_rank(columns))

    def encode(self, batch: pa.RecordBatch) -> tuple[Ints, Mask | None]:
        """Return the codes of right rows, and which rows have one."""
        return self.axis.encode(self._values(evaluate(self.right, right=batch)))

    def ends(self, batch: pa.RecordBatch) -> tuple[Ints | None, Ints | None, Mask | None]:
        """Return the least and the greatest code that left rows limit right ones to, and which rows any may satisfy."""
        ends: dict[bool, Ints] = {}
        possible: Mask | None = None
        for limit in self.limits:
            values = self._values(evaluate(limit.left, left=batch))
            loose = not self.is_exact
            steps = self.steps(limit.offset)
            codes, here = self.axis.limits(values, steps, LimitEnd(limit.upper, limit.strict and not loose))
            if loose:
                # What was rounded may be one float off.
                codes = (
                    np.where(codes < GREATEST, codes + 1, codes)
                    if limit.upper
                    else np.where(codes > LEAST, codes - 1, codes)
                )
            possible = both(possible, here)
            if limit.upper in ends:
                codes = (np.minimum if limit.upper else np.maximum)(codes, ends[limit.upper])
            ends[limit.upper] = codes
        return ends.get(False), ends.get(True), possible

    def _values(self, array: pa.Array) -> pa.Array:
        array = plain(array)
        return array if self.type is None else array.cast(self.type, safe=False)

    def steps(self, offset: Fraction) -> float | Fraction:
        """Return an offset, a number or seconds, in steps of the axis."""
        domain = self.axis.domain
        if domain.kind == "float":
            return float(offset)
        if domain.is_time:
            return offset * Fraction(10**9, domain.step_ns)
        return offset * domain.steps_in_one


def line_of(right: Node, limits: list[Limit]) -> Line | None:
    """Return the line of a right expression with those of the limits that its type allows; None if there are none."""
    usable = []
    domain: Domain | None = None
    seen = {right.type}
    for limit in limits:
        joined = _domain([limit.left.type, right.type])
        if limit.right == right and joined is not None and (domain is None or domain.kind == joined.kind):
            usable.append(limit)
            if domain is None or limit.left.type not in seen:
                seen.add(limit.left.type)
                domain = _domain(list(seen))
    if domain is None:
        return None
    target = None
    if len({each.kind for each in seen}) > 1:
        target = pa.float64() if domain.kind == "float" else pa.decimal128(38, domain.scale)
    return Line(right, tuple(usable), Axis(StepCoder(domain), nan_counts=True), target)


def _domain(types: list[Type]) -> Domain | None:
    """Return the domain in which values of some types are compared; None if there is none."""
    kinds = {each.kind for each in types}
    scale = max(each.scale for each in types)
    if kinds == {"integer"}:
        return Domain("integer")
    if kinds == {"date"}:
        return Domain("date", unit="d")
    if kinds == {"timestamp"}:
        return Domain("timestamp", unit=max((each.unit for each in types), key=TIME_UNITS.index))
    if kinds <= {"integer", "float", "decimal"} and "float" in kinds:
        return Domain("float")
    if kinds == {"decimal"} or (kinds == {"integer", "decimal"} and scale <= 19):
        return Domain("decimal", scale=scale)
    return None


def sorting_line(columns: Iterable[Column]) -> Line | None:
    """Return a line without limits, of the first right column whose values can be sorted by in 64 bits."""
    for column in columns:
        domain = _domain([column.type])
        if column.side == "right" and domain is not None and domain.kind != "decimal":
            return Line(column, (), Axis(StepCoder(domain), nan_counts=True), None)
    return None
