"""Overlap joins: each left interval matches all right intervals that share a point with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, TypeAlias, get_args

import pyarrow as pa

from juncture.columnar.schemas import check_columns
from juncture.errors import SpecError, wrong_type
from juncture.ordered.domain import Domain
from juncture.spec.aggregate import Agg
from juncture.spec.arguments import check_choice, check_name
from juncture.spec.base import AggregatingSpec, resolved_matches
from juncture.spec.compared import ComparedColumns, check_keys
from juncture.spec.condition import BoundedValue, JoinCondition, Limit, MatchInterval, OwnInterval, ResolvedInequality
from juncture.spec.conversions import matched_keys, ordered
from juncture.spec.expression import Expr, Key, Keys
from juncture.spec.schema import Closed, How, Side, first_type, shared_domain, typed

Interval: TypeAlias = tuple[str | None, str | None]
KeyInterval: TypeAlias = tuple[Key | None, Key | None]
"""The columns in which an interval starts and ends; None where it is unbounded."""


@dataclass(frozen=True, kw_only=True)
class ResolvedOverlap(ResolvedInequality):
    """An overlap spec, validated against two schemas. An end of an interval is None where it is unbounded."""

    spec: Overlap
    left_interval: Interval
    right_interval: Interval
    domain: Domain
    closed: Closed

    def position(self, side: Side, /) -> tuple[str | None, ...]:
        """Return the start and the end of the interval that a row of a side is."""
        return self.left_interval if side == "left" else self.right_interval

    def swapped(self) -> ResolvedOverlap:
        """Return the join with its sides swapped and without output columns."""
        return replace(
            self,
            left_schema=self.right_schema,
            right_schema=self.left_schema,
            left_computed=self.right_computed,
            right_computed=self.left_computed,
            left_by=self.right_by,
            right_by=self.left_by,
            left_interval=self.right_interval,
            right_interval=self.left_interval,
            output=(),
        )

    @cached_property
    def condition(self) -> JoinCondition:
        """The condition under which two rows match, without ``by``: each starts before the other ends."""
        (left_start, left_end), (right_start, right_end) = self.left_interval, self.right_interval
        is_strict = self.closed != "both"

        def bounded(right: str | None, left: str | None, *, upper: bool) -> BoundedValue | None:
            limits = () if left is None else (Limit(left, upper, is_strict),)
            return None if right is None else BoundedValue(right, limits, self.domain)

        def ends(names: Interval) -> tuple[Limit | None, Limit | None]:
            start, end = names
            return (
                None if start is None else Limit(start, upper=False),
                None if end is None else Limit(end, upper=True),
            )

        def interval(side: Side, names: Interval) -> OwnInterval:
            labels = tuple(self.value(side, name).label for name in names if name is not None)
            return OwnInterval(*names, self.domain, not is_strict, labels)

        return JoinCondition(
            first=bounded(right_start, left_end, upper=True),
            second=None if left_start is None else bounded(right_end, left_start, upper=False),
            left_interval=interval("left", self.left_interval),
            right_interval=interval("right", self.right_interval),
            interval=MatchInterval(ends(self.left_interval), ends(self.right_interval), self.domain),
        )


@dataclass(frozen=True, kw_only=True)
class Overlap(AggregatingSpec):
    """An overlap join as a value: match the rows whose intervals share a point.

    Two rows match if their ``by`` are equal and their intervals overlap. A spec is immutable and independent of tables
    and engines. Pass it to `juncture.plan`, `juncture.stream`, `juncture.changes` or `juncture.Right`.

    Its arguments are those of `juncture.join_overlap`, which runs the join at once. A spec costs nothing to create.

    Raises
    ------
    SpecError
        If an argument is invalid whatever the tables are.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> calls = pa.table({"start": [1, 8], "end": [4, 9]})
    >>> outages = pa.table({"begin": [3], "finish": [6], "cell": ["a"]})
    >>> spec = jn.Overlap(left_interval=("start", "end"), right_interval=("begin", "finish"))
    >>> jn.plan(calls, outages, spec).execute().to_pydict()
    {'start': [1], 'end': [4], 'begin': [3], 'finish': [6], 'cell': ['a']}
    >>> jn.Overlap.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "overlap"
    title: ClassVar[str] = "an overlap join"

    left_interval: KeyInterval
    right_interval: KeyInterval
    by: Keys | None = None
    left_by: Keys | None = None
    right_by: Keys | None = None
    closed: Closed = "left"
    how: How | None = None
    agg: Agg | None = field(default=None, hash=False)
    suffix: str = "_right"

    def __post_init__(self) -> None:
        for argument in ("left_interval", "right_interval"):
            object.__setattr__(self, argument, _interval(argument, getattr(self, argument)))
        check_choice("closed", self.closed, get_args(Closed))
        self.check_matches()

    def ordered_keys(self) -> tuple[list[Key | None], list[Key | None]]:
        """Return the left and the right columns and expressions whose values are compared by their order."""
        return list(self.left_interval), list(self.right_interval)

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedOverlap:
        """Return the join of tables with these Arrow schemas. Raises as described in `Spec.resolve`."""
        columns = ComparedColumns(left, right)
        ends: list[tuple[Side, str]] = []
        keys_by_side: dict[Side, KeyInterval] = {"left": self.left_interval, "right": self.right_interval}
        for side, keys in keys_by_side.items():
            names = [columns.name(key, side, f"{side}_interval") for key in keys if key is not None]
            check_columns(columns.schema(side), names, argument=f"{side}_interval", side=side)
            ends += [(side, name) for name in names]
        by = columns.pairs(self.by_pairs(), "by", shared=self.by is not None)
        by = matched_keys(columns, by, fills=self.how in ("right", "full"))
        compared = iter(ordered(columns, ends))
        intervals = _called(self.left_interval, compared), _called(self.right_interval, compared)
        return self._resolved(columns, intervals, by)

    def _retyped(self, join: ResolvedOverlap, columns: ComparedColumns) -> ResolvedOverlap:
        return self._resolved(columns, (join.left_interval, join.right_interval), join.by_pairs)

    def _resolved(
        self, columns: ComparedColumns, intervals: tuple[Interval, Interval], equal: Sequence[tuple[str, str]]
    ) -> ResolvedOverlap:
        """Return the join of tables that contain all columns that it compares."""
        left_interval, right_interval = intervals
        lefts = [name for name in left_interval if name is not None]
        rights = [name for name in right_interval if name is not None]
        ends: list[tuple[Side, pa.Field]] = [("left", columns.field("left", name)) for name in lefts]
        ends += [("right", columns.field("right", name)) for name in rights]
        domain = shared_domain(ends, role="interval")
        end_type = first_type(field for _, field in ends)
        columns.left = typed(columns.left, dict.fromkeys(lefts, end_type))
        columns.right = typed(columns.right, dict.fromkeys(rights, end_type))
        check_keys(columns, equal)
        columns.type_nulls(equal)
        return ResolvedOverlap(
            spec=self,
            **resolved_matches(self, columns, equal, ordered_by=right_interval[0]),
            left_interval=left_interval,
            right_interval=right_interval,
            domain=domain,
            closed=self.closed,
        )


def _called(interval: KeyInterval, names: Iterator[str]) -> Interval:
    """Return an interval with other names for its ends."""
    start, end = (None if key is None else next(names) for key in interval)
    return start, end


def _interval(argument: str, value: object) -> KeyInterval:
    """Validate the two columns of an interval, and return them as a tuple. A mapping may name one end only."""
    if isinstance(value, Mapping):
        if not value.keys() <= {"start", "end"}:
            raise SpecError(
                f'{argument}={value!r} has keys other than "start" and "end". Expected for example '
                f'{argument}={{"start": "begin"}}.',
                name="JN-ARGUMENT-VALUE",
            )
        value = value.get("start"), value.get("end")
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        expected = f'the start and the end, such as {argument}=("start", "end")'
        raise wrong_type(argument, value, "a pair of columns", expected, name="JN-INTERVAL-PAIR")
    for name in value:
        if name is not None and not isinstance(name, Expr):
            check_name(argument, name)
    start, end = value
    if start is None and end is None:
        raise SpecError(
            f"{argument}=(None, None) has no start and no end, so it overlaps every interval. Name at least one "
            "column.",
            name="JN-INTERVAL-UNBOUNDED",
        )
    return start, end
