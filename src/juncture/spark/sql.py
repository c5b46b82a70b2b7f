"""A join in SQL: both sides with their key and span columns, the condition, and the result from pairs.

Input columns are numbered (``l0``, ``r0``, …), since names may contain dots and backticks or differ only in case. Keys
in common types are ``lkey0`` and ``rkey0``; each kind of join adds its own columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.errors import PlanError
from juncture.predicate.language.nodes import Column as Named
from juncture.predicate.language.nodes import Node, walk
from juncture.predicate.language.sql import to_sql
from juncture.spark.input.sides import FrameSide, SparkSide, in_jvm
from juncture.spark.schema import arrow_schema, has_map, spark_schema
from juncture.spec.compared import Conversion, Expression, parsed
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_DIGITS_MAX = 38


def common_type(left_type: st.DataType, right_type: st.DataType) -> st.DataType:
    """Return the type in which values of two types compare exactly; raise `PlanError` if SQL has none."""
    if isinstance(left_type, st.NullType) or isinstance(right_type, st.NullType):
        typed = right_type if isinstance(left_type, st.NullType) else left_type
        # Spark's joins lose rows with keys of the null type, even if nulls are equal.
        return st.BooleanType() if isinstance(typed, st.NullType) else typed
    if isinstance(left_type, st.IntegralType):
        return st.LongType()
    if isinstance(left_type, st.DayTimeIntervalType):
        return st.DayTimeIntervalType()
    # Spark has the type since 4.1.
    if hasattr(st, "TimeType") and isinstance(left_type, st.TimeType) and isinstance(right_type, st.TimeType):
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


Names = Mapping[Side, Mapping[str, str]]
"""The SQL name of each column of both sides."""


def expression(node: Node, names: Names) -> Column:
    """Return an expression as a Spark column."""
    return F.expr(to_sql(_renamed(node, names), names=("", ""), guarded=True))


def _renamed(node: Node, names: Names) -> Node:
    renamed: dict[Node, Node] = {}

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renewed(each) for each in value)
        return renamed[value] if isinstance(value, Node) else value

    for part in walk(node):
        if isinstance(part, Named):
            renamed[part] = replace(part, name=names[part.side][part.name])
        else:
            renamed[part] = replace(
                part, **{each.name: renewed(getattr(part, each.name)) for each in fields(part) if each.init}
            )
    return renamed[node]


def salt_of(content: Column, hot: Iterable[tuple[Column, int]]) -> Column:
    """Return the part of each row of a hot group, as condition and number of parts, or 0.

    It depends on a hash of the row's content: a random number could differ when a task is retried.
    """
    salt = F.lit(0)
    for is_hot, parts in hot:
        salt = F.when(is_hot, F.pmod(content, F.lit(parts)).cast("int")).otherwise(salt)
    return salt


def key_hash(keys: Sequence[str]) -> Column:
    """Return a hash of a row's keys."""
    return F.xxhash64(*keys) if keys else F.lit(0).cast("long")


SPARK_HOW = {
    "inner": "inner",
    "left": "left",
    "right": "right",
    "full": "full",
    "semi": "left_semi",
    "anti": "left_anti",
}
"""Spark's name of each join type."""


