"""Watermarks of streaming DataFrames as orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from juncture.errors import PlanError
from juncture.matching.order import Order
from juncture.ordered.duration import format_duration
from juncture.spec.schema import Side
from juncture.streams.order import orders_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

WATERMARK = "spark.watermarkDelayMs"
"""Key of the watermark's delay in the metadata of a column."""


def watermarks(schema: StructType) -> dict[str, int]:
    """Return the columns that have a watermark, with its delay in milliseconds."""
    fields = {field.name: field.metadata or {} for field in schema.fields}
    return {name: int(metadata[WATERMARK]) for name, metadata in fields.items() if WATERMARK in metadata}


def orders_or_watermarks(argument: Order | Sequence[Order] | None, side: Side, schema: StructType) -> tuple[Order, ...]:
    """Return the orders of a side that were passed, or else its watermarks."""
    orders = orders_of(argument, f"{side}_order")
    if not orders:
        marks = watermarks(schema).items()
        orders = tuple(Order(_quoted(name), delay=format_duration(delay * 10**6)) for name, delay in marks)
    if not orders:
        raise PlanError(
            f"The {side} stream has no order and no watermark, so its rows would be kept forever. Pass {side}_order=, "
            f"for example {side}_order=jn.Order('ts', delay='5s'), or put a watermark on a column.",
            name="JN-STREAM-UNBOUNDED",
        )
    return orders


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"
