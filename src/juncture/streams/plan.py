"""The definition of a stream join, and its plan: which rows are kept, and for how long. States can share a plan."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, Self

import pyarrow as pa

from juncture.errors import PlanError
from juncture.matching.condition import condition_of
from juncture.matching.order import Order
from juncture.matching.output import Output, stored_join, stored_schema
from juncture.predicate.language.nodes import columns
from juncture.spec.arguments import check_choice
from juncture.spec.asof import ResolvedAsof
from juncture.spec.base import Spec
from juncture.spec.kinds import KINDS
from juncture.spec.many import Duplicates
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams import explain
from juncture.streams.aggregates import AggregateJoin, LookupJoin
from juncture.streams.asof import AsofBounds, AsofJoin
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier
from juncture.streams.operator import StreamOperator
from juncture.streams.order import ordered_columns, side_orders
from juncture.streams.pairs import PairJoin

LateRule = Literal["count", "collect", "error"]


@dataclass(frozen=True)
class Setup:
    """The definition of a stream join: spec, schemas, orders, and what to do with late rows."""

    spec: Spec
    left_schema: pa.Schema
    right_schema: pa.Schema
    left: tuple[Order, ...]
    right: tuple[Order, ...]
    allow_unbounded: bool
    late: LateRule

    def __post_init__(self) -> None:
        check_choice("late", self.late, ("count", "collect", "error"))

    def schema(self, side: Side) -> pa.Schema:
        """Return the columns of a side."""
        return self.left_schema if side == "left" else self.right_schema

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        schemas = {
            f"{side}_schema": base64.b64encode(self.schema(side).serialize().to_pybytes()).decode() for side in SIDES
        }
        return {
            "spec": self.spec.to_dict(),
            "left": [order.to_dict() for order in self.left],
            "right": [order.to_dict() for order in self.right],
            "allow_unbounded": self.allow_unbounded,
            "late": self.late,
            **schemas,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the setup that `to_dict` described."""
        spec = KINDS[values["spec"]["kind"]].from_dict(values["spec"])
        left, right = (schema_of(values[f"{side}_schema"]) for side in SIDES)
        left_orders, right_orders = (tuple(Order.from_dict(each) for each in values[side]) for side in SIDES)
        return cls(spec, left, right, left_orders, right_orders, values["allow_unbounded"], values["late"])


def schema_of(text: str) -> pa.Schema:
    """Return the schema that `Setup.to_dict` encoded as text."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


class StreamPlan:
    """A planned stream join, with columns in the types of stored rows.

    A plan never changes, and takes some milliseconds to create; an operator without rows takes some microseconds.
    """

    def __init__(self, setup: Setup, adds: Resolved | None = None, duplicates: Duplicates | None = None) -> None:
        """Plan a join of a setup; ``adds`` is its join with other output, in the types of stored rows.

        With ``duplicates``, it is an equality join that emits each left row once, with at most one match.
        """
        self.setup = setup
        resolved = setup.spec.resolve(setup.left_schema, setup.right_schema) if adds is None else adds
        refuse_computed(resolved, "a stream")
        _check_aggregates(resolved)
        self.join = stored_join(resolved)
        self.schema = resolved.user_schema(setup.left_schema, setup.right_schema)
        if adds is not None:
            self.schema = self.join.output_schema
        self.output = Output(self.join, self.schema)
        self._duplicates = duplicates
        self.orders = side_orders(self.join, {"left": setup.left, "right": setup.right})
        self.stored_schemas = {side: stored_schema(self.join, side) for side in SIDES}
        if duplicates == "greatest":
            self.stored_schemas["right"] = self.join.right_schema
        self.read_schemas = {side: self._read_schema(side) for side in SIDES}
        self.bounds: Mapping[Side, Bounds] | Mapping[Side, AsofBounds]
        self.operator: Callable[[Mapping[Side, Frontier]], StreamOperator]
        """Creates an operator without rows. The caller advances the frontiers."""
        self.shared: tuple[object, ...]
        """What joins refer to and never changes."""
        self._plan_operator()
        if not setup.allow_unbounded:
            for side in SIDES:
                if not self.bounds[side].is_bounded:
                    raise PlanError(explain.unbounded(self.bounds[side]), name="JN-STREAM-UNBOUNDED")

    def _plan_operator(self) -> None:
        if isinstance(self.join, ResolvedAsof):
            asof_bounds = AsofBounds.of_sides(self.join, self.orders)
            self.bounds = asof_bounds
            self._plan(AsofJoin, self.join, asof_bounds["left"].future, self.output)
            return
        condition = condition_of(self.join, ordered_columns(self.orders))
        bounds = {side: Bounds(condition, side, self.orders[other_side(side)]) for side in SIDES}
        self.bounds = bounds
        if self.join.aggregates:
            self._plan(AggregateJoin, condition, bounds, self.stored_schemas["right"])
        elif self._duplicates is not None:
            right_schema = self.stored_schemas["right"]
            self._plan(LookupJoin, condition, bounds, right_schema, self._duplicates, self.output)
        else:
            self._plan(PairJoin, condition, bounds, self.output)

    def _plan(self, operator: Callable[..., StreamOperator], *parts: object) -> None:
        self.operator = partial(operator, *parts)
        orders = [each for side in SIDES for each in self.orders[side]]
        self.shared = (self, self.setup, self.schema, self.join, *orders, *parts)

    @cached_property
    def described(self) -> dict[str, Any]:
        """The setup as plain data."""
        return self.setup.to_dict()

    def _read_schema(self, side: Side) -> pa.Schema:
        ordered = [column.name for order in self.orders[side] for column in columns(order.node)]
        names = {*self.stored_schemas[side].names, *ordered}
        return pa.schema([field for field in self.join.schema(side) if field.name in names])

    @property
    def rows_at_once(self) -> int:
        """Default number of rows of a side that are joined at once."""
        return 1 << 17 if isinstance(self.join, ResolvedAsof) else 1 << 15

    def explain(self, rates: Mapping[Side, float | None]) -> str:
        """Return the text of `explain()`."""
        return explain.explained(self.join, self.bounds, self.orders, rates)


def _check_aggregates(join: Resolved) -> None:
    if join.aggregates and join.domain is None:
        raise PlanError(
            f"agg= is not supported for {join.spec.title} of streams. Use Range(…, agg=…) or Overlap(…, agg=…), or "
            "aggregate the matches afterwards.",
            name="JN-AGG-UNSUPPORTED",
        )
