"""Equality joins that Spark is told of by the names that the columns have, in a few words of SQL.

In general the columns of a join go by number (`juncture.spark.sql.join`). That takes a call of the JVM for each, and
several operations on a DataFrame, with each of which Spark looks at all that comes before. In a pipeline of joins of
wide tables it takes longer than the joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.spark.equi.join import Hint
from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.columns import common_type
from juncture.spark.sql.join import SPARK_HOW
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import OutputColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMELESS = st.ArrayType | st.StructType | st.MapType
"""Types of keys that have others within, whose names may be anything."""


def goes_by_name(join: ResolvedEqui, left: FrameSide, right: FrameSide) -> bool:
    """Tell whether a join can be told that way: by keys alone, of types that have a name."""
    sides = ((left, join.left_by), (right, join.right_by))
    types = (side.spark_schema[key].dataType for side, keys in sides for key in keys)
    return join.predicate is None and not any(isinstance(each, _NAMELESS) for each in types)


def joined_by_name(join: ResolvedEqui, left: FrameSide, right: FrameSide, hint: Hint) -> DataFrame:
    """Return the result of a join by key.

    Parameters
    ----------
    join, left, right
        The join and its inputs, of which `goes_by_name` is true.
    hint
        Which operator Spark is to take.
    """
    ours, theirs = _Named(left, "l"), _Named(right, "r")
    equals = "<=>" if join.nulls_equal else "="
    keys = []
    for one, other in zip(join.left_by, join.right_by, strict=True):
        shared = common_type(ours.types[one], theirs.types[other])
        keys.append(f"{ours.cast(one, shared)} {equals} {theirs.cast(other, shared)}")
    left_rows, right_rows = hint.give(ours.frame, theirs.frame)
    rows = left_rows.join(right_rows, F.expr(" AND ".join(keys)), SPARK_HOW[join.how])
    return rows.selectExpr(*_shown(join.output, ours, theirs))


class _Named:
    """An input, and what its columns are called in SQL: by number where names differ in case only."""

    def __init__(self, side: FrameSide, letter: str) -> None:
        given = side.schema.names
        self.types = {field.name: field.dataType for field in side.spark_schema.fields}
        self.has_own_names = len({name.lower() for name in given}) == len(given)
        inside = given if self.has_own_names else [f"c{i}" for i in range(len(given))]
        frame = side.frame if self.has_own_names else side.frame.toDF(*inside)
        self.frame = frame.alias(letter)
        self.names = {name: f"{letter}.{_quoted(each)}" for name, each in zip(given, inside, strict=True)}

    def cast(self, name: str, wanted: st.DataType) -> str:
        """Return a column in a type."""
        column = self.names[name]
        return column if self.types[name] == wanted else f"CAST({column} AS {wanted.simpleString()})"


def _shown(output: tuple[OutputColumn, ...], ours: _Named, theirs: _Named) -> Iterator[str]:
    """Yield the columns of the result: of the left side all at once, where they come first and as they are."""
    first = [OutputColumn(name, "left", name) for name in ours.names]
    if ours.has_own_names and list(output[: len(first)]) == first:
        yield "l.*"
        output = output[len(first) :]
    for column in output:
        value = (ours if column.side == "left" else theirs).names[column.source]
        if column.filled_from is not None:
            value = f"coalesce({value}, {theirs.cast(column.filled_from, ours.types[column.source])})"
        yield f"{value} AS {_quoted(column.name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
