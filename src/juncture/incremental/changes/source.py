"""The declaration of a table that a view reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from juncture.errors import SpecError
from juncture.matching.order import Order, freeze_delay
from juncture.ordered.domain import Distance
from juncture.spec.arguments import check_choice


@dataclass(frozen=True)
class Source:
    """Declare a table that a view reads.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the table.
    static : bool, default False
        Whether the table never changes after the first epoch. Tables that are joined only to static ones then need no
        stored index.
    order : Order, optional
        A column that grows from epoch to epoch, up to a delay. The view forgets rows that later changes cannot need.
        Changes behind the greatest value of earlier epochs by more than the delay are late. Each row needs a value.
    late : {"count", "error", "repair"}, default "count"
        Late changes are excluded and counted in `View.late`, or raise DataError. With "repair", those within
        ``repair_within`` are applied and counted in `View.repaired`, and others are excluded and counted.
    repair_within : optional
        How far late changes may be behind the frontier to be repaired, in the form of a delay. The view keeps rows as
        much longer.

    Raises
    ------
    SpecError
        If an argument has the wrong type.

    Examples
    --------
    >>> Source(pa.schema({"day": pa.int32(), "year": pa.int32()}), static=True).static
    True
    """

    schema: pa.Schema
    static: bool = False
    order: Order | None = None
    late: Literal["count", "error", "repair"] = "count"
    repair_within: Distance | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema):
            raise SpecError(
                f"schema={self.schema!r} ({type(self.schema).__name__}) is not a schema. Expected a pyarrow.Schema.",
                name="JN-ARGUMENT-TYPE",
            )
        if not isinstance(self.static, bool):
            raise SpecError(
                f"static={self.static!r} ({type(self.static).__name__}) is not a bool. Expected True or False.",
                name="JN-ARGUMENT-TYPE",
            )
        if self.order is not None and not isinstance(self.order, Order):
            raise SpecError(
                f"order={self.order!r} ({type(self.order).__name__}) is not an order. Expected, for example, "
                'jn.Order("ts", delay="5s").',
                name="JN-ARGUMENT-TYPE",
            )
        if self.order is not None and (self.static or self.order.descending):
            other = "static=True" if self.static else "descending=True"
            raise SpecError(
                f"order={self.order!r} cannot be combined with {other}. Sources with an order change and grow. Remove "
                "one of the two.",
                name="JN-ARGUMENT-CONFLICT",
            )
        check_choice("late", self.late, ("count", "error", "repair"))
        object.__setattr__(self, "repair_within", freeze_delay("repair_within", self.repair_within))
        if (self.late == "repair") != (self.repair_within is not None):
            raise SpecError(
                f"late={self.late!r} and repair_within={self.repair_within!r} do not fit. Pass both, late='repair' and "
                "a distance such as repair_within='1h', or neither.",
                name="JN-ARGUMENT-CONFLICT",
            )
        if self.late == "repair" and self.order is None:
            raise SpecError(
                "late='repair' needs an order, by which changes are late. Pass, for example, order=jn.Order('ts').",
                name="JN-ARGUMENT-CONFLICT",
            )
