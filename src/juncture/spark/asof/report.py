"""The match report of an as-of join on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from juncture.local.asof.report import FIGURES
from juncture.ordered.domain_sql import SqlDomain
from juncture.ordered.kinds_sql import sql_domain
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import REASONS, Distances, MatchReport
from juncture.spark.asof.shuffle import asof_stages
from juncture.spark.input.frame import FrameSide
from juncture.spark.query import SHUFFLE_PARTITIONS
from juncture.spark.result import task_output
from juncture.spark.schema import spark_schema
from juncture.spark.session.session import resources as resources_of
from juncture.spark.tasks.asof.report import CountMatches
from juncture.spark.tasks.cuts import even_cuts
from juncture.spark.tasks.join import JoinPartition
from juncture.spark.tasks.placement import Coding
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.spec.schema import Side

_COUNTED = (*REASONS, "matched")
_QUANTILES = [0.5, 0.9, 0.99]
_QUANTILE_ACCURACY = 10_000

Joined = Callable[[Asof, DataFrame, DataFrame], DataFrame]


def match_report(join: ResolvedAsof, left: FrameSide, right: FrameSide, joined: Joined) -> MatchReport:
    """Count the matched and unmatched left rows of an as-of join; `joined` runs an as-of join.

    Costs two jobs and those of planning. Right rows are first counted by key and ``on``. The left keys are joined to
    these counts without a tolerance, to separate rows beyond the tolerance from rows without a candidate. The join's
    ``how`` and ``matches`` have no effect. With more than 10,000 distinct distances, quantiles are off by at most a
    ten-thousandth of the rows.
    """
    if join.where is not None or (join.domain.is_asof_only and join.domain.has_distances):
        return _report_of_tasks(join, left, right)
    return _report_of_sql(join, left.frame, right.frame, joined)


def _report_of_tasks(join: ResolvedAsof, left: FrameSide, right: FrameSide) -> MatchReport:
    """Count in tasks what SQL cannot compare: all rows of a key in one task, which counts its left rows."""
    keeping = replace(join, how="left", spec=replace(join.spec, how="left", matches=1))
    resources, partitions = resources_of(left.session), int(left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
    schema = spark_schema(FIGURES)
    output = task_output(schema)
    stages = asof_stages(keeping, Coding.of(keeping), even_cuts(partitions), output, resources)
    assert isinstance(stages.joined, JoinPartition)
    in_tasks = stages.joined.join
    assert isinstance(in_tasks, ResolvedAsof)
    count = CountMatches(in_tasks, output=output, memory_bytes=resources.memory_bytes)
    [tasks] = replace(stages, joined=count).tasks(left, right)
    distance, rows = F.col("distance"), F.col("rows")
    counts = (
        tasks.rows(schema)
        .agg(
            *(
                F.coalesce(F.sum(F.when(F.col("figure") == name, rows)), F.lit(0)).alias(name)
                for name in (*_COUNTED, "ties")
            ),
            *distance_aggregates(distance),
        )
        .first()
    )
    assert counts is not None
    found = {name: counts[name] for name in _COUNTED}
    return MatchReport(
        left_rows=sum(found.values()),
        right_rows=right.frame.count(),
        distances=distances_of(join, counts),
        ties=counts["ties"],
        explanations=explanations_of(join),
        **found,
    )


def _report_of_sql(join: ResolvedAsof, left: DataFrame, right: DataFrame, joined: Joined) -> MatchReport:
    """Count by a join in SQL of the left keys to the right ones."""
    candidates = _candidates(join, right)
    nearest = _with_known_keys(join, _nearest(join, left, candidates, joined), candidates)
    judged = nearest.select(
        _reason(join).alias("reason"),
        _distance(join).alias("distance"),
        (F.col("tied") > 1).alias("is_tie"),
    )
    counts = judged.agg(*_aggregates()).first()
    assert counts is not None
    return MatchReport(
        left_rows=counts["left_rows"],
        right_rows=right.count(),
        distances=distances_of(join, counts, _domain(join).step_ns or 1),
        ties=counts["ties"],
        explanations=explanations_of(join),
        **{reason: counts[reason] for reason in _COUNTED},
    )


def _renamed(frame: DataFrame, schema: pa.Schema, names: dict[str, str]) -> DataFrame:
    """Return columns under other names, found by position: names may contain dots or differ only in case."""
    safe = frame.toDF(*(f"c{position}" for position in range(len(schema))))
    return safe.select(*(F.col(f"c{schema.get_field_index(name)}").alias(new) for new, name in names.items()))


def _keys(join: ResolvedAsof, side: str) -> list[str]:
    """Return names for the ``by`` columns that cannot clash."""
    return [f"{side}_key{number}" for number in range(len(join.left_by))]


def _ordered_by(join: ResolvedAsof, side: Side) -> dict[str, str]:
    """Return the columns that order a side, under names that cannot clash."""
    on = join.value(side, join.left_on if side == "left" else join.right_on)
    first, *others = (part.name for part in on.parts)
    return {f"{side}_on": first, **{f"{side}_on{place}": part for place, part in enumerate(others, 1)}}


def _candidates(join: ResolvedAsof, right: DataFrame) -> DataFrame:
    """Return the right rows that can match, one for each key and ``on``, with their count."""
    keys = _keys(join, "right")
    names = {**_ordered_by(join, "right"), **dict(zip(keys, join.right_by, strict=True))}
    usable = _is_usable(join, "right")
    for key in [] if join.nulls_equal else keys:
        usable = usable & F.col(key).isNotNull()
    if join.available_at is not None:
        # Rows without a time of availability match nothing, but their keys exist.
        names["right_available_at"] = join.available_at.right
    return _renamed(right, join.right_schema, names).where(usable).groupBy(*names).agg(F.count("*").alias("tied"))


def _nearest(join: ResolvedAsof, left: DataFrame, candidates: DataFrame, joined: Joined) -> DataFrame:
    """Return each left row's keys and its nearest candidate at any distance."""
    names = {**_ordered_by(join, "left"), **dict(zip(_keys(join, "left"), join.left_by, strict=True))}
    if join.tolerance is not None and join.tolerance.column is not None:
        names["tolerance"] = join.tolerance.column
    if join.available_at is not None:
        names["left_available_at"] = join.available_at.left
    spec = Asof(
        left_on=list(_ordered_by(join, "left")),
        right_on=list(_ordered_by(join, "right")),
        left_by=_keys(join, "left"),
        right_by=_keys(join, "right"),
        direction=join.spec.direction,
        allow_exact_matches=join.spec.allow_exact_matches,
        prefer=join.spec.prefer,
        nulls_equal=join.nulls_equal,
        available_at=("right_available_at", "left_available_at") if join.available_at is not None else None,
    )
    return joined(spec, _renamed(left, join.left_schema, names), candidates)


