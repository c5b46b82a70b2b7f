"""Range joins: each left row matches all right rows in a window around its ``on``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import ClassVar, get_args

import pyarrow as pa

from juncture.errors import SpecError
from juncture.ordered.domain import Distance, Domain
from juncture.ordered.duration import TimeLength, duration_ns
from juncture.spec.aggregate import Agg
from juncture.spec.arguments import check_choice, freeze_names
from juncture.spec.base import AggregatingSpec, OrderedSpec, resolved_matches
from juncture.spec.compared import ComparedColumns, check_keys
from juncture.spec.condition import BoundedValue, JoinCondition, Limit, MatchInterval, ResolvedInequality
from juncture.spec.conversions import matched_keys, ordered
from juncture.spec.distance import (
    Ends,
    Windows,
    check_distance_column,
    freeze_distance,
    freeze_windows,
    in_steps,
    typed_distances,
    value_type,
)
from juncture.spec.expression import Key, Keys
from juncture.spec.schema import Closed, How, Side, common_domain


@dataclass(frozen=True)
class Bound:
    """One end of the window, as a distance from the left ``on``. Exactly one of ``constant`` and ``column`` is set."""

    constant: int | float | None = None  # in whole steps of the domain, rounded into the window, or a float for floats
    column: str | None = None  # a left column with one distance per row, where null and NaN match nothing
    closed: bool = True  # as a rounded end always is


@dataclass(frozen=True, kw_only=True)
class ResolvedRange(ResolvedInequality):
    """A range spec, validated against two schemas."""

    spec: Range
    left_on: str
    right_on: str
    domain: Domain
    # None if unbounded, which at most one end is; with several windows, the smallest that contains all of them.
    lower: Bound | None
    upper: Bound | None
    windows: Mapping[str, tuple[Bound | None, Bound | None]] = field(default_factory=dict, hash=False)

    @property
    def window_names(self) -> tuple[str, ...]:
        """The names of the windows for which aggregates are computed; empty if there is a single one."""
        return tuple(self.windows)

    def in_window(self, name: str, /) -> ResolvedRange:
        """Return the join for one of several windows."""
        lower, upper = self.windows[name]
        return replace(self, lower=lower, upper=upper, windows={})

    @cached_property
    def condition(self) -> JoinCondition:
        """The condition under which two rows match, without the ``by`` columns."""
        lower, upper = (
            None
            if bound is None
            else Limit(self.left_on, is_upper, not bound.closed, bound.constant or 0, bound.column)
            for bound, is_upper in ((self.lower, False), (self.upper, True))
        )
        limits = tuple(limit for limit in (lower, upper) if limit is not None)
        point = Limit(self.right_on, upper=False), Limit(self.right_on, upper=True)
        return JoinCondition(
            first=BoundedValue(self.right_on, limits, self.domain),
            interval=MatchInterval((lower, upper), point, self.domain),
        )

    def position(self, side: Side, /) -> tuple[str | None, ...]:
        """Return the column of a side that places a row in the order."""
        return (self.left_on if side == "left" else self.right_on,)

    def right_range(self, first: float, last: float) -> tuple[float | None, float | None]:
        """Return the least and the greatest right ``on`` that left rows can match; None if no constant limits it.

        ``first`` and ``last`` are the least and the greatest left ``on``, in steps of the domain.
        """
        low, high = (
            None if bound is None or bound.constant is None else end + bound.constant
            for end, bound in ((first, self.lower), (last, self.upper))
        )
        # The difference of two infinities is NaN, which is not a limit.
        return (None if low is None or low != low else low), (None if high is None or high != high else high)

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match."""
        bounds = (self.lower, self.upper) if side == "left" else ()
        columns = [bound.column for bound in bounds if bound is not None]
        return tuple(dict.fromkeys((*super().compared(side), *(name for name in columns if name is not None))))


