"""Spark's own as-of join, where it can be made exact.

Spark breaks ties arbitrarily, so tied right rows are first reduced to the winner. This algorithm exists for comparison:
for each left row, Spark scans the right rows of its key from their start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.spark.asof.sql import SqlJoin
from juncture.spark.input.frame import FrameSide
from juncture.spark.session.session import setting
from juncture.spec.asof import ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING = "spark.sql.join.asofJoin.enabled"


def has_native(session: SparkSession) -> bool:
    """Return whether the session enables Spark's own as-of join (4.3 or newer)."""
    major, minor = (int(part) for part in session.version.split(".")[:2])
    return (major, minor) >= (4, 3) and (setting(session, _SETTING) or "").lower() == "true"


def join_native(join: ResolvedAsof, left: FrameSide, right: FrameSide) -> DataFrame:
    """Return the result of Spark's own as-of join; raise `PlanError` if its result would differ."""
    sql = SqlJoin(join, left, right)
    refusal = _refusal(sql)
    if refusal:
        raise PlanError(
            f"algorithm='native' cannot run this join: {refusal} Pass algorithm='auto' to use another one.",
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
    own, other = ("struct(l.{})", "struct(r.right_{})") if join.nulls_equal else ("l.{}", "r.right_{}")
    keys = " AND ".join(f"{own.format(name)} = {other.format(name)}" for name in sql.keys)
    query = (
        f"SELECT * FROM {{left_rows}} l LEFT ASOF JOIN {{right_rows}} r MATCH_CONDITION (l.on0 {sign} r.right_on0)"
        + (f" ON {keys}" if keys else "")
    )
    rows = left.session.sql(query, left_rows=left_rows, right_rows=right_rows)
    return sql.result(rows, sql.if_within("found", direction))


def _refusal(sql: SqlJoin) -> str | None:
    """Return why Spark's own join would return other rows, or None."""
    spec = sql.join.spec
    if spec.direction == "nearest":
        return "Spark's nearest returns wrong rows when an earlier right value repeats."
    if spec.how not in ("inner", "left"):
        return f"how={spec.how!r}: Spark's ASOF JOIN supports inner and left."
    if spec.matches > 1:
        return f"matches={spec.matches}: Spark's ASOF JOIN finds one match per row."
    if spec.ties == "error":
        return "ties='error': Spark's ASOF JOIN cannot detect ties."
    if len(sql.words) > 1:
        return "the on columns are decimals that have no common type."
    return None
