"""Validation of columns, types and output names against two Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SchemaError, did_you_mean
from juncture.spec.values import DAY_S

LEFT_OUT = b"juncture.left_out"
"""Schema metadata: the names of index levels that are not columns, as a JSON array."""

Closed = Literal["both", "left", "right", "none"]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("left", "right")

_NULL = pa.null().id
_ENCODED = frozenset((pa.dictionary(pa.int8(), pa.int8()).id, pa.run_end_encoded(pa.int32(), pa.int8()).id))
"""Arrow's numbers of types. A look-up takes a fraction of the time of the functions in `pyarrow.types`."""

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of Arrow timestamps and durations, each a thousand times finer than the one before."""


def other_side(side: Side) -> Side:
    """Return the opposite side."""
    return "right" if side == "left" else "left"


@dataclass(frozen=True)
class Domain:
    """The values as which two ``on`` columns are compared.

    Every domain but ``float`` counts whole *steps*, so that comparisons and distances are exact: an integer is its
    own step, a decimal counts units of its last digit, a date counts days, a timestamp counts its unit.

    - ``scale``: of decimals, the larger number of digits after the point; may be negative
    - ``unit``: the finer unit of both sides; ``"d"`` for dates
    - ``has_integers``: floats are compared with 64-bit integers. The comparison is exact; distances are those between
      the nearest floats.
    - ``parts``: of tuples, the domain of each part, the most significant first
    """

    kind: Literal["integer", "float", "decimal", "date", "timestamp", "duration", "time", "text", "binary", "tuple"]
    scale: int = 0
    unit: str = ""
    has_integers: bool = False
    parts: tuple[Domain, ...] = ()

    @property
    def is_time(self) -> bool:
        """Whether distances are durations."""
        return self.kind in ("date", "timestamp", "duration", "time")

    @property
    def is_ranked(self) -> bool:
        """Whether values have an order but no distances: text and binary (by their bytes), and tuples."""
        return self.kind in ("text", "binary", "tuple")

    @property
    def is_asof_only(self) -> bool:
        """Whether only as-of joins of tables compare such values."""
        return self.has_integers or self.is_ranked or self.kind in ("duration", "time")

    @property
    def steps_in_one(self) -> Fraction:
        """Steps in the number 1, exactly; less than one for decimals of a negative scale."""
        return Fraction(10) ** self.scale

    @property
    def step_ns(self) -> int:
        """Nanoseconds in one step of a date, timestamp, duration or time of day."""
        if self.kind == "date":
            return DAY_S * 10**9
        return int(1_000 ** (3 - TIME_UNITS.index(self.unit)))


@dataclass(frozen=True)
class OutputColumn:
    """A column of a join's output: a column ``source`` of one side.

    ``filled_from`` is the right column that fills it in unmatched right rows (``how="right"`` and ``"full"``).
    """

    name: str
    side: Side
    source: str
    filled_from: str | None = None


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, without dictionary or run-end encoding.

    Examples
    --------
    >>> plain_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    while data_type.id in _ENCODED:
        data_type = data_type.value_type
    return data_type


def is_fixed(data_type: pa.DataType) -> bool:
    """Return whether values are whole bytes of one width."""
    if not pat.is_primitive(data_type) and not pat.is_decimal(data_type) and not pat.is_fixed_size_binary(data_type):
        return False
    return not pat.is_boolean(data_type) and data_type.bit_width > 0


def is_null_type(data_type: pa.DataType) -> bool:
    """Return whether a type has no value except null, in any encoding.

    Examples
    --------
    >>> is_null_type(pa.dictionary(pa.int8(), pa.null()))
    True
    """
    return bool(plain_type(data_type).id == _NULL)


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
    return any(pat.is_dictionary(each) and each.ordered for each in _types_in(data_type))


def check_ties(right: pa.Schema, tie_columns: Sequence[str], *, remedy: str = "") -> None:
    """Raise SchemaError if a tie column contains unions, which have no order. ``remedy`` extends the advice."""
    for name in tie_columns:
        data_type = right.field(name).type
        if any(map(pat.is_union, _types_in(data_type))):
            raise SchemaError(
                f"The right column {name!r} is of type {data_type}, and unions have no order, but all right columns "
                f"break ties. Drop it or cast it to a type with an order{remedy}.",
                name="JN-TIES-TYPE",
            )


def _types_in(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and the types within it."""
    yield data_type
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _types_in(data_type.storage_type)
    elif data_type.id in _ENCODED:
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
    Domain(kind='timestamp', scale=0, unit='us', has_integers=False, parts=())
    """
    return shared_domain([("left", left), ("right", right)], role="on", default=default, mixed=mixed)


def shared_domain(
    fields: Sequence[tuple[Side, pa.Field]], *, role: str, default: pa.DataType | None = None, mixed: bool = False
) -> Domain:
    """Return the domain in which several columns are compared exactly, as `common_domain`. ``role`` is for messages."""
    known = [(side, field) for side, field in fields if not is_null_type(field.type)]
    known = known or [("left", pa.field("", default or pa.int64()))]
    first_side, first = known[0]
    domain = _domain(first_side, first, role, any_order=mixed)
    for side, field in known[1:]:
        other = _domain(side, field, role, any_order=mixed)
        if mixed and {other.kind, domain.kind} == {"integer", "float"}:
            return Domain("float", has_integers=True)
        if other.kind != domain.kind:
            raise SchemaError(
                f"{role}= compares {first_side} {first.name!r} ({first.type}) with {side} {field.name!r} "
                f"({field.type}), which have no common values. Cast one of them to the type of the other.",
                name="JN-TYPE-MISMATCH",
            )
        unit = domain.unit
        if other.is_time and other.kind != "date":
            unit = max(domain.unit, other.unit, key=TIME_UNITS.index)
        if other.kind == "timestamp":
            zones = [plain_type(each.type).tz for each in (first, field)]
            if (zones[0] is None) != (zones[1] is None):
                raise SchemaError(
                    f"{role}= compares {first_side} {first.name!r} ({first.type}) with {side} {field.name!r} "
                    f"({field.type}), but only one of them has a time zone. Add a time zone to the other, or drop it "
                    "from both.",
                    name="JN-TIMEZONE-MISMATCH",
                )
        domain = Domain(domain.kind, scale=max(domain.scale, other.scale), unit=unit)
    return domain


def _domain(side: Side, field: pa.Field, role: str, *, any_order: bool) -> Domain:
    check_order(field, asked=f"{role}=", side=side)
    data_type = plain_type(field.type)
    if pat.is_integer(data_type):
        return Domain("integer")
    if pat.is_floating(data_type):
        return Domain("float")
    if pat.is_decimal(data_type):
        return Domain("decimal", scale=data_type.scale)
    if pat.is_date(data_type):
        return Domain("date", unit="d")
    if pat.is_timestamp(data_type):
        return Domain("timestamp", unit=data_type.unit)
    if any_order and (pat.is_duration(data_type) or pat.is_time(data_type)):
        return Domain("duration" if pat.is_duration(data_type) else "time", unit=data_type.unit)
    if any_order and key_kind(data_type) in ("string", "binary"):
        return Domain("text" if key_kind(data_type) == "string" else "binary")
    more = ", timestamp, duration, time of day, text or binary" if any_order else " or timestamp"
    raise SchemaError(
        f"The {side} {role} column {field.name!r} is of type {field.type}, which this join cannot order by. Cast it "
        f"to an integer, float, decimal, date{more}.",
        name="JN-TYPE-UNSUPPORTED",
    )


_LISTS = pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view


def key_kind(data_type: pa.DataType) -> str:
    """Return the class of types among which values are compared exactly, regardless of width and encoding."""
    data_type = plain_type(data_type)
    if pat.is_integer(data_type):
        return "integer"
    if pat.is_floating(data_type):
        return "float"
    if pat.is_decimal(data_type):
        return "decimal"
    if pat.is_date(data_type):
        return "date"
    if pat.is_timestamp(data_type):
        return "timestamp" if data_type.tz is None else "timestamp with time zone"
    if pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type):
        return "string"
    if pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_binary_view(data_type):
        return "binary"
    if pat.is_fixed_size_binary(data_type):
        return "binary"
    if pat.is_time(data_type):
        return "time"
    if pat.is_map(data_type):
        return "map"
    if any(is_list(data_type) for is_list in _LISTS):
        return f"list<{key_kind(data_type.value_type)}>"
    if pat.is_struct(data_type):
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return f"struct<{', '.join(key_kind(field.type) for field in fields)}>"
    return str(data_type)


def left_columns(left: pa.Schema) -> tuple[OutputColumn, ...]:
    """Return the columns of an output of the left table alone, given its own columns."""
    return tuple(OutputColumn(name, "left", name) for name in left.names)