class SqlSides:
    """Both inputs with known column names and their keys. Raises `PlanError` if keys have no common type.

    `names` has the SQL names of input columns, and `keys` those of the pairs of keys. With `inlined`, computed values
    stay expressions (in `derived`, by name) and rows have no more columns than the inputs, so that a state stores
    nothing twice.
    """

    def __init__(self, join: Resolved, left: FrameSide, right: FrameSide, *, inlined: bool = False) -> None:
        self.join = join
        self._inlined = inlined
        self.derived: dict[str, Column] = {}
        inputs: dict[Side, FrameSide] = {"left": left, "right": right}
        self.names: dict[Side, dict[str, str]] = {
            side: {name: f"{side[0]}{i}" for i, name in enumerate(each.schema.names)} for side, each in inputs.items()
        }
        self._types = {
            side: {field.name: field.dataType for field in each.spark_schema.fields} for side, each in inputs.items()
        }
        self.rows = {side: each.frame.toDF(*self.names[side].values()) for side, each in inputs.items()}
        self.keys: dict[Side, list[str]] = {"left": [], "right": []}
        for left_key, right_key in join.by_pairs:
            shared = common_type(self._types["left"][left_key], self._types["right"][right_key])
            self.add_key(self.column("left", left_key).cast(shared), self.column("right", right_key).cast(shared))

    def add_key(self, left: Column, right: Column) -> None:
        """Add a pair of columns that must be equal."""
        for (side, names), value in zip(self.keys.items(), (left, right), strict=True):
            names.append(f"{side[0]}key{len(names)}")
            self.derive(side, {names[-1]: value})

    def derive(self, side: Side, columns: Mapping[str, Column]) -> None:
        """Add computed columns of an input, replacing those of the same name."""
        if self._inlined:
            self.derived.update(columns)
        else:
            self.rows[side] = self.rows[side].withColumns(dict(columns))

    def value(self, name: str) -> Column:
        """Return a column of a side, or its computed expression."""
        return self.derived.get(name, F.col(name))

    def column(self, side: Side, column: str) -> Column:
        """Return a column of an input."""
        return F.col(self.names[side][column])

    def pair_side(self, side: Side, decisive: Sequence[str]) -> PairSide:
        """Return a side of a join, given the columns that decide besides its keys."""
        hashable = (self.names[side][name] for name, kind in self._types[side].items() if not has_map(kind))
        keys = tuple(self.keys[side])
        return PairSide(self.rows[side], keys, (*keys, *decisive), tuple(hashable))

    def output(self) -> list[str | Column]:
        """Return the result's columns of a pair or unmatched row, by name: a `Column` would cost several JVM calls."""
        columns: list[str | Column] = []
        for column in self.join.output:
            if column.filled_from is None:
                columns.append(self.names[column.side][column.source])
                continue
            same = self._types["left"][column.source]
            filling = self.column("right", column.filled_from).cast(same)
            columns.append(F.coalesce(self.column(column.side, column.source), filling))
        return columns


@dataclass(frozen=True)
class RangeColumns:
    """The spans of both sides: ranges of ordered values, which matching rows share a point of.

    Their ends ``lfirst``, ``llast``, ``rfirst``, ``rlast`` are never reversed; null for rows that can match nothing.
    """

    is_real: bool = False  # whether values have fractions, rather than being 64-bit integers
    are_points: bool = False  # whether each right row is a point
    width: float | None = None  # the length of all left spans, if constant
    step_ns: int = 0  # nanoseconds of a step, for times as 64-bit integers; otherwise 0


@dataclass(frozen=True)
class PairSide:
    """A side of a join that Spark can run. Rows that agree in the `decisive` columns match alike."""

    rows: DataFrame
    keys: tuple[str, ...]
    decisive: tuple[str, ...]
    hashable: tuple[str, ...]  # the columns that SQL can hash


