"""As-of joins in SQL, without Python workers: ``window`` and ``native``.

``window`` combines both sides in one table, sorted by key and ``on``. The last right row so far, as a struct, matches a
left row. Right rows at the same ``on`` are sorted by the tie-breaking columns, so the last one wins.

``native`` is Spark's own as-of join, where it can be made exact. Spark breaks ties arbitrarily, so tied right rows are
first reduced to the winner. It exists for comparison: for each left row, Spark scans the right rows of its key from
their start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.errors import PlanError
from juncture.ordered.sql import sql_domain
from juncture.spark.exchange import needed_right
from juncture.spark.input.sides import FrameSide
from juncture.spark.schema import has_map, is_collated
from juncture.spark.session.session import setting
from juncture.spark.sql import SqlSides
from juncture.spec.asof import Direction, ResolvedAsof
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class SqlJoin:
    """An as-of join in SQL. Raises `PlanError` if a pair of columns has no common type.

    `keys`, `words` and `ties` name its columns: the keys and ``on`` in common types, and the tie-breaking columns.
    """

    def __init__(self, join: ResolvedAsof, left: FrameSide, right: FrameSide) -> None:
        self.join = join
        sides = join.left_schema.field(join.left_on).type, join.right_schema.field(join.right_on).type
        self._domain = sql_domain(join.domain, sides)
        self._domain.check_distances()
        self._sides = SqlSides(join, left, right, inlined=True)
        self._l, self._r = self._sides.names["left"], self._sides.names["right"]
        right_types = {field.name: field.dataType for field in right.spark_schema.fields}
        self._ties = {name: right_types[name] for name in join.tie_columns if name in needed_right(join).names}
        self.keys = [f"key{i}" for i in range(len(self._sides.keys["left"]))]
        self.words = [f"on{i}" for i in range(len(self._domain.words(F.lit(None))))]
        self.ties = [f"tie{i}" for i in range(len(self._ties))]

    def left_rows(self) -> DataFrame:
        """Return the left rows with ``row``, keys, ``on``, and whether the row is ``usable`` (can match)."""
        compared, usable = self._compared("left", self.join.left_on)
        row = F.struct(*self._l.values()).alias("row")
        return self._sides.rows["left"].select(row, usable.alias("usable"), *compared)

    def right_rows(self) -> DataFrame:
        """Return the right rows that can match, with the payload as ``payload``, keys, ``on`` and ties."""
        compared, usable = self._compared("right", self.join.right_on)
        names = dict.fromkeys([self.join.right_on, *self.join.output_names["right"]])
        payload = F.struct(*(self._r[name] for name in names)).alias("found")
        ties = (_order_form(F.col(self._r[name]), data_type) for name, data_type in self._ties.items())
        named = (value.alias(name) for name, value in zip(self.ties, ties, strict=True))
        return self._sides.rows["right"].where(usable).select(payload, *compared, *named)

    def _compared(self, side: Side, on: str) -> tuple[list[Column], Column]:
        """Return the keys and ``on`` of a side, and whether a row can match."""
        keys = [self._sides.value(name) for name in self._sides.keys[side]]
        words = self._domain.words(self._sides.column(side, on))
        usable = words[0].isNotNull()
        for key in [] if self.join.nulls_equal else keys:
            usable = usable & key.isNotNull()
        named = zip((*self.keys, *self.words), (*keys, *words), strict=True)
        return [value.alias(name) for name, value in named], usable

    def distance(self, candidate: str, direction: Direction) -> list[Column]:
        """Return the distance between a left row and a candidate in a direction."""
        right_words = self._domain.words(F.col(candidate).getField(self._r[self.join.right_on]))
        left_words = [F.col(name) for name in self.words]
        return (
            self._domain.distance(right_words, left_words)
            if direction.forward
            else self._domain.distance(left_words, right_words)
        )

    def if_within(self, candidate: str, direction: Direction) -> Column:
        """Return a candidate in a direction, or null if it is beyond the tolerance."""
        tolerance = self.join.tolerance
        if tolerance is None:
            return F.col(candidate)
        distance = self.distance(candidate, direction)
        if tolerance.column is None:
            assert tolerance.constant is not None
            return F.when(self._domain.within(distance, tolerance.constant), F.col(candidate))
        limit = F.col("row").getField(self._l[tolerance.column])
        data_type = self.join.left_schema.field(tolerance.column).type
        return F.when(self._domain.within_row(distance, limit, data_type), F.col(candidate))

    def result(self, rows: DataFrame, match: Column) -> DataFrame:
        """Return the result from left rows with their match or null."""
        rows = rows.withColumn("match", match)
        how, matched = self.join.spec.how, F.col("match").isNotNull()
        if how in ("inner", "semi"):
            rows = rows.where(matched)
        elif how == "anti":
            rows = rows.where(~matched)
        columns = [
            F.col("row").getField(self._l[column.source])
            if column.side == "left"
            else F.col("match").getField(self._r[column.source])
            for column in self.join.output
        ]
        named = [value.alias(f"c{i}") for i, value in enumerate(columns)]
        return rows.select(*named).toDF(*(column.name for column in self.join.output))


def _order_form(value: Column, data_type: st.DataType) -> Column:
    """Return a value in a type that SQL orders as joins do: maps as sorted entries, text without collation."""
    if not has_map(data_type) and not is_collated(data_type):
        return value
    if isinstance(data_type, st.StringType):
        return value.cast(st.StringType())
    if isinstance(data_type, st.ArrayType):
        element = data_type.elementType
        return F.transform(value, lambda item: _order_form(item, element))
    if isinstance(data_type, st.StructType):
        fields = [
            _order_form(value.getField(f.name), f.dataType).alias(f"f{i}") for i, f in enumerate(data_type.fields)
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    assert isinstance(data_type, st.MapType)
    key, value_type = data_type.keyType, data_type.valueType
    entries = F.transform(
        F.map_entries(value),
        lambda e: F.struct(_order_form(e["key"], key).alias("key"), _order_form(e["value"], value_type).alias("value")),
    )
    return F.sort_array(entries)


_SALTS = 1_024  # number of groups for left rows that cannot match: their keys may all be null


def join_window(join: ResolvedAsof, left: FrameSide, right: FrameSide) -> DataFrame:
    """Return a join by a window over both sides, with one shuffle and sort of all rows, or two for ``nearest``.

    A key is never split. Raises `PlanError` without common types.
    """
    sql = SqlJoin(join, left, right)
    spread = F.pmod(F.monotonically_increasing_id(), F.lit(_SALTS)).cast("int") + 1
    salt = F.when(F.col("usable"), F.lit(0)).otherwise(spread)
    left_rows = sql.left_rows().withColumn("is_left", F.lit(True)).withColumn("salt", salt).drop("usable")
    right_rows = sql.right_rows().withColumn("is_left", F.lit(False)).withColumn("salt", F.lit(0))
    rows = left_rows.unionByName(right_rows, allowMissingColumns=True)
    for direction in join.directions:
        rows = rows.withColumn(direction.name, _last(sql, direction))
    return sql.result(rows.where("is_left"), _choice(sql))


def _last(sql: SqlJoin, direction: Direction) -> Column:
    """Return the last right row before each row, or the first one after it."""
    order = [F.col(word).desc() if direction.forward else F.col(word).asc() for word in sql.words]
    order.append(F.col("is_left").desc() if direction.strict else F.col("is_left").asc())
    least_wins = sql.join.spec.ties == "first"
    order += [F.col(name).desc_nulls_last() if least_wins else F.col(name).asc_nulls_first() for name in sql.ties]
    window = Window.partitionBy("salt", *sql.keys).orderBy(*order)
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.last("found", ignorenulls=True).over(so_far)


def _choice(sql: SqlJoin) -> Column:
    """Return the match of a left row, or null."""
    backward, *others = (sql.if_within(direction.name, direction) for direction in sql.join.directions)
    if not others:
        return backward
    before, after = (sql.distance(direction.name, direction) for direction in sql.join.directions)
    is_before = F.struct(*before) < F.struct(*after)
    if sql.join.spec.prefer == "earlier":
        is_before = F.struct(*before) <= F.struct(*after)
    takes_backward = F.col("backward").isNotNull() & (F.col("forward").isNull() | is_before)
    return F.when(takes_backward, backward).otherwise(others[0])


_SETTING = "spark.sql.join.asofJoin.enabled"


def has_native(session: SparkSession) -> bool:
    """Return whether the session enables Spark's own as-of join (4.3 or newer)."""
    major, minor = (int(part) for part in session.version.split(".")[:2])
    return (major, minor) >= (4, 3) and (setting(session, _SETTING) or "").lower() == "true"