def _with_known_keys(join: ResolvedAsof, nearest: DataFrame, candidates: DataFrame) -> DataFrame:
    """Add a column that is null if no candidate has the left row's keys."""
    if not join.left_by:
        return nearest.withColumn("known", F.lit(True))
    known = candidates.select(*_keys(join, "right")).distinct().withColumn("known", F.lit(True))
    same = []
    for left_key, right_key in zip(_keys(join, "left"), _keys(join, "right"), strict=True):
        named = _named_alike(known.schema[right_key].dataType, nearest.schema[left_key].dataType)
        cast = F.col(right_key).cast(named)
        same.append(F.col(left_key).eqNullSafe(cast) if join.nulls_equal else F.col(left_key) == cast)
    return nearest.join(known, same, "left")


def _named_alike(data_type: DataType, names: DataType) -> DataType:
    """Return a type with the field names of another, as Spark compares only structs of equal names."""
    if isinstance(data_type, StructType) and isinstance(names, StructType):
        pairs = zip(data_type.fields, names.fields, strict=True)
        return StructType([StructField(b.name, _named_alike(a.dataType, b.dataType)) for a, b in pairs])
    if isinstance(data_type, ArrayType) and isinstance(names, ArrayType):
        return ArrayType(_named_alike(data_type.elementType, names.elementType))
    return data_type


def _is_usable(join: ResolvedAsof, side: Side) -> Column:
    """Return whether an ``on`` can match: no part is null or NaN."""
    usable = F.lit(True)
    for name, domain in zip(_ordered_by(join, side), join.domain.parts, strict=True):
        usable = usable & sql_domain(domain, []).present(F.col(name)).isNotNull()
    return usable


def _reason(join: ResolvedAsof) -> Column:
    """Return the outcome of a left row: matched, or the reason why not."""
    null_key = F.lit(False)
    for key in [] if join.nulls_equal else _keys(join, "left"):
        null_key = null_key | F.col(key).isNull()
    return (
        F.when(~_is_usable(join, "left"), "null_on")
        .when(null_key, "null_key")
        .when(F.col("known").isNull(), "unknown_key")
        .when(F.col("right_on").isNull(), "no_candidate")
        .when(_is_near(join), "matched")
        .otherwise("beyond_tolerance")
    )


def _is_near(join: ResolvedAsof) -> Column:
    """Return whether the candidate is within the tolerance, null without a candidate."""
    tolerance, domain = join.tolerance, _domain(join)
    if tolerance is None:
        return F.lit(True)
    limit = (
        domain.constant_limit(tolerance.constant or 0)
        if tolerance.column is None
        else domain.row_limit(F.col("tolerance"))
    )
    return F.lit(True) if limit is None else domain.near(F.col("left_on"), F.col("right_on"), limit)


def _distance(join: ResolvedAsof) -> Column:
    """Return the distance of both ``on`` values in days, microseconds or their own unit, or null."""
    return _domain(join).apart(F.col("left_on"), F.col("right_on"))


def _domain(join: ResolvedAsof) -> SqlDomain:
    """Return the ``on`` columns in SQL."""
    return sql_domain(join.domain, [join.left_schema.field(join.left_on).type])


def _aggregates() -> list[Column]:
    """Return the aggregates of the report."""
    matched = F.col("reason") == "matched"
    distance = F.when(matched, F.col("distance"))
    return [
        F.count("*").alias("left_rows"),
        *(F.count_if(F.col("reason") == reason).alias(reason) for reason in _COUNTED),
        F.count_if(matched & F.col("is_tie")).alias("ties"),
        *distance_aggregates(distance),
    ]


def distance_aggregates(distance: Column) -> list[Column]:
    """Return the aggregates of the distances of matched rows."""
    return [
        F.min(distance).alias("min"),
        F.percentile_approx(distance, _QUANTILES, _QUANTILE_ACCURACY).alias("quantiles"),
        F.max(distance).alias("max"),
    ]


def distances_of(join: ResolvedAsof, counts: Row, unit: float = 1.0) -> Distances | None:
    """Return the distances of matches, given their aggregates in a unit of reports; None if there are none."""
    if counts["max"] is None or not join.domain.has_distances:
        return None
    p50, p90, p99 = (float(value) * unit for value in counts["quantiles"])
    return Distances(
        min=float(counts["min"]) * unit,
        p50=p50,
        p90=p90,
        p99=p99,
        max=float(counts["max"]) * unit,
        is_time=join.domain.is_time,
    )
