"""Regular spines: rows at equal steps for each key, and values interpolated between the rows before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from numbers import Number
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.schemas import check_columns
from juncture.columnar.types import plain_type
from juncture.errors import SchemaError, SpecError, wrong_type
from juncture.ordered.domain import Distance, Domain
from juncture.spec.arguments import check_name, check_suffix, names_of
from juncture.spec.asof import Asof
from juncture.spec.compared import ComparedColumns, check_keys
from juncture.spec.distance import freeze_distance, in_steps
from juncture.spec.expression import Expr
from juncture.spec.many import Right
from juncture.spec.schema import common_domain, free_name, shared_domain


@dataclass(frozen=True, kw_only=True)
class ResolvedGrid:
    """A grid, validated against the schema of its data."""

    on: str
    type: pa.DataType
    domain: Domain
    by: tuple[str, ...]
    every: int  # in steps of the domain
    first: str | None  # the columns whose least and greatest value bound a key; None where the constants below do
    last: str | None
    start: pa.Scalar | None
    end: pa.Scalar | None
    is_rounded: bool  # whether a key starts at a multiple of the step


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The meaning of a grid.

    Each key of ``by`` has rows ``every`` step from ``start`` to ``end``: constants, or columns whose least and greatest
    value per key count. By default these are the bounds of ``on``, the first rounded down to a multiple of ``every``.
    """

    on: str
    every: Distance
    by: str | Sequence[str] = ()
    start: Any = None
    end: Any = None

    def __post_init__(self) -> None:
        check_name("on", self.on)
        names = names_of("by", self.by)
        if self.on in names or len(set(names)) < len(names):
            raise SpecError(
                f"by={list(names)!r} and on={self.on!r} name a column twice. Remove the duplicate.",
                name="JN-COLUMN-REPEATED",
            )
        object.__setattr__(self, "by", names)
        every = freeze_distance("every", self.every)
        if every is None:
            raise SpecError(
                'every=None is not a step. Expected a number, a timedelta, or a duration such as "1h".',
                name="JN-ARGUMENT-TYPE",
            )
        object.__setattr__(self, "every", every)

    def resolve(self, schema: pa.Schema) -> ResolvedGrid:
        """Return the grid for data with this schema. Raises SpecError or SchemaError."""
        check_columns(schema, self.by, argument="by", side="left")
        check_keys(ComparedColumns(schema, schema), [(name, name) for name in self.by])
        ends = {name: self._end(name, schema) for name in ("start", "end")}
        columns = [each for each in ends.values() if isinstance(each, str)]
        if self.on in schema.names:
            data_type = schema.field(self.on).type
        elif columns:
            data_type = schema.field(columns[0]).type
        else:
            data_type = constant_of("start", self.start, None).type
        domain = shared_domain([("left", pa.field(self.on, data_type))], role="on").unshifted
        if not domain.has_regular_steps:
            raise SchemaError(
                f"on={self.on!r} has type {data_type}, which has no regular steps. Cast it to an integer, date or "
                "timestamp first.",
                name="JN-TYPE-UNSUPPORTED",
            )
        steps = in_steps("every", self.every, domain, pa.schema([]))
        if steps != steps.to_integral_value() or not 0 < steps < 2**63:
            raise SpecError(
                f"every={self.every!r} is not a whole number of steps of on={self.on!r} ({data_type}). Expected one "
                "step or more.",
                name="JN-GRID-STEP",
            )
        first, last = (each if isinstance(each, str) else None for each in ends.values())
        return ResolvedGrid(
            on=self.on,
            type=data_type,
            domain=domain,
            by=tuple(self.by),
            every=int(steps),
            first=first,
            last=last,
            start=None if first is not None else constant_of("start", self.start, data_type),
            end=None if last is not None else constant_of("end", self.end, data_type),
            is_rounded=self.start is None,
        )

    def _end(self, name: str, schema: pa.Schema) -> str | Any:
        """Return the column that bounds keys, or the constant."""
        value = getattr(self, name)
        if value is not None and not isinstance(value, str):
            return value
        column = self.on if value is None else value
        check_columns(schema, [column], argument=name if value is not None else "on", side="left")
        return column


def constant_of(argument: str, value: Any, data_type: pa.DataType | None) -> pa.Scalar:
    """Return a value as a scalar of a type, or of its own type; raise SpecError if that is impossible."""
    if data_type is not None and not pat.is_integer(data_type):
        zone = data_type.tz if pat.is_timestamp(data_type) else None
        is_zoned = isinstance(value, datetime) and value.tzinfo is not None
        if isinstance(value, Number) or is_zoned != (zone is not None):
            raise SpecError(
                f"{argument}={value!r} ({type(value).__name__}) is not a {data_type}. Expected a date or time "
                f"{'without' if zone is None else 'with'} a time zone, or the name of a column.",
                name="JN-GRID-BOUND",
            )
    try:
        constant = pa.scalar(value, data_type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) is not a {data_type or 'value'}. Expected a value of the "
            f"type of on=, or the name of a column. Arrow reports: {error}",
            name="JN-GRID-BOUND",
        ) from error
    if not constant.is_valid:
        raise SpecError(
            f"{argument}={value!r} is null. Expected a value, or the name of a column.", name="JN-GRID-BOUND"
        )
    return constant


