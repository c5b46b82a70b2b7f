"""Validation of columns, types and output names against two Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import is_null_type, plain_type
from juncture.errors import SchemaError, did_you_mean
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of

LEFT_OUT = b"juncture.left_out"
"""Schema metadata: the names of index levels that are not columns, as a JSON array."""

Closed = Literal["both", "left", "right", "none"]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("left", "right")


def other_side(side: Side) -> Side:
    """Return the opposite side."""
    return "right" if side == "left" else "left"


@dataclass(frozen=True)
class OutputColumn:
    """A column of a join's output: a column ``source`` of one side.

    ``filled_from`` is the right column that fills it in unmatched right rows (``how="right"`` and ``"full"``).
    """

    name: str
    side: Side
    source: str
    filled_from: str | None = None


def check_columns(schema: pa.Schema, names: Sequence[str], *, argument: str, side: Side) -> None:
    """Raise SchemaError if the schema repeats a name, or lacks one of the names."""
    known = schema.names
    if len(set(known)) < len(known):
        repeated = next(name for name in known if known.count(name) > 1)
        raise SchemaError(
            f"The {side} table has {known.count(repeated)} columns named {repeated!r}. Rename or drop all but one of "
            "them.",
            name="JN-COLUMN-DUPLICATE",
        )
    for name in names:
        if name not in known:
            raise SchemaError(
                f"{argument}={name!r} is not a column of the {side} table. {hint(name, schema)}",
                name="JN-COLUMN-MISSING",
            )


def hint(name: str, *schemas: pa.Schema) -> str:
    """Return advice for a column that schemas do not have.

    Examples
    --------
    >>> hint("robot", pa.schema({"ts": pa.int64(), "robot_id": pa.string()}))
    "Did you mean 'robot_id'?"
    """
    if any(name in json.loads((schema.metadata or {}).get(LEFT_OUT, b"[]")) for schema in schemas):
        return "It is an index level. Make it a column with .reset_index() first."
    return did_you_mean(name, dict.fromkeys(column for schema in schemas for column in schema.names))


def check_order(field: pa.Field, *, asked: str, side: Side) -> None:
    """Raise SchemaError if a column contains ordered categories. ``asked`` is what needs the order, in messages."""
    if _has_ordered_categories(field.type):
        raise SchemaError(
            f"{asked} needs an order, but the {side} column {field.name!r} is of ordered categories ({field.type}). "
            "Their order can differ between tables. Cast the column to its values (for example to string), or to the "
            "numbers of the categories (.cat.codes in pandas, .to_physical() in Polars).",
            name="JN-ORDERED-CATEGORIES",
        )


def _has_ordered_categories(data_type: pa.DataType) -> bool:
    return not _is_single(data_type) and any(pat.is_dictionary(each) and each.ordered for each in _types_in(data_type))


def check_ties(right: pa.Schema, tie_columns: Sequence[str], *, remedy: str = "") -> None:
    """Raise SchemaError if a tie column contains unions, which have no order. ``remedy`` extends the advice."""
    for name in tie_columns:
        data_type = right.field(name).type
        if not _is_single(data_type) and any(map(pat.is_union, _types_in(data_type))):
            raise SchemaError(
                f"The right column {name!r} is of type {data_type}, and unions have no order, but all right columns "
                f"break ties. Drop it or cast it to a type with an order{remedy}.",
                name="JN-TIES-TYPE",
            )


def _is_single(data_type: pa.DataType) -> bool:
    """Return whether there are no other types within a type."""
    return not (data_type.num_fields or pat.is_dictionary(data_type) or isinstance(data_type, pa.BaseExtensionType))


def _types_in(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and the types within it."""
    yield data_type
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _types_in(data_type.storage_type)
    elif pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        yield from _types_in(data_type.value_type)
    else:
        for place in range(data_type.num_fields):
            yield from _types_in(data_type.field(place).type)


def check_pairs(
    left: pa.Schema, right: pa.Schema, pairs: Sequence[tuple[str, str]], *, argument: str, shared: bool
) -> None:
    """Raise SchemaError for missing columns. ``shared`` is whether ``on`` or ``by`` names both columns of a pair."""
    prefixes = ("", "") if shared else ("left_", "right_")
    check_columns(left, [pair[0] for pair in pairs], argument=prefixes[0] + argument, side="left")
    check_columns(right, [pair[1] for pair in pairs], argument=prefixes[1] + argument, side="right")


def common_domain(
    left: pa.Field, right: pa.Field, *, default: pa.DataType | None = None, mixed: bool = False
) -> Domain:
    """Return the domain in which two ``on`` columns are compared exactly.

    A column of the null type takes the kind of the other; ``default`` is the type if both have it (by default
    integers). ``mixed`` allows integers beside floats, and all ordered types.

    Examples
    --------
    >>> common_domain(pa.field("t", pa.timestamp("s")), pa.field("t", pa.timestamp("us")))
    Timestamps(unit='us')
    """
    return shared_domain([("left", left), ("right", right)], role="on", default=default, mixed=mixed)


def shared_domain(
    fields: Sequence[tuple[Side, pa.Field]], *, role: str, default: pa.DataType | None = None, mixed: bool = False
) -> Domain:
    """Return the domain in which several columns are compared exactly, as `common_domain`. ``role`` is for messages."""
    known = [(side, field) for side, field in fields if not is_null_type(field.type)]
    known = known or [("left", pa.field("", default or pa.int64()))]
    first_side, first = known[0]
    domain = _domain(first_side, first, role, mixed=mixed)
    for side, field in known[1:]:
        common = domain.common(_domain(side, field, role, mixed=mixed))
        if common is None or (common.is_asof_only and not mixed):
            raise SchemaError(
                f"{role}= compares {first_side} {first.name!r} ({first.type}) with {side} {field.name!r} "
                f"({field.type}), which have no common values. Cast one of them to the type of the other.",
                name="JN-TYPE-MISMATCH",
            )
        zones = [getattr(plain_type(each.type), "tz", None) for each in (first, field)]
        if (zones[0] is None) != (zones[1] is None):
            raise SchemaError(
                f"{role}= compares {first_side} {first.name!r} ({first.type}) with {side} {field.name!r} "
                f"({field.type}), but only one of them has a time zone. Add a time zone to the other, or drop it "
                "from both.",
                name="JN-TIMEZONE-MISMATCH",
            )
        domain = common
    return domain


def _domain(side: Side, field: pa.Field, role: str, *, mixed: bool) -> Domain:
    check_order(field, asked=f"{role}=", side=side)
    domain = domain_of(field.type)
    if domain is None or (domain.is_asof_only and not mixed):
        more = ", timestamp, duration, time of day, text or binary" if mixed else " or timestamp"
        raise SchemaError(
            f"The {side} {role} column {field.name!r} is of type {field.type}, which this join cannot order by. Cast "
            f"it to an integer, float, decimal, date{more}.",
            name="JN-TYPE-UNSUPPORTED",
        )
    return domain


def left_columns(left: pa.Schema) -> tuple[OutputColumn, ...]:
    """Return the columns of an output of the left table alone, given its own columns."""
    return tuple(OutputColumn(name, "left", name) for name in left.names)