@dataclass(frozen=True)
class Pairs:
    """A join that Spark can run: rows of both sides, keys, condition and result."""

    sides: Mapping[Side, PairSide]
    match: Column | None  # the condition besides equal keys
    output: tuple[str | Column, ...]  # the columns of the result, by name if they are columns of the rows
    names: tuple[str, ...]  # the names of the columns of the result
    spans: RangeColumns | None = None  # the spans of rows, if they limit matches
    nulls_equal: bool = False
    derived: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sides: SqlSides,
        match: Column | None,
        decisive: Mapping[Side, Sequence[str]],
        spans: RangeColumns | None = None,
        *,
        nulls_equal: bool = False,
    ) -> Pairs:
        """Return the join of two sides, given the columns that decide besides their keys."""
        return cls(
            sides={side: sides.pair_side(side, columns) for side, columns in decisive.items()},
            match=match,
            output=tuple(sides.output()),
            names=tuple(column.name for column in sides.join.output),
            spans=spans,
            nulls_equal=nulls_equal,
            derived=sides.derived,
        )

    @property
    def is_keyed(self) -> bool:
        """Whether anything has to be equal."""
        return bool(self.sides["left"].keys)

    def condition(self, *more: Column) -> Column:
        """Return the whole condition."""
        left, right = ([self.derived.get(key, F.col(key)) for key in side.keys] for side in self.sides.values())
        keys = zip(left, right, strict=True)
        conditions = [one.eqNullSafe(other) if self.nulls_equal else one == other for one, other in keys]
        conditions += [self.match] if self.match is not None else []
        return reduce(lambda one, other: one & other, [*conditions, *more], F.lit(True))

    def by_marks(self, rows: DataFrame, side: Side, marks: DataFrame, how: str) -> DataFrame:
        """Return the rows of a side that agree with a match mark (``semi``), or with none (``anti``)."""
        decisive = self.sides[side].decisive
        marks = marks.toDF(*(f"mark{i}" for i in range(len(decisive))))
        same = (F.col(name).eqNullSafe(F.col(f"mark{i}")) for i, name in enumerate(decisive))
        return rows.join(marks, reduce(lambda one, other: one & other, same), SPARK_HOW[how])

    def result(self, rows: DataFrame) -> DataFrame:
        """Return the result from rows with the columns of both sides, or of the left only if it has no others."""
        texts = [f"{column} AS c{i}" for i, column in enumerate(self.output) if isinstance(column, str)]
        if len(texts) == len(self.output):
            return rows.selectExpr(*texts).toDF(*self.names)
        columns = (F.col(column) if isinstance(column, str) else column for column in self.output)
        return rows.select(*(column.alias(f"c{i}") for i, column in enumerate(columns))).toDF(*self.names)


def join_nested(pairs: Pairs, how: str) -> DataFrame:
    """Return the result of Spark's own join: by the keys, if any, comparing all pairs that share them."""
    left, right = (side.rows for side in pairs.sides.values())
    return pairs.result(left.join(right, pairs.condition(), SPARK_HOW[how]))


def computed_sides(join: Resolved, left: SparkSide, right: SparkSide) -> tuple[Resolved, SparkSide, SparkSide]:
    """Return a join and its inputs with all compared columns; raise `SchemaError` for types that Spark lacks."""
    if not join.is_computed:
        return join, left, right
    left, right = _with_computed(left, join, "left"), _with_computed(right, join, "right")
    return join.retyped(left.schema, right.schema), left, right


def _with_computed(side: SparkSide, join: Resolved, name: Side) -> SparkSide:
    values = [value for value in join.computed(name) if value.name not in side.schema.names]
    if not values:
        return side
    fields = [join.schema(name).field(value.name) for value in values]
    spark_side = in_jvm(side, name)
    safe = {column_name: f"c{index}" for index, column_name in enumerate(spark_side.schema.names)}
    frame = spark_side.frame.toDF(*safe.values())
    columns = {column_name: F.col(safe[column_name]) for column_name in safe}
    for value, wanted in zip(values, spark_schema(pa.schema(fields)), strict=True):
        if isinstance(value, Expression):
            column = expression(parsed(value.text, spark_side.schema, name), {name: safe})
        elif isinstance(value, Conversion):
            column = columns[value.of[0].name]
        else:
            column = F.struct(*(columns[part.name] for part in value.parts))
        columns[value.name] = column.cast(wanted.dataType)
    numbered = [column.alias(f"c{index}") for index, column in enumerate(columns.values())]
    frame = frame.select(*numbered).toDF(*columns)
    schema = arrow_schema(frame.schema, name)
    return FrameSide(frame, pa.schema([*spark_side.schema, *(schema.field(value.name) for value in values)]))
