"""As-of joins: for each left row, the right row that was in force at its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import pyarrow as pa

from juncture.errors import SpecError
from juncture.spec.arguments import (
    check_choice,
    check_condition,
    check_name,
    check_sequence,
    check_suffix,
    freeze_flags,
    freeze_names,
)
from juncture.spec.base import OrderedSpec
from juncture.spec.computed import ComputedColumns, Keys, own_columns, parts_of, parts_stand_for, same_values
from juncture.spec.conversions import filled, matched_keys, ordered
from juncture.spec.distance import (
    Distance,
    check_distance_column,
    freeze_distance,
    in_steps,
    typed_distances,
    value_type,
)
from juncture.spec.duration import duration_ns, is_duration
from juncture.spec.keys import check_keys
from juncture.spec.nulls import typed_pairs
from juncture.spec.resolved import Resolved
from juncture.spec.schema import (
    SIDES,
    Domain,
    How,
    Side,
    check_columns,
    check_order,
    check_pairs,
    check_ties,
    common_domain,
    output_columns,
    shared_domain,
)
from juncture.spec.values import TimeLength, whole

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node

Direction = Literal["backward", "forward", "nearest"]
Prefer = Literal["earlier", "later"]
Ties = Literal["greatest", "first", "last", "error"]


@dataclass(frozen=True)
class Tolerance:
    """How far a match may be, in the join's domain.

    Exactly one of the two is set.

    Attributes
    ----------
    constant
        The greatest distance that matches: whole steps of the domain, or a float for floats.
    column
        The left column that holds it, row by row. A null or negative one matches nothing.
    """

    constant: int | float | None = None
    column: str | None = None


@dataclass(frozen=True)
class Known:
    """Since when right rows are known, and up to when to left ones: a right row can match once the first is reached.

    Attributes
    ----------
    left, right
        The columns.
    domain
        The values in which they are compared.
    """

    left: str
    right: str
    domain: Domain


@dataclass(frozen=True, kw_only=True)
class ResolvedAsof(Resolved):
    """An as-of spec that has been checked against two schemas: all that an engine needs to know.

    Attributes
    ----------
    left_on, right_on
        The columns that order the tables; where several do, a tuple of them.
    domain
        The values in which the ``on`` columns are compared.
    tolerance
        The tolerance in that domain, or None.
    known
        Since when right rows are known; None if all always are.
    where
        What has to be true of a match besides, with every column and type known; None if nothing has.
    tie_columns
        The right columns that decide among right rows at the same ``on``, the first first: the greatest wins, or the
        least with ``ties="first"``, nulls lowest, NaN highest. None where the order of the right table decides.
    """

    spec: Asof
    left_on: str
    right_on: str
    domain: Domain
    tolerance: Tolerance | None
    known: Known | None
    where: Node | None
    tie_columns: tuple[str, ...]

    @property
    def goes_by_table_order(self) -> bool:
        """Whether the order of the rows in the right table decides ties."""
        return self.spec.ties in ("first", "last") and not self.spec.order_columns()

    @property
    def nulls_equal(self) -> bool:
        """Whether null equals null in ``by``."""
        return self.spec.nulls_equal

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, ties aside."""
        limit = None if self.tolerance is None or side == "right" else self.tolerance.column
        known = None if self.known is None else getattr(self.known, side)
        names = (self.left_on if side == "left" else self.right_on, *super().compared(side), limit, known)
        names += self._in_where(side)
        return tuple(name for name in dict.fromkeys(names) if name is not None)

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows."""
        # Of what is hidden because it equals a left column some decides ties: numbers that are equal as floats alone.
        deciding = self.tie_columns if side == "right" and self.how not in ("semi", "anti") else ()
        return tuple(dict.fromkeys((*super().needed(side), *deciding)))

    def _in_where(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that `where` names."""
        if self.where is None:
            return ()
        from juncture.predicate.language.nodes import columns

        return tuple(column.name for column in columns(self.where) if column.side == side)

    def reach(self, first: int, last: int, distance: int | None) -> tuple[int | None, int | None]:
        """Return the least and the greatest right ``on`` that left rows may match; None where nothing limits it.

        Parameters
        ----------
        first, last
            The least and the greatest ``on`` of the left rows, in steps of the domain.
        distance
            The greatest distance that matches; None if any does.
        """
        backward, forward = (self.spec.direction in (side, "nearest") for side in ("backward", "forward"))
        low = None if backward and distance is None else first - (distance or 0) * backward
        high = None if forward and distance is None else last + (distance or 0) * forward
        return low, high


