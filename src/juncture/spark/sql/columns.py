"""The types in which SQL compares columns."""

from __future__ import annotations

from pyspark.sql import types as st

from juncture.errors import PlanError

_DIGITS_MAX = 38


def common_type(ours: st.DataType, theirs: st.DataType) -> st.DataType:
    """Return the type in which values of two types compare exactly; raise `PlanError` if SQL has none."""
    if isinstance(ours, st.NullType) or isinstance(theirs, st.NullType):
        known = theirs if isinstance(ours, st.NullType) else ours
        # Spark's joins lose rows with keys of the null type, even if nulls are equal.
        return st.BooleanType() if isinstance(known, st.NullType) else known
    if isinstance(ours, st.IntegralType):
        return st.LongType()
    if isinstance(ours, st.DayTimeIntervalType):
        return st.DayTimeIntervalType()
    if isinstance(ours, st.TimeType) and isinstance(theirs, st.TimeType):
        return max(ours, theirs, key=lambda each: each.precision)
    if isinstance(ours, st.FloatType | st.DoubleType):
        return st.DoubleType()
    if isinstance(ours, st.StringType):
        return st.StringType()
    if isinstance(ours, st.DecimalType) and isinstance(theirs, st.DecimalType):
        scale = max(ours.scale, theirs.scale)
        digits = max(ours.precision - ours.scale, theirs.precision - theirs.scale) + scale
        if digits > _DIGITS_MAX:
            raise PlanError(
                f"Key columns of {ours.simpleString()} and {theirs.simpleString()} have no common type in SQL. Cast "
                "one of them to fewer digits.",
                name="JN-TYPE-MISMATCH-SQL",
            )
        return st.DecimalType(digits, scale)
    if isinstance(ours, st.ArrayType) and isinstance(theirs, st.ArrayType):
        return st.ArrayType(common_type(ours.elementType, theirs.elementType))
    if isinstance(ours, st.StructType) and isinstance(theirs, st.StructType):
        pairs = zip(ours.fields, theirs.fields, strict=True)
        types = [common_type(a.dataType, b.dataType) for a, b in pairs]
        return st.StructType([st.StructField(f"f{i}", data_type) for i, data_type in enumerate(types)])
    return ours


def has_map(data_type: st.DataType) -> bool:
    """Return whether a type contains maps, which SQL neither sorts nor hashes."""
    if isinstance(data_type, st.MapType):
        return True
    if isinstance(data_type, st.ArrayType):
        return has_map(data_type.elementType)
    return isinstance(data_type, st.StructType) and any(has_map(field.dataType) for field in data_type.fields)
