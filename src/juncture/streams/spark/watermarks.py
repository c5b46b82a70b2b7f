"""Watermarks that users have put on columns of streams, as orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from juncture.errors import PlanError
from juncture.spec.duration import format_duration
from juncture.spec.schema import Side
from juncture.streams.order import Order, orders_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

WATERMARK = "spark.watermarkDelayMs"
"""The name by which the metadata of a column tells of a watermark."""


def watermarks(schema: StructType) -> dict[str, int]:
    """Return the columns that have a watermark, and its delay in milliseconds."""
    fields = {field.name: field.metadata or {} for field in schema.fields}
    return {name: int(metadata[WATERMARK]) for name, metadata in fields.items() if WATERMARK in metadata}


def orders_given(given: Order | Sequence[Order] | None, side: Side, schema: StructType) -> tuple[Order, ...]:
    """Return the orders of a side: those that were passed, or else its watermark.

    Raises
    ------
    SpecError
        If what was passed is no order.
    PlanError
        If there is none.
    """
    orders = orders_of(given, f"{side}_order")
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
    """Return a column's name as SQL reads it."""
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"