def key_combinations(by: Any, start: Any, end: Any) -> tuple[pa.Table, list[str]]:
    """Return every combination of the key values in ``by``, with a column per key."""
    if by and not isinstance(by, Mapping):
        raise SpecError(
            f'by={by!r} names columns, but data is None. Pass data, or a mapping of values such as by={{"sensor": '
            f'["a", "b"]}}.',
            name="JN-ARGUMENT-CONFLICT",
        )
    for name, value in (("start", start), ("end", end)):
        if value is None or isinstance(value, str):
            raise SpecError(
                f"{name}={value!r} is not a value, and data is None, so it cannot be read from a column. Pass a "
                f"value, such as {name}=0 or a datetime.",
                name="JN-ARGUMENT-CONFLICT",
            )
        constant_of(name, value, None)
    names = list(by)
    for name in names:
        if isinstance(by[name], str) or not isinstance(by[name], Sequence):
            raise wrong_type(f"by[{name!r}]", by[name], "a list of values", 'for example ["a", "b"]')
    if not names:
        return pa.table({"nothing": pa.array([0])}), []
    rows = list(product(*by.values()))
    types = [pa.array(list(values)).type for values in by.values()]
    columns = [pa.array([row[index] for row in rows], data_type) for index, data_type in enumerate(types)]
    return pa.table(columns, names=names), names


# Chosen to differ from the names of the user's columns.
BEFORE, AFTER = "juncture:before:", "juncture:after:"
"""Prefixes of the columns of the row before and of the row after."""


@dataclass(frozen=True)
class InterpolatedColumns:
    """The columns to interpolate between the rows before and after."""

    left_columns: tuple[str, ...]  # the left columns
    on: str
    right_on: str
    domain: Domain
    columns: tuple[tuple[str, str], ...]  # pairs of a right column and the output name of its values


@dataclass(frozen=True, kw_only=True)
class Interpolation:
    """The meaning of an interpolation: the as-of joins for the rows before and after, and the columns of numbers."""

    before: Asof
    after: Asof
    columns: tuple[str, ...]
    suffix: str

    @classmethod
    def of(
        cls,
        columns: str | Sequence[str],
        tolerance: Distance | tuple[Distance | None, Distance | None] | None,
        suffix: str,
        **shared: object,
    ) -> Interpolation:
        """Validate the arguments of `juncture.interpolate`, and return their meaning."""
        names = names_of("columns", columns)
        if not names or len(set(names)) < len(names):
            raise SpecError(
                f"columns={columns!r} is empty or names a column twice. Expected one or more different right columns "
                "with numbers.",
                name="JN-ARGUMENT-VALUE",
            )
        check_suffix(suffix)
        sides = tolerance if isinstance(tolerance, tuple | list) else (tolerance, tolerance)
        if len(sides) != 2:
            raise SpecError(
                f"tolerance={tolerance!r} has {len(sides)} values. Expected one distance, or a pair for the row "
                "before and the row after.",
                name="JN-ARGUMENT-VALUE",
            )
        before, after = (
            # The interpolation needs the times of the right rows, so the right `on` must remain a column.
            Asof(direction=direction, tolerance=each, coalesce=False, **shared)  # type: ignore[arg-type]
            for direction, each in (("backward", sides[0]), ("forward", sides[1]))
        )
        for key in (*before.on_pair(), *(key for pair in before.by_pairs() for key in pair)):
            if isinstance(key, Expr):
                raise SpecError(
                    f"{key.text!r} is an expression, but interpolation needs columns. Add it to the tables as a column "
                    "first.",
                    name="JN-INTERPOLATE-EXPRESSION",
                )
        return cls(before=before, after=after, columns=names, suffix=suffix)

    def tables(self, right: object) -> dict[str, Right]:
        """Return the right table twice, for `join_many`: joined for the row before and for the row after."""
        wanted = dict.fromkeys([str(self.before.on_pair()[1]), *self.columns])
        return {
            "the row before": Right(right, self.before, {name: BEFORE + name for name in wanted}),
            "the row after": Right(right, self.after, {name: AFTER + name for name in wanted}),
        }

    def resolve(self, left: pa.Schema, right: pa.Schema) -> InterpolatedColumns:
        """Validate the interpolation against two schemas."""
        on, right_on = map(str, self.before.on_pair())
        check_columns(right, self.columns, argument="columns", side="right")
        check_columns(left, [on], argument="on", side="left")
        check_columns(right, [right_on], argument="on", side="right")
        named, taken = list[tuple[str, str]](), set(left.names)
        for name in self.columns:
            data_type = plain_type(right.field(name).type)
            if not (pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)):
                raise SchemaError(
                    f"columns={name!r} is a right column of type {data_type}, but interpolation needs numbers. Cast "
                    "it to an integer, float or decimal first.",
                    name="JN-TYPE-UNSUPPORTED",
                )
            named.append((name, free_name(name, self.suffix, taken, f"Right column {name!r}")))
        domain = common_domain(left.field(on), right.field(right_on))
        return InterpolatedColumns(tuple(left.names), on, right_on, domain, tuple(named))
