"""Restrictions of joins in Spark's types that the equivalent Arrow types do not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.types as pat

from juncture.errors import PlanError, SchemaError
from juncture.spark.session.session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from juncture.spec.resolved import Resolved
    from juncture.spec.schema import Side

_TIMES = "spark.sql.timeType.enabled"
_OLD_INTERVALS = "spark.sql.legacy.interval.enabled"


def check_types(join: Resolved, left: StructType, right: StructType) -> None:
    """Raise `SchemaError` for collated text that decides matches, and for filled columns of two types.

    Tasks compare text by its bytes and results must not depend on the algorithm, so Spark's own operators do not use
    collations either. The result may contain collated text.
    """
    types: dict[Side, dict[str, DataType]] = {
        "left": {field.name: field.dataType for field in left.fields},
        "right": {field.name: field.dataType for field in right.fields},
    }
    for side, known in types.items():
        for name, argument in _deciding(join, side).items():
            if is_collated(known[name]):
                raise SchemaError(
                    f"{argument} names the {side} column {join.value(side, name).label!r}, which is of type "
                    f"{known[name].simpleString()}, but joins compare text by bytes. Pass collate(column, "
                    "'UTF8_BINARY'), with lower(column) to ignore case.",
                    name="JN-COLLATION",
                )
    for column in join.output:
        if column.filled_from is not None:
            left_type, right_type = types["left"][column.source], types["right"][column.filled_from]
            names = left_type.simpleString(), right_type.simpleString()
            # A column of the null type can be filled with any type.
            if names[0] != names[1] and "void" not in names:
                raise SchemaError(
                    f"how={join.how!r} fills the left column {column.source!r} ({names[0]}) from the right column "
                    f"{column.filled_from!r} ({names[1]}) for unmatched right rows, but their types differ. Cast one "
                    "of them.",
                    name="JN-FILL-TYPE",
                )


def check_times(left: StructType, right: StructType, session: SparkSession) -> None:
    """Raise `SchemaError` for columns of type ``TIME`` from files if the session disables that type."""
    if (setting(session, _TIMES) or "").lower() != "false":
        return
    for side, schema in (("left", left), ("right", right)):
        for field in schema.fields:
            if re.search(r"\btime\(", field.dataType.simpleString()):
                raise SchemaError(
                    f"The {side} column {field.name!r} is of type {field.dataType.simpleString()}, which is "
                    f"disabled in this session. Set {_TIMES} to true, or drop the column.",
                    name="JN-TYPE-UNSUPPORTED",
                )


def check_intervals(join: Resolved, session: SparkSession) -> None:
    """Raise `PlanError` for a join in SQL that needs time intervals in a session with legacy intervals."""
    if (setting(session, _OLD_INTERVALS) or "").lower() == "true" and _makes_intervals(join):
        raise PlanError(
            f"{_OLD_INTERVALS} is true, but the join needs time differences as numbers. Set it to false for this join.",
            name="JN-SPARK-SETTING",
        )


def _makes_intervals(join: Resolved) -> bool:
    """Return whether a join in SQL computes intervals between times."""
    types = [join.left_schema.field(name).type for name in join.compared("left")]
    types += [join.right_schema.field(name).type for name in join.compared("right")]
    if join.predicate is not None:
        return any(map(pat.is_temporal, types))
    # Times with a zone are compared by their microseconds.
    return join.domain is not None and any(pat.is_timestamp(each) and each.tz is None for each in types)


def is_collated(data_type: DataType) -> bool:
    """Return whether a type contains text that is not compared by bytes.

    Examples
    --------
    >>> from pyspark.sql.types import ArrayType, StringType
    >>> is_collated(StringType()), is_collated(ArrayType(StringType("UTF8_LCASE")))
    (False, True)
    """
    from pyspark.sql import types as st

    if isinstance(data_type, st.StringType):
        return data_type != st.StringType()
    if isinstance(data_type, st.ArrayType):
        return is_collated(data_type.elementType)
    if isinstance(data_type, st.MapType):
        return is_collated(data_type.keyType) or is_collated(data_type.valueType)
    return isinstance(data_type, st.StructType) and any(is_collated(field.dataType) for field in data_type.fields)


def _deciding(join: Resolved, side: Side) -> dict[str, str]:
    """Return the columns of a side that decide matches, with the argument that names each."""
    named = dict[str, str]()
    for name in join.compared(side):
        parts = [part.name for part in join.value(side, name).parts]
        named |= dict.fromkeys(parts, "on" if len(parts) > 1 else "The condition")
    if side == "right":
        named |= dict.fromkeys(join.spec.order_columns(), "order_by")
    by = join.left_by if side == "left" else join.right_by
    return named | dict.fromkeys(by, join.spec.key_argument)