@dataclass(frozen=True, kw_only=True)
class Range(OrderedSpec, AggregatingSpec):
    """A range join as a value: match each left row with all right rows in a window around it.

    Two rows match if their ``by`` are equal and ``left on + lower <= right on <= left on + upper``. A spec is immutable
    and independent of tables and engines. Pass it to `juncture.plan`, `juncture.stream`, `juncture.changes` or
    `juncture.Right`.

    Its arguments are those of `juncture.join_range`, which runs the join at once. A spec costs nothing to create.

    Raises
    ------
    SpecError
        If an argument is invalid whatever the tables are.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> events = pa.table({"ts": [10, 20]})
    >>> readings = pa.table({"ts": [7, 9, 19], "value": [1.0, 3.0, 5.0]})
    >>> spec = jn.Range(on="ts", lower=-5, upper=0, agg={"value": "mean"})
    >>> jn.plan(events, readings, spec).execute().to_pydict()
    {'ts': [10, 20], 'value_mean': [2.0, 5.0]}
    >>> jn.Range.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "range"
    title: ClassVar[str] = "a range join"
    used_for: ClassVar[str] = "to compare"

    on: Key | None = None
    left_on: Key | None = None
    right_on: Key | None = None
    by: Keys | None = None
    left_by: Keys | None = None
    right_by: Keys | None = None
    lower: Distance | None = None
    upper: Distance | None = None
    windows: Windows | None = field(default=None, hash=False)
    closed: Closed = "both"
    how: How | None = None
    agg: Agg | None = field(default=None, hash=False)
    suffix: str = "_right"

    def __post_init__(self) -> None:
        self.on_pair()
        freeze_names(self, "on", "left_on", "right_on")
        check_choice("closed", self.closed, get_args(Closed))
        self.check_matches()
        for argument in ("lower", "upper"):
            object.__setattr__(self, argument, freeze_distance(argument, getattr(self, argument)))
        object.__setattr__(self, "windows", freeze_windows(self.windows))
        self._check_windows()

    def _check_windows(self) -> None:
        """Raise SpecError for windows that are invalid whatever the tables are."""
        if self.windows is None:
            _check_window(self.lower, self.upper)
            return
        if self.lower is not None or self.upper is not None:
            raise SpecError(
                "windows= excludes lower= and upper=. Pass the single window as one of several, such as "
                'windows={"1h": ("-1h", 0)}.',
                name="JN-ARGUMENT-CONFLICT",
            )
        if self.agg is None:
            raise SpecError(
                "windows= needs agg=, which is computed for each window. For the matches of one window, pass lower= "
                "and upper=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        for lower, upper in (freeze_windows(self.windows) or {}).values():
            _check_window(lower, upper)

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedRange:
        """Return the join of tables with these Arrow schemas. Raises as described in `Spec.resolve`."""
        columns = ComparedColumns(left, right)
        on = columns.pairs([self.on_pair()], "on", shared=self.on is not None)
        by = columns.pairs(self.by_pairs(), "by", shared=self.by is not None)
        by = matched_keys(columns, by, fills=self.how in ("right", "full"))
        left_on, right_on = ordered(columns, [("left", on[0][0]), ("right", on[0][1])])
        return self._resolved(columns, (left_on, right_on), by)

    def _retyped(self, join: ResolvedRange, columns: ComparedColumns) -> ResolvedRange:
        return self._resolved(columns, (join.left_on, join.right_on), join.by_pairs)

    def _resolved(
        self, columns: ComparedColumns, on: tuple[str, str], equal: Sequence[tuple[str, str]]
    ) -> ResolvedRange:
        """Return the join of tables that contain all columns that it compares."""
        left_on, right_on = on
        named = freeze_windows(self.windows) or {"": (self.lower, self.upper)}
        ends = tuple(end for pair in named.values() for end in pair)
        default = value_type(ends, columns.left) if columns.is_null(on) else None
        domain = common_domain(columns.field("left", left_on), columns.field("right", right_on), default=default)
        columns.type_nulls([on], default)
        check_keys(columns, equal)
        columns.type_nulls(equal)
        columns.left = typed_distances(ends, domain, columns.left)
        bounds = {name: self._bounds(domain, columns.left, pair) for name, pair in named.items()}
        lower, upper = bounds[""] if self.windows is None else _around(list(bounds.values()))
        windows = [None] if self.windows is None else list(named)
        return ResolvedRange(
            spec=self,
            **resolved_matches(self, columns, equal, ordered_by=right_on, windows=windows),
            left_on=left_on,
            right_on=right_on,
            domain=domain,
            lower=lower,
            upper=upper,
            windows={} if self.windows is None else bounds,
        )

    def _bounds(self, domain: Domain, left: pa.Schema, ends: Ends) -> tuple[Bound | None, Bound | None]:
        bounds: list[Bound | None] = []
        constants: list[Decimal] = []
        for argument, value, closed in (("lower", ends[0], "left"), ("upper", ends[1], "right")):
            belongs = self.closed in ("both", closed)
            if value is None:
                bounds.append(None)
            elif isinstance(value, str) and value in left.names and self.windows is not None:
                raise SpecError(
                    f"windows= has the end {value!r}, which is a left column. Pass constant ends, or use lower= and "
                    "upper= in a join of its own.",
                    name="JN-WINDOWS-COLUMN",
                )
            elif isinstance(value, str) and value in left.names:
                check_distance_column(argument, left.field(value), domain)
                bounds.append(Bound(column=value, closed=belongs))
            else:
                constants.append(in_steps(argument, value, domain, left))
                bounds.append(_constant_bound(argument, value, constants[-1], domain, belongs))
        if len(constants) == 2 and constants[0] > constants[1]:
            raise _starts_after_end(*ends)
        if bounds == [None, None]:
            raise _has_no_end(*ends)
        return bounds[0], bounds[1]


def _constant_bound(argument: str, value: Distance, steps: Decimal, domain: Domain, closed: bool) -> Bound | None:
    """Return an end of the window, rounded inward to whole steps; None if it is beyond all values."""
    if domain.floating:
        return Bound(constant=float(steps), closed=closed)
    if steps.is_infinite():
        if (steps < 0) == (argument == "lower"):
            return None
        raise SpecError(
            f"{argument}={value!r} is beyond all {domain.kind}s, so nothing would match. Pass a smaller distance, or "
            "None for no limit.",
            name="JN-DISTANCE-VALUE",
        )
    rounded = domain.whole_steps(steps, up=argument == "lower")
    return Bound(constant=rounded, closed=closed or rounded != steps)


def _around(windows: Sequence[tuple[Bound | None, Bound | None]]) -> tuple[Bound | None, Bound | None]:
    """Return the ends of the smallest window that contains several; raise SpecError if it is unbounded."""
    lowers, uppers = zip(*windows, strict=True)
    lower = None if None in lowers else min(lowers, key=lambda end: (end.constant, not end.closed))
    upper = None if None in uppers else max(uppers, key=lambda end: (end.constant, end.closed))
    if lower is None and upper is None:
        raise SpecError(
            "windows= is unbounded on both sides, taken together. Pass windows that look back and windows that look "
            "ahead to separate joins.",
            name="JN-WINDOW-UNBOUNDED",
        )
    return lower, upper


def _check_window(lower: Distance | None, upper: Distance | None) -> None:
    """Raise SpecError for ends that are invalid whatever the tables are. Texts are validated with the schemas."""
    if _is_open(lower, -math.inf) and _is_open(upper, math.inf):
        raise _has_no_end(lower, upper)
    if isinstance(lower, TimeLength) and isinstance(upper, TimeLength):
        is_inverted = duration_ns(lower, argument="lower") > duration_ns(upper, argument="upper")
    else:
        numbers = int | float | Decimal
        is_inverted = isinstance(lower, numbers) and isinstance(upper, numbers) and lower > upper
    if is_inverted:
        raise _starts_after_end(lower, upper)


def _is_open(end: Distance | None, limit: float) -> bool:
    """Return whether an end of a window excludes nothing."""
    return end is None or (isinstance(end, int | float | Decimal) and end == limit)


def _has_no_end(lower: object, upper: object) -> SpecError:
    return SpecError(
        f"lower={lower!r} and upper={upper!r} leave the window unbounded on both sides. Pass at least one bound, such "
        'as lower="-1h". To match by equal columns only, use join(…).',
        name="JN-WINDOW-UNBOUNDED",
    )


def _starts_after_end(lower: object, upper: object) -> SpecError:
    return SpecError(
        f"lower={lower!r} is greater than upper={upper!r}, so nothing would match. Swap them, or pass a negative "
        "bound for rows before the left row.",
        name="JN-WINDOW-REVERSED",
    )