def join_native(join: ResolvedAsof, left: FrameSide, right: FrameSide) -> DataFrame:
    """Return the result of Spark's own as-of join; raise `PlanError` if its result would differ."""
    sql = SqlJoin(join, left, right)
    if len(sql.words) > 1:
        raise PlanError(
            "algorithm='native' cannot run this join: the on columns are decimals that have no common type. Pass "
            "algorithm='auto' to use another one.",
            name="JN-ALGORITHM-UNSUITABLE",
        )
    left_rows = sql.left_rows()
    left_rows = left_rows.withColumn("on0", F.when(F.col("usable"), F.col("on0")))
    right_rows = sql.right_rows().withColumnsRenamed({name: f"right_{name}" for name in (*sql.keys, "on0")})
    if sql.ties:
        taken = F.min_by if join.spec.ties == "first" else F.max_by
        winner = taken("found", F.struct(*sql.ties)).alias("found")
        right_rows = right_rows.groupBy(*(f"right_{name}" for name in (*sql.keys, "on0"))).agg(winner)
    [direction] = join.directions
    sign = ("<" if direction.forward else ">") + ("" if direction.strict else "=")
    # Nulls in structs are equal.
    left_form, other = ("struct(l.{})", "struct(r.right_{})") if join.nulls_equal else ("l.{}", "r.right_{}")
    keys = " AND ".join(f"{left_form.format(name)} = {other.format(name)}" for name in sql.keys)
    query = (
        f"SELECT * FROM {{left_rows}} l LEFT ASOF JOIN {{right_rows}} r MATCH_CONDITION (l.on0 {sign} r.right_on0)"
        + (f" ON {keys}" if keys else "")
    )
    rows = left.session.sql(query, left_rows=left_rows, right_rows=right_rows)
    return sql.result(rows, sql.if_within("found", direction))
