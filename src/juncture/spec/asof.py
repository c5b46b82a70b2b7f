"""As-of joins: each left row matches the right row in force at its time, searched for in one direction or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import pyarrow as pa

from juncture.columnar.schemas import check_columns, check_order, check_ties
from juncture.errors import SpecError
from juncture.ordered.domain import Distance, Domain, Tolerance
from juncture.ordered.duration import TimeLength, duration_ns, is_duration
from juncture.ordered.tuples import Tuples
from juncture.spec.arguments import (
    check_choice,
    check_condition,
    check_suffix,
    freeze_flags,
    freeze_names,
    names_of,
    time_columns,
)
from juncture.spec.base import OrderedSpec
from juncture.spec.compared import ComparedColumns, check_keys, output_columns
from juncture.spec.conversions import filled, matched_keys, ordered
from juncture.spec.distance import check_distance_column, freeze_distance, in_steps, typed_distances, value_type
from juncture.spec.expression import Key, Keys
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, How, Side, common_domain, shared_domain
from juncture.values import whole_number

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node


DirectionName = Literal["backward", "forward", "nearest"]


@dataclass(frozen=True, slots=True)
class Direction:
    """A search among the right rows before a left row, or after it (``forward``), in the order of ``on``."""

    forward: bool
    strict: bool  # whether right rows with an equal ``on`` are excluded

    @property
    def name(self) -> Literal["backward", "forward"]:
        """The name of the direction."""
        return "forward" if self.forward else "backward"


def directions_of(name: DirectionName, *, strict: bool) -> tuple[Direction, ...]:
    """Return the searches of an as-of join: two for ``nearest``. ``strict`` excludes equal values."""
    if name == "nearest":
        # The backward search finds equal values.
        return Direction(forward=False, strict=strict), Direction(forward=True, strict=True)
    return (Direction(forward=name == "forward", strict=strict),)


Prefer = Literal["earlier", "later"]
Ties = Literal["greatest", "first", "last", "error"]

_CHOICES = {
    argument: get_args(values)
    for argument, values in (("direction", DirectionName), ("how", How), ("ties", Ties), ("prefer", Prefer))
}


@dataclass(frozen=True)
class AvailableAt:
    """The columns of ``available_at``: a right row matches if its ``right`` is at most the ``left`` of the left row."""

    left: str
    right: str
    domain: Domain


@dataclass(frozen=True, kw_only=True)
class ResolvedAsof(Resolved):
    """An as-of spec, validated against two schemas.

    ``left_on`` and ``right_on`` name a tuple column if the spec orders by several columns. ``tie_columns`` are the
    right columns that break ties, the most significant first: the greatest wins, or the least with ``ties="first"``,
    with nulls lowest and NaN highest. They are empty if the order of the right table breaks ties.
    """

    spec: Asof
    left_on: str
    right_on: str
    domain: Domain
    tolerance: Tolerance | None = None
    available_at: AvailableAt | None = None
    where: Node | None = None

    @property
    def goes_by_table_order(self) -> bool:
        """Whether the order of the rows in the right table breaks ties."""
        return self.spec.ties in ("first", "last") and not self.spec.order_columns()

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, except those that only break ties."""
        limit = None if self.tolerance is None or side == "right" else self.tolerance.column
        available_at = None if self.available_at is None else getattr(self.available_at, side)
        return self._compared(side, (*super().compared(side), limit, available_at), self.where)

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows."""
        # A hidden column can break ties if it equals its left column as a float only.
        deciding = self.tie_columns if side == "right" and self.how not in ("semi", "anti") else ()
        return tuple(dict.fromkeys((*super().needed(side), *deciding)))

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which left rows search: two for the nearest row."""
        return directions_of(self.spec.direction, strict=not self.spec.allow_exact_matches)

    def position(self, side: Side, /) -> tuple[str | None, ...]:
        """Return the column of a side that places a row in the order."""
        return (self.left_on if side == "left" else self.right_on,)

    def for_tasks(self) -> ResolvedAsof:
        """Return the join for tasks, which see only the needed right columns, with rows in any order."""
        # Columns that are equal in every tie do not break it.
        spec = replace(self.spec, order_by=[name for name in self.spec.order_columns() if name in self.tie_columns])
        if self.how in ("semi", "anti"):
            spec = replace(spec, order_by=(), ties="error" if spec.ties == "error" else "greatest")
        elif spec.ties == "first":
            # Deciding columns may be dropped from the payload, but at least one must stay.
            spec = replace(spec, order_by=(*spec.order_columns(), self.right_on))
        elif spec.ties == "last":
            spec = replace(spec, ties="greatest")
        return replace(self, spec=spec)

    def right_range(self, first: Any, last: Any, distance: int | float | None) -> tuple[Any, Any]:
        """Return the least and the greatest right ``on`` of matches of left rows in a range; None if unlimited.

        ``distance`` is the greatest distance of a match (None if unlimited). All are in steps of the domain.
        """
        # Distances between floats are rounded, so a limit might exclude a match.
        distance = None if self.domain.floating else distance
        backward, forward = (any(each.forward == side for each in self.directions) for side in (False, True))
        low = None if backward and distance is None else first - (distance or 0) * backward
        high = None if forward and distance is None else last + (distance or 0) * forward
        return low, high


