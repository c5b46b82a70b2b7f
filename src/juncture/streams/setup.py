"""The definition of a stream join."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import pyarrow as pa

from juncture.spec.arguments import check_choice
from juncture.spec.base import Spec
from juncture.spec.kinds import KINDS
from juncture.spec.schema import SIDES, Side
from juncture.streams.order import Order

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

    def orders(self, side: Side) -> tuple[Order, ...]:
        """Return the orders of a side."""
        return self.left if side == "left" else self.right

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
