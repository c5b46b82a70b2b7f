"""The sides and output columns of a join, the domains in which its columns are compared, and columns without values.

A column of Arrow's null type has no value except null, such as those of an empty pandas table. In a resolved join, a
compared or aggregated column of the null type has the type of what it is compared with. Engines convert their inputs to
the schemas of the resolved join. In the output, the column has the null type again, unless rows of the other side fill
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from juncture.columnar.schemas import check_order
from juncture.columnar.types import is_null_type, plain_type
from juncture.errors import SchemaError
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of

Closed = Literal["both", "left", "right", "none"]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("left", "right")


def other_side(side: Side) -> Side:
    """Return the opposite side."""
    return "right" if side == "left" else "left"


@dataclass(frozen=True)
class OutputColumn:
    """A column of a join's output: a column ``source`` of one side."""

    name: str
    side: Side
    source: str
    # The right column that fills it in unmatched right rows (``how="right"`` and ``"full"``).
    filled_from: str | None = None


def common_domain(
    left: pa.Field, right: pa.Field, *, default: pa.DataType | None = None, mixed: bool = False
) -> Domain:
    """Return the domain in which two ``on`` columns are compared exactly.

    A column of the null type takes the kind of the other; ``default`` is the type if both have it (by default
    integers). ``mixed`` allows integers beside floats, and all ordered types.
    """
    return shared_domain([("left", left), ("right", right)], role="on", default=default, mixed=mixed)


def shared_domain(
    fields: Sequence[tuple[Side, pa.Field]], *, role: str, default: pa.DataType | None = None, mixed: bool = False
) -> Domain:
    """Return the domain in which several columns are compared exactly, as `common_domain`. ``role`` is for messages."""
    typed = [(side, field) for side, field in fields if not is_null_type(field.type)]
    typed = typed or [("left", pa.field("", default or pa.int64()))]
    first_side, first = typed[0]
    domain = _domain(first_side, first, role, mixed=mixed)
    for side, field in typed[1:]:
        common = domain.common(_domain(side, field, role, mixed=mixed))
        if common is None or (common.is_asof_only and not mixed):
            raise incomparable(role, (first_side, first), (side, field))
        zones = [getattr(plain_type(each.type), "tz", None) for each in (first, field)]
        if (zones[0] is None) != (zones[1] is None):
            raise incomparable(role, (first_side, first), (side, field), differ_in_zone=True)
        domain = common
    return domain


def incomparable(
    role: str, one: tuple[Side, pa.Field], other: tuple[Side, pa.Field], *, differ_in_zone: bool = False
) -> SchemaError:
    """Return the error for two columns whose values never compare. ``role`` is the argument that compares them."""
    first, second = (f"{side} {field.name!r} ({field.type})" for side, field in (one, other))
    if differ_in_zone:
        return SchemaError(
            f"{role}= compares {first} with {second}, but only one of them has a time zone. Add a time zone to the "
            "other, or drop it from both.",
            name="JN-TIMEZONE-MISMATCH",
        )
    return SchemaError(
        f"{role}= compares {first} with {second}, which have no common values. Cast one of them to the type of the "
        "other.",
        name="JN-TYPE-MISMATCH",
    )


def free_name(name: str, suffix: str, taken: set[str], what: str) -> str:
    """Return the name of an output column, with the suffix if it is taken, and add it to the names that are."""
    output = name if name not in taken else name + suffix
    if output in taken:
        raise SchemaError(
            f"{what} would be named {output!r}, which is already a column. Pass another suffix= (now {suffix!r}), or "
            "rename the column.",
            name="JN-OUTPUT-COLUMN-TAKEN",
        )
    taken.add(output)
    return output


def _domain(side: Side, field: pa.Field, role: str, *, mixed: bool) -> Domain:
    check_order(field, purpose=f"{role}=", side=side)
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


def typed(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema in which columns of the null type have the given types."""
    for name, data_type in types.items():
        position = schema.get_field_index(name)
        if position >= 0 and is_null_type(schema.field(position).type):
            schema = schema.set(position, schema.field(position).with_type(data_type))
    return schema


def first_type(fields: Iterable[pa.Field], default: pa.DataType | None = None) -> pa.DataType:
    """Return the first type that is not null, or the default (integers)."""
    types = (field.type for field in fields)
    return next((each for each in types if not is_null_type(each)), default or pa.int64())
