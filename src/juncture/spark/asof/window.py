"""As-of joins by a union and a window function, in SQL only, without Python workers.

Both sides are combined in one table and sorted by key and ``on``. The last right row so far, as a struct, matches a
left row. Right rows at the same ``on`` are sorted by the tie-breaking columns, so the last one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.asof.sql import SqlJoin
from juncture.spark.input.frame import FrameSide
from juncture.spec.asof import Direction, ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SALTS = 1_024
"""Number of groups for left rows that cannot match: their keys may all be null."""


def join_window(join: ResolvedAsof, left: FrameSide, right: FrameSide) -> DataFrame:
    """Return the result of a join by a window over both sides; raise `PlanError` without common types.

    Costs one shuffle of all rows and a sort, or two for ``nearest``. A key is never split.
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