@dataclass(frozen=True, kw_only=True)
class Asof(OrderedSpec):
    """An as-of join as a value: match each left row with the closest right row before or after it.

    Among the right rows with equal ``by``, the row with the closest ``on`` in ``direction`` matches. A spec is
    immutable and independent of tables and engines. Pass it to `juncture.plan`, `juncture.stream`, `juncture.changes`
    or `juncture.Right`.

    Its arguments are those of `juncture.join_asof`, which runs the join at once. A spec costs nothing to create.

    Raises
    ------
    SpecError
        If an argument is invalid whatever the tables are.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.table({"ts": [2, 9], "symbol": ["a", "a"]})
    >>> quotes = pa.table({"ts": [1, 4], "symbol": ["a", "a"], "bid": [10.0, 20.0]})
    >>> spec = jn.Asof(on="ts", by="symbol", tolerance=3)
    >>> jn.plan(trades, quotes, spec).execute().to_pydict()
    {'ts': [2, 9], 'symbol': ['a', 'a'], 'bid': [10.0, None]}
    >>> jn.Asof.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "asof"
    title: ClassVar[str] = "an as-of join"
    ranks_matches: ClassVar[bool] = True
    used_for: ClassVar[str] = "to order by"

    on: Keys | None = None
    left_on: Keys | None = None
    right_on: Keys | None = None
    by: Keys | None = None
    left_by: Keys | None = None
    right_by: Keys | None = None
    direction: DirectionName = "backward"
    tolerance: Distance | None = None
    allow_exact_matches: bool = True
    how: How = "left"
    matches: int = 1
    order_by: str | Sequence[str] = ()
    ties: Ties = "greatest"
    prefer: Prefer = "earlier"
    nulls_equal: bool = False
    available_at: str | Sequence[str] | None = None
    where: str | None = None
    coalesce: bool = True
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if not self.on_pairs():
            self.on_pair()
        self.by_pairs()
        for argument, choices in _CHOICES.items():
            check_choice(argument, getattr(self, argument), choices)
        if self.prefer == "later" and self.direction != "nearest":
            raise SpecError(
                f"prefer='later' needs direction='nearest', but direction={self.direction!r}. Pass "
                "direction='nearest', or remove prefer=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        freeze_flags(self, "allow_exact_matches", "nulls_equal", "coalesce")
        matches = whole_number(self.matches)
        if matches is None or matches < 1:
            raise SpecError(
                f"matches={self.matches!r} is not a positive integer. Expected the most right rows per left row, such "
                "as matches=1.",
                name="JN-ARGUMENT-VALUE",
            )
        object.__setattr__(self, "matches", matches)
        check_suffix(self.suffix)
        names_of("order_by", self.order_by)
        object.__setattr__(self, "tolerance", _freeze_tolerance(self.tolerance))
        self.available_at_pair()
        check_condition(self.where, "r.price < l.limit")
        freeze_names(self, "on", "left_on", "right_on", "by", "left_by", "right_by", "order_by", "available_at")

    def available_at_pair(self) -> tuple[str, str] | None:
        """Return the left and the right column of ``available_at``, or None."""
        if self.available_at is None:
            return None
        names = time_columns("available_at", self.available_at)
        if len(names) == 2:
            return names[1], names[0]
        pairs = self.on_pairs()
        if len(pairs) > 1:
            raise SpecError(
                f"available_at={self.available_at!r} names no left column to compare with, and on= has {len(pairs)} "
                f'columns. Pass both, such as available_at=({names[0]!r}, "seen_at").',
                name="JN-AVAILABLE-AT-COLUMNS",
            )
        on = pairs[0][0]
        return on if isinstance(on, str) else on.text, names[0]

    def order_columns(self) -> tuple[str, ...]:
        """Return the columns of ``order_by`` as a tuple."""
        return (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)

    def ordered_keys(self) -> tuple[list[Key | None], list[Key | None]]:
        """Return the left and the right columns and expressions whose values are compared by their order."""
        left, right = super().ordered_keys()
        available_at = self.available_at_pair()
        pair = ([], []) if available_at is None else ([available_at[0]], [available_at[1]])
        return [*left, *pair[0]], [*right, *self.order_columns(), *pair[1]]

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedAsof:
        """Return the join of tables with these Arrow schemas. Raises as described in `Spec.resolve`."""
        columns = ComparedColumns(left, right)
        shared = self.on is not None
        on = columns.pairs(self.on_pairs(), "on", shared=shared)
        by = columns.pairs(self.by_pairs(), "by", shared=self.by is not None)
        available_at = self.available_at_pair()
        if available_at is not None and isinstance(self.available_at, str):
            available_at = on[0][0], available_at[1]
        fills = self.how in ("right", "full")
        by = matched_keys(columns, by, fills=fills, nulls_equal=self.nulls_equal)
        on = [_compared(columns, pair, fills=fills and shared and self.coalesce) for pair in on]
        if len(on) > 1:
            for pair in on:
                for side, name in zip(SIDES, pair, strict=True):
                    check_order(columns.field(side, name), purpose="on=", side=side)
            columns.type_nulls(on)
            lefts, rights = zip(*on, strict=True)
            on = [(columns.tuple_of(lefts, "left"), columns.tuple_of(rights, "right"))]
        if available_at is not None:
            check_columns(columns.left, available_at[:1], argument="available_at", side="left")
            check_columns(columns.right, available_at[1:], argument="available_at", side="right")
            left_time, right_time = ordered(
                columns, [("left", available_at[0]), ("right", available_at[1])], exact=True
            )
            available_at = left_time, right_time
        return self._resolved(columns, on[0], by, available_at)

    def _retyped(self, join: ResolvedAsof, columns: ComparedColumns) -> ResolvedAsof:
        available_at = None if join.available_at is None else (join.available_at.left, join.available_at.right)
        return self._resolved(columns, (join.left_on, join.right_on), join.by_pairs, available_at)

    def _resolved(
        self,
        columns: ComparedColumns,
        on: tuple[str, str],
        by: Sequence[tuple[str, str]],
        available_at_pair: tuple[str, str] | None,
    ) -> ResolvedAsof:
        """Return the join of tables that contain all columns that it compares."""
        order_by, equal = self.order_columns(), list(by)
        check_columns(columns.right, order_by, argument="order_by", side="right")
        for name in order_by:
            check_order(columns.field("right", name), purpose="order_by=", side="right")
        default = value_type([self.tolerance], columns.left) if columns.is_null(on) else None
        domain = _domain(columns, on, default)
        self._check_distances(domain)
        columns.type_nulls([on], default)
        check_keys(columns, by)
        columns.type_nulls(by)
        columns.left = typed_distances([self.tolerance], domain, columns.left)
        available_at = None
        if available_at_pair is not None:
            available_at = _available_at(columns, available_at_pair)
            columns.type_nulls([available_at_pair])
        if self.on is not None and self.coalesce:
            equal += zip(columns.part_names("left", on[0]), columns.part_names("right", on[1]), strict=True)
        compared = [on[1], *(pair[1] for pair in by), *([available_at.right] if available_at else [])]
        tie_columns = self._tie_columns(columns, compared)
        if self.how not in ("semi", "anti") and (self.ties != "error" or self.matches > 1):
            check_ties(columns.right, tie_columns, remedy=", or pass ties='error' with matches=1")
        return ResolvedAsof(
            spec=self,
            how=self.how,
            **columns.sides(by),
            left_on=on[0],
            right_on=on[1],
            domain=domain,
            tolerance=_resolve_tolerance(self.tolerance, domain, columns.left),
            available_at=available_at,
            nulls_equal=self.nulls_equal,
            where=None if self.where is None else columns.predicate(self.where),
            tie_columns=tie_columns,
            output=output_columns(columns, how=self.how, equal=equal, suffix=self.suffix),
        )

    def _check_distances(self, domain: Domain) -> None:
        """Raise SpecError if the join needs distances between values that have none."""
        if domain.has_distances or (self.tolerance is None and self.direction != "nearest"):
            return
        argument = f"tolerance={self.tolerance!r}" if self.tolerance is not None else "direction='nearest'"
        raise SpecError(
            f"{argument} needs numeric or temporal columns, but {self.on_names()[0]!r} is {domain.phrase}, which has "
            f"no distances. {domain.distances_remedy}, or pass direction='backward' or 'forward' without tolerance=.",
            name="JN-TOLERANCE-TYPE",
        )

    def _tie_columns(self, columns: ComparedColumns, compared: Sequence[str]) -> tuple[str, ...]:
        """Return the right columns that break ties, except compared ones, which are equal in a tie."""
        order_by = self.order_columns()
        if self.ties in ("first", "last") and not order_by:
            return ()
        fixed = set(compared)
        for value in columns.computed["right"]:
            if value.name in compared:
                fixed.update(value.equal_names)
        names = dict.fromkeys((*order_by, *columns.input_schema("right").names))
        return tuple(name for name in names if name not in fixed)


def _compared(columns: ComparedColumns, pair: tuple[str, str], *, fills: bool) -> tuple[str, str]:
    """Return a comparable pair of columns; with ``fills``, of one type, since right values fill the left column."""
    left_name, right_name = ordered(columns, [("left", pair[0]), ("right", pair[1])], exact=True)
    return filled(columns, left_name, right_name) if fills else (left_name, right_name)


def _domain(columns: ComparedColumns, on: tuple[str, str], default: pa.DataType | None) -> Domain:
    """Return the domain in which ``on`` is compared: tuples part by part."""
    parts = zip(columns.parts("left", on[0]), columns.parts("right", on[1]), strict=True)
    domains = tuple(common_domain(*pair, default=default, mixed=True) for pair in parts)
    return Tuples(domains) if len(domains) > 1 else domains[0]


def _available_at(columns: ComparedColumns, pair: tuple[str, str]) -> AvailableAt:
    sides: list[tuple[Side, pa.Field]] = [
        ("left", columns.field("left", pair[0])),
        ("right", columns.field("right", pair[1])),
    ]
    return AvailableAt(*pair, shared_domain(sides, role="available_at", mixed=True))


def _freeze_tolerance(value: object) -> Distance | None:
    """Validate a tolerance without schemas, and return it in one form."""
    tolerance = freeze_distance("tolerance", value)
    if tolerance is None or (isinstance(tolerance, str) and not is_duration(tolerance)):
        return tolerance
    if isinstance(tolerance, str | TimeLength):
        is_negative = duration_ns(tolerance, argument="tolerance") < 0
    else:
        is_negative = tolerance < 0
    if is_negative:
        raise SpecError(
            f"tolerance={tolerance!r} is negative. Expected zero or more. To choose the side, pass "
            "direction='backward', 'forward' or 'nearest'.",
            name="JN-TOLERANCE-NEGATIVE",
        )
    return tolerance


def _resolve_tolerance(tolerance: Distance | None, domain: Domain, left: pa.Schema) -> Tolerance | None:
    """Return a tolerance in steps of the domain, rounded down, since distances are whole steps."""
    if tolerance is None:
        return None
    if isinstance(tolerance, str) and tolerance in left.names:
        check_distance_column("tolerance", left.field(tolerance), domain)
        return Tolerance(column=tolerance)
    steps = in_steps("tolerance", tolerance, domain, left)
    if steps.is_infinite():
        return None
    return Tolerance(constant=domain.whole_steps(steps))
