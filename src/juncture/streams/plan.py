"""A join of streams, planned once: what is held of each side, and for how long. Any number of states go by one plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.predicate.language.nodes import columns
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, Side, other_side
from juncture.spec.where import ResolvedWhere, Where
from juncture.streams import explain
from juncture.streams.aggregates import AggregateJoin
from juncture.streams.asof import AsofBounds, AsofJoin, AsofSide
from juncture.streams.bounds import Bounds
from juncture.streams.condition import Condition, condition_of
from juncture.streams.frontier import Frontier
from juncture.streams.operator import StreamOperator
from juncture.streams.order import SideOrder
from juncture.streams.output import Output, held_schema, streaming_join
from juncture.streams.pairs import PairJoin
from juncture.streams.setup import Setup


class StreamPlan:
    """A join of streams, planned.

    Parameters
    ----------
    setup
        What it is made of.

    Attributes
    ----------
    setup
        What it is made of.
    schema
        The columns of the answer.
    output
        Makes rows of the answer.
    orders
        Of both sides.
    seen, held
        The columns of each side that the join looks at, and those that it holds.
    is_seen_as_given, is_held_as_seen
        Of which sides these are all columns, as they come, and the same ones.
    bounds
        What is held of each side, and for how long.

    Raises
    ------
    SpecError, SchemaError
        If the spec or an order does not fit the columns.
    PlanError
        If rows of a side would be held for ever, and that is not allowed; or matches by a predicate or equal keys are
        to be aggregated.

    Notes
    -----
    A plan never changes, and takes some milliseconds to make; an operator with no rows takes some microseconds.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)
        refuse_computed(resolved, "a stream")
        _check_aggregates(resolved)
        self._join = streaming_join(resolved)
        self.schema = resolved.given_back(setup.left_schema, setup.right_schema)
        self.output = Output(self._join, self.schema)
        names = setup.spec.names if isinstance(setup.spec, Where) else ("l", "r")
        schemas = {"left": self._join.left_schema, "right": self._join.right_schema}
        self.orders: dict[Side, list[SideOrder]] = {
            side: [SideOrder.of(order, side, schemas[side], names) for order in setup.orders(side)] for side in SIDES
        }
        self.held = {side: held_schema(self._join, side) for side in SIDES}
        self.seen = {side: self._looked_at(side, schemas[side]) for side in SIDES}
        self.is_seen_as_given = {side: self.seen[side].equals(setup.schema(side)) for side in SIDES}
        self.is_held_as_seen = {side: self.held[side].equals(self.seen[side]) for side in SIDES}
        self._asof: AsofBounds | None = None
        self._condition: Condition | None = None
        self._pair_bounds: dict[Side, Bounds] = {}
        if isinstance(self._join, ResolvedAsof):
            self._asof = AsofBounds(self._join, self.orders)
        else:
            read = {column for orders in self.orders.values() for order in orders for column in columns(order.node)}
            self._condition = condition_of(self._join, read)
            self._pair_bounds = {side: Bounds(self._condition, side, self.orders[other_side(side)]) for side in SIDES}
        self.bounds: Mapping[Side, Bounds] | Mapping[Side, AsofSide] = self._pair_bounds
        if self._asof is not None:
            self.bounds = {side: AsofSide(self._asof, side) for side in SIDES}
        if not setup.allow_unbounded:
            for side in SIDES:
                if not self.bounds[side].is_bounded:
                    raise PlanError(explain.unbounded(self.bounds[side]), name="JN-STREAM-UNBOUNDED")

    @cached_property
    def described(self) -> dict[str, Any]:
        """The setup as plain data."""
        return self.setup.to_dict()

    def _looked_at(self, side: Side, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a side that a join looks at."""
        ordered = [column.name for order in self.orders[side] for column in columns(order.node)]
        names = {*self.held[side].names, *ordered}
        return pa.schema([field for field in schema if field.name in names])

    @property
    def rows_at_once(self) -> int:
        """How many rows of a side to join at once, where nobody says."""
        return 1 << 15 if self._asof is None else 1 << 17

    def operator(self, frontiers: Mapping[Side, Frontier]) -> StreamOperator:
        """Return what does the join, which holds no rows yet.

        Parameters
        ----------
        frontiers
            How far each side has come, which the caller moves on.
        """
        if self._asof is not None:
            return AsofJoin(self._asof, frontiers, self.output)
        assert self._condition is not None
        if self._join.aggregates:
            return AggregateJoin(self._condition, self._pair_bounds, frontiers)
        return PairJoin(self._condition, self._pair_bounds, frontiers, self.output)

    def explain(self, rates: Mapping[Side, float | None]) -> str:
        """Say what is held and for how long, and when what is given."""
        return explain.explained(self._join, self.bounds, self.orders, rates)


def _check_aggregates(join: Resolved) -> None:
    """Refuse aggregates of matches that no window holds together.

    Raises
    ------
    PlanError
        If the join asks for some.
    """
    if join.aggregates and isinstance(join, ResolvedWhere):
        raise PlanError(
            f"agg= is not supported for {join.spec.title} of streams. Use Range(…, agg=…) or Overlap(…, agg=…), or "
            "aggregate the matches afterwards.",
            name="JN-AGG-UNSUPPORTED",
        )
