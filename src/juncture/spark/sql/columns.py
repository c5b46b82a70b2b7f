"""The types in which SQL compares columns."""

from __future__ import annotations

from pyspark.sql import types as st

from juncture.errors import PlanError

_DIGITS_MAX = 38


def common_type(left_type: st.DataType, right_type: st.DataType) -> st.DataType:
    """Return the type in which values of two types compare exactly; raise `PlanError` if SQL has none."""
    if isinstance(left_type, st.NullType) or isinstance(right_type, st.NullType):
        known = right_type if isinstance(left_type, st.NullType) else left_type
        # Spark's joins lose rows with keys of the null type, even if nulls are equal.
        return st.BooleanType() if isinstance(known, st.NullType) else known
    if isinstance(left_type, st.IntegralType):
        return st.LongType()
    if isinstance(left_type, st.DayTimeIntervalType):
        return st.DayTimeIntervalType()
    if isinstance(left_type, st.TimeType) and isinstance(right_type, st.TimeType):
        return max(left_type, right_type, key=lambda each: each.precision)
    if isinstance(left_type, st.FloatType | st.DoubleType):
        return st.DoubleType()
    if isinstance(left_type, st.StringType):
        return st.StringType()
    if isinstance(left_type, st.DecimalType) and isinstance(right_type, st.DecimalType):
        scale = max(left_type.scale, right_type.scale)
        digits = max(left_type.precision - left_type.scale, right_type.precision - right_type.scale) + scale
        if digits > _DIGITS_MAX:
            raise PlanError(
                f"Key columns of {left_type.simpleString()} and {right_type.simpleString()} have no common type in "
                "SQL. Cast one of them to fewer digits.",
                name="JN-TYPE-MISMATCH-SQL",
            )
        return st.DecimalType(digits, scale)
    if isinstance(left_type, st.ArrayType) and isinstance(right_type, st.ArrayType):
        return st.ArrayType(common_type(left_type.elementType, right_type.elementType))
    if isinstance(left_type, st.StructType) and isinstance(right_type, st.StructType):
        pairs = zip(left_type.fields, right_type.fields, strict=True)
        types = [common_type(a.dataType, b.dataType) for a, b in pairs]
        return st.StructType([st.StructField(f"f{i}", data_type) for i, data_type in enumerate(types)])
    return left_type


def has_map(data_type: st.DataType) -> bool:
    """Return whether a type contains maps, which SQL neither sorts nor hashes."""
    if isinstance(data_type, st.MapType):
        return True
    if isinstance(data_type, st.ArrayType):
        return has_map(data_type.elementType)
    return isinstance(data_type, st.StructType) and any(has_map(field.dataType) for field in data_type.fields)