@dataclass(frozen=True, kw_only=True)
class Asof(OrderedSpec):
    """What an as-of join means, without a word about where or how it runs.

    Each left row is matched with the right row of equal ``by`` whose ``on`` is closest on the wanted side.

    Its arguments are those of `juncture.join_asof`, which says what each of them means.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense for any tables.

    Examples
    --------
    >>> spec = Asof(on="ts", by="robot_id", tolerance="50ms")
    >>> spec.direction, spec.how
    ('backward', 'left')
    >>> Asof.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "asof"
    title: ClassVar[str] = "an as-of join"
    used_for: ClassVar[str] = "to order by"

    on: Keys | None = None
    left_on: Keys | None = None
    right_on: Keys | None = None
    by: Keys | None = None
    left_by: Keys | None = None
    right_by: Keys | None = None
    direction: Direction = "backward"
    tolerance: Distance | None = None
    allow_exact_matches: bool = True
    how: How = "left"
    matches: int = 1
    order_by: str | Sequence[str] = ()
    ties: Ties = "greatest"
    prefer: Prefer = "earlier"
    nulls_equal: bool = False
    known: str | Sequence[str] | None = None
    where: str | None = None
    coalesce: bool = True
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if not self.on_pairs():
            self.on_pair()
        self.by_pairs()
        check_choice("direction", self.direction, get_args(Direction))
        check_choice("how", self.how, get_args(How))
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("prefer", self.prefer, get_args(Prefer))
        if self.prefer == "later" and self.direction != "nearest":
            raise SpecError(
                f"prefer='later' needs direction='nearest', but direction={self.direction!r}. Pass "
                "direction='nearest', or remove prefer=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        freeze_flags(self, "allow_exact_matches", "nulls_equal", "coalesce")
        matches = whole(self.matches)
        if matches is None or matches < 1:
            raise SpecError(
                f"matches={self.matches!r} is not a positive integer. Expected the most right rows per left row, such "
                "as matches=1.",
                name="JN-ARGUMENT-VALUE",
            )
        object.__setattr__(self, "matches", matches)
        check_suffix(self.suffix)
        check_sequence("order_by", self.order_by)
        for name in self.order_columns():
            check_name("order_by", name)
        object.__setattr__(self, "tolerance", _freeze_tolerance(self.tolerance))
        self.known_pair()
        check_condition(self.where, "r.price < l.limit")
        freeze_names(self, "on", "left_on", "right_on", "by", "left_by", "right_by", "order_by", "known")

    def known_pair(self) -> tuple[str, str] | None:
        """Return the left and the right column of ``known``, or None."""
        if self.known is None:
            return None
        check_sequence("known", self.known)
        names = (self.known,) if isinstance(self.known, str) else tuple(self.known)
        for name in names:
            check_name("known", name)
        if len(names) not in (1, 2):
            raise SpecError(
                f"known={self.known!r} names {len(names)} columns. Expected the right column with the time at which a "
                "row became available, and optionally the left column to compare it with, such as "
                'known=("ingested_at", "seen_at").',
                name="JN-KNOWN-COLUMNS",
            )
        if len(names) == 2:
            return names[1], names[0]
        pairs = self.on_pairs()
        if len(pairs) > 1:
            raise SpecError(
                f"known={self.known!r} names no left column to compare with, and on= has {len(pairs)} columns. Pass "
                f'both, such as known=({names[0]!r}, "seen_at").',
                name="JN-KNOWN-COLUMNS",
            )
        on = pairs[0][0]
        return on if isinstance(on, str) else on.text, names[0]

    def order_columns(self) -> tuple[str, ...]:
        """Return the right columns that decide ties first."""
        return (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedAsof:
        """Check the spec against two schemas, and work out all that follows from them.

        Raises
        ------
        SpecError
            If ``where`` cannot be read, with the place where reading stopped.
        SchemaError
            If a column is missing or repeated, types do not compare, or an output name is taken.
        """
        columns = ComputedColumns(left, right)
        on, by = columns.pairs(self.on_pairs(), "on"), columns.pairs(self.by_pairs(), "by")
        shared = self.on is not None
        check_pairs(columns.left, columns.right, on, argument="on", shared=shared)
        check_pairs(columns.left, columns.right, by, argument="by", shared=self.by is not None)
        known = self.known_pair()
        if known is not None and isinstance(self.known, str):
            known = on[0][0], known[1]
        fills = self.how in ("right", "full")
        by = matched_keys(columns, by, fills=fills, nulls_equal=self.nulls_equal)
        on = [_compared(columns, pair, fills=fills and shared and self.coalesce) for pair in on]
        if len(on) > 1:
            for pair in on:
                for side, name in zip(SIDES, pair, strict=True):
                    check_order(columns.schema(side).field(name), asked="on", side=side)
            columns.left, columns.right = typed_pairs(columns.left, columns.right, on)
            lefts, rights = zip(*on, strict=True)
            on = [(columns.tuple_of(lefts, "left"), columns.tuple_of(rights, "right"))]
        if known is not None:
            check_columns(columns.left, known[:1], argument="known", side="left")
            check_columns(columns.right, known[1:], argument="known", side="right")
            seen, since = ordered(columns, [("left", known[0]), ("right", known[1])], exact=True)
            known = seen, since
        return self._resolved(columns.left, columns.right, on[0], by, known)

    def _over(self, join: ResolvedAsof, left: pa.Schema, right: pa.Schema) -> ResolvedAsof:
        known = None if join.known is None else (join.known.left, join.known.right)
        return self._resolved(left, right, (join.left_on, join.right_on), join.by_pairs, known)

    def _resolved(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: tuple[str, str],
        by: Sequence[tuple[str, str]],
        known_pair: tuple[str, str] | None,
    ) -> ResolvedAsof:
        """Return the join of tables that have all columns that it compares."""
        left_on, right_on = on
        left_by, right_by = tuple(pair[0] for pair in by), tuple(pair[1] for pair in by)
        equal = list(by)
        order_by = self.order_columns()
        check_columns(right, order_by, argument="order_by", side="right")
        for name in order_by:
            check_order(right.field(name), asked="order_by", side="right")
        default = value_type([self.tolerance], left)
        domain = common_domain(left.field(left_on), right.field(right_on), default=default, mixed=True)
        self._check_distances(domain)
        left, right = typed_pairs(left, right, [(left_on, right_on)], default=default)
        check_keys(left, right, left_by, right_by)
        left, right = typed_pairs(left, right, equal)
        left = typed_distances([self.tolerance], domain, left)
        known = None if known_pair is None else _known(left, right, known_pair)
        if known_pair is not None:
            left, right = typed_pairs(left, right, [known_pair])
        if self.on is not None and self.coalesce:
            equal += _shown_once(left, right, left_on, right_on)
        tie_columns = self._tie_columns(right, [right_on, *right_by, *([known.right] if known else [])])
        if self.how not in ("semi", "anti") and (self.ties != "error" or self.matches > 1):
            check_ties(right, tie_columns, remedy=", or pass ties='error' with matches=1")
        return ResolvedAsof(
            spec=self,
            how=self.how,
            left_schema=left,
            right_schema=right,
            left_on=left_on,
            right_on=right_on,
            left_by=left_by,
            right_by=right_by,
            domain=domain,
            tolerance=_resolve_tolerance(self.tolerance, domain, left),
            known=known,
            where=None if self.where is None else _parsed(self.where, left, right),
            tie_columns=tie_columns,
            output=output_columns(left, right, how=self.how, equal=equal, suffix=self.suffix),
        )

    def _check_distances(self, domain: Domain) -> None:
        """Refuse distances between values that have none.

        Raises
        ------
        SpecError
            If the spec asks for some.
        """
        if not domain.is_ranked or (self.tolerance is None and self.direction != "nearest"):
            return
        asked = f"tolerance={self.tolerance!r}" if self.tolerance is not None else "direction='nearest'"
        kind, remedy = domain.kind, "Convert it first, for example with pd.to_datetime"
        if domain.kind == "tuple":
            kind = "a tuple of columns"
            remedy = "Combine the columns into one, such as a date and a time of day into a timestamp"
        raise SpecError(
            f"{asked} needs numeric or temporal columns, but {self.on_names()[0]!r} is {kind}, which has no "
            f"distances. {remedy}, or pass direction='backward' or 'forward' without tolerance=.",
            name="JN-TOLERANCE-TYPE",
        )

    def _tie_columns(self, right: pa.Schema, compared: Sequence[str]) -> tuple[str, ...]:
        """Return the right columns that decide ties, less those that are compared, and so equal in a tie."""
        order_by = self.order_columns()
        if self.ties in ("first", "last") and not order_by:
            return ()
        fixed = {own for name in compared for own in same_values(right, name)}
        return tuple(name for name in dict.fromkeys((*order_by, *own_columns(right).names)) if name not in fixed)


def _compared(columns: ComputedColumns, pair: tuple[str, str], *, fills: bool) -> tuple[str, str]:
    """Return columns that compare as those of a pair do.

    Parameters
    ----------
    columns
        The columns of both sides, to which those are added that have to be made.
    pair
        The columns.
    fills
        Whether right values stand in the left column, where a right row has no match.
    """
    ours, theirs = ordered(columns, [("left", pair[0]), ("right", pair[1])], exact=True)
    return filled(columns, ours, theirs) if fills else (ours, theirs)


def _known(left: pa.Schema, right: pa.Schema, pair: tuple[str, str]) -> Known:
    """Check the columns that say since when right rows are known."""
    sides: list[tuple[Side, pa.Field]] = [("left", left.field(pair[0])), ("right", right.field(pair[1]))]
    return Known(*pair, shared_domain(sides, role="known", mixed=True))


def _shown_once(left: pa.Schema, right: pa.Schema, left_on: str, right_on: str) -> list[tuple[str, str]]:
    """Return the pairs of columns of which the output shows the left one, where both sides name ``on`` alike."""
    ours, theirs = left.field(left_on), right.field(right_on)
    if not parts_of(ours):
        return [(left_on, right_on)]
    # A task may be given a tuple without what it is made of, or without what that is made of.
    pairs = list[tuple[str, str]]()
    parts = zip(parts_of(ours), parts_of(theirs), parts_stand_for(ours), parts_stand_for(theirs), strict=True)
    for one, other, own, other_own in parts:
        if one in left.names and other in right.names:
            pairs.append((one, other))
        elif own in left.names and other_own in right.names:
            pairs.append((str(own), str(other_own)))
    return pairs


def _parsed(where: str, left: pa.Schema, right: pa.Schema) -> Node:
    # The parser is slow to import, and not every join needs it.
    from juncture.predicate.language.parse import parse

    return parse(where, own_columns(left), own_columns(right))


def _freeze_tolerance(value: object) -> Distance | None:
    """Return a tolerance in the one form that a spec keeps."""
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
    """Express a tolerance in steps of the domain, rounded down: distances are whole steps."""
    if tolerance is None:
        return None
    if isinstance(tolerance, str) and tolerance in left.names:
        check_distance_column("tolerance", left.field(tolerance), domain)
        return Tolerance(column=tolerance)
    steps = in_steps("tolerance", tolerance, domain, left)
    if steps.is_infinite():
        return None
    return Tolerance(constant=float(steps) if domain.kind == "float" else math.floor(steps))
