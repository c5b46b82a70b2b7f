"""Pruning of right rows by ``on``: rows out of reach of all left rows are not read or shuffled.

The least and the greatest left ``on``, widened by the tolerance, bound the right side. A DataFrame gets a filter, which
Spark pushes down to its source. Row groups of files out of range are not read.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.ordered.domain_sql import SqlDomain
from juncture.ordered.kinds_sql import sql_domain
from juncture.runtime.zone_maps import Extent, extent_of, parts_within
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide
from juncture.spec.asof import ResolvedAsof
from juncture.spec.range import ResolvedRange


def reachable(join: ResolvedAsof, left: Extent, right: SparkSide) -> tuple[SparkSide, str]:
    """Return the right side without rows that no left row can match by ``on``, and what was pruned, in words.

    `left` is the extent of the left side. The join must not keep unmatched right rows.
    """
    tolerance, distance = join.tolerance, None
    if tolerance is not None and tolerance.column is None:
        distance = tolerance.constant
    low, high = join.reach(*left, distance)
    if isinstance(right, FileSide):
        return _files_within(right, join, low, high)
    assert isinstance(right, FrameSide)
    number = right.schema.names.index(join.right_on)
    data_type = right.spark_schema.fields[number].dataType
    names = [f"c{i}" for i in range(len(right.schema))]
    frame, on = right.frame.toDF(*names), F.col(names[number])
    domain = sql_domain(join.domain, [])
    conditions = [_limited(on, end, data_type, domain, up=up) for end, up in ((low, True), (high, False))]
    used = [condition for condition in conditions if condition is not None]
    if not used:
        return right, ""
    for condition in used:
        frame = frame.where(condition)
    narrowed = FrameSide(frame.toDF(*right.schema.names), right.schema)
    return narrowed, f"right rows whose {join.spec.on_names()[1]} is out of reach of all left rows"


def reachable_files(join: ResolvedRange, left: SparkSide, right: SparkSide) -> tuple[SparkSide, str]:
    """Return the right side of a range join without row groups that no left row reaches, and what was pruned.

    Both sides must be files, so that footers suffice and no job runs.
    """
    if not (isinstance(left, FileSide) and isinstance(right, FileSide)) or join.how in ("right", "full"):
        return right, ""
    ends = left.ends(join.left_on)
    extent = None if ends is None else extent_of(ends, join.domain)
    return (right, "") if extent is None else _files_within(right, join, *join.reach(*extent))


def _files_within(side: FileSide, join: ResolvedAsof | ResolvedRange, low: Any, high: Any) -> tuple[FileSide, str]:
    """Prune row groups outside of limits, and report it. Row groups without statistics stay."""
    fewer = side.only(parts_within(side.footers, join.right_on, join.domain, low, high))
    groups, kept = (len(each.footers.part_rows) for each in (side, fewer))
    return fewer, f"{groups - kept:,} of {groups:,} row groups of the right side" if kept < groups else ""


def _limited(on: Column, limit: Any, data_type: st.DataType, domain: SqlDomain, *, up: bool) -> Column | None:
    """Return the condition that a value is at least (`up`) or at most a limit; None if every value is."""
    if limit is None:
        return None
    literal = domain.literal(limit, data_type, up=up)
    if isinstance(literal, Column):
        return on >= literal if up else on <= literal
    return F.lit(False) if literal == (1 if up else -1) else None
