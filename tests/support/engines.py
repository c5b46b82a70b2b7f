"""The algorithms of each engine, what each refuses, and how a join is run under one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

import juncture as jn
from juncture.planner.choose import choose
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.threads import SIZES, Sizes
from juncture.spec.asof import ResolvedAsof
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.where import ResolvedWhere
from support.kinds import Spec, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from juncture.runtime.progress import Report
    from juncture.runtime.sources import Source

__all__ = [
    "LOCAL",
    "LOCAL_EQUI",
    "LOCAL_NEAR",
    "SENT",
    "SPARK",
    "SPARK_NEAR",
    "algorithms_on_spark",
    "execute",
    "fits_spark",
    "in_tasks",
    "is_connect",
    "join_in_process",
    "refuses",
    "refuses_near",
    "run_in_process",
    "run_on_spark",
    "spark_type",
    "to_spark",
]

SENT = ("broadcast", "broadcast_left")
"""The algorithms that send a side to every task."""

LOCAL = ("probe", "merge")
LOCAL_EQUI = ("hash", "parallel_hash", "grace", "sort_merge", "external_sort_merge")
LOCAL_NEAR = {
    "range": ("binary_search", "nested_loop"),
    "overlap": ("interval_tree", "nested_loop"),
    "where": ("auto", "binary_search", "nested_loop"),
    "equi": LOCAL_EQUI,
}
SPARK = ("broadcast", "broadcast_left", "hash", "range", "window")
IN_TASKS = ("broadcast", "broadcast_left", "range")
SPARK_NEAR = {
    "range": (*IN_TASKS, "bins", "nested_loop"),
    "overlap": (*IN_TASKS, "bins", "nested_loop"),
    "where": (*IN_TASKS, "bins", "nested_loop", "sql"),
    "equi": ("broadcast", "broadcast_left", "shuffle_hash", "sort_merge"),
}

_SQL_DIGITS = 35
"""The most digits of decimals that SQL can add to."""


def algorithms_on_spark(join: Resolved) -> list[str]:
    """Return the algorithms that must run a join on Spark. No other may refuse it."""
    if isinstance(join, ResolvedAsof):
        return [algorithm for algorithm in SPARK if not refuses(algorithm, join)]
    return [
        algorithm
        for algorithm in SPARK_NEAR["where" if isinstance(join, ResolvedWhere) else kind_of(join.spec)]
        if not refuses_near(algorithm, join)
    ]


def in_tasks(kind: str, algorithms: list[str]) -> list[str]:
    """Return those of the algorithms on Spark that join in Python's tasks; what the others do is Spark's own SQL."""
    tasks = {"asof": (*IN_TASKS, "hash"), "equi": ()}.get(kind, IN_TASKS)
    return [algorithm for algorithm in algorithms if algorithm in tasks]


def refuses(algorithm: str, join: ResolvedAsof) -> bool:
    """Tell whether an algorithm has to refuse an as-of join. No other refusal passes."""
    spec = join.spec
    passes_over_rows = spec.available_at is not None or spec.where is not None
    if passes_over_rows and algorithm in ("range", "window"):
        return True
    if spec.how in ("right", "full") and algorithm in ("broadcast", "broadcast_left", "window"):
        return True
    if algorithm == "hash":
        return not join.left_by and not passes_over_rows
    return algorithm == "window" and (spec.matches > 1 or spec.ties == "error" or join.domain.is_asof_only)


def refuses_near(algorithm: str, join: Resolved) -> bool:
    """Tell whether an algorithm has to refuse a join of another kind. No other refusal passes."""
    aggregates = bool(join.aggregates)
    if algorithm == "broadcast":
        return join.how in ("right", "full")
    if algorithm == "broadcast_left":
        return aggregates or join.how not in ("inner", "right")
    if isinstance(join, ResolvedWhere):
        return refuses_predicate(algorithm, join)
    if algorithm == "range" or not isinstance(join, ResolvedRange | ResolvedOverlap):
        return False
    if aggregates or has_too_many_digits(join):
        return True
    if isinstance(join, ResolvedRange):
        return algorithm == "bins" and None in (join.lower, join.upper)
    return algorithm == "bins" and None in (*join.left_interval, *join.right_interval)


def refuses_predicate(algorithm: str, join: ResolvedWhere) -> bool:
    interval = join.condition.interval
    if join.aggregates and algorithm != "range":
        return True
    if algorithm == "range":
        return interval is None and not join.shape.keys and not join.left_by
    if algorithm == "bins":
        return interval is None or interval.is_open
    return algorithm == "sql" and not join.shape.keys and not join.left_by


def has_too_many_digits(join: ResolvedRange | ResolvedOverlap) -> bool:
    """Tell whether a join compares decimals that SQL cannot add to."""
    if isinstance(join, ResolvedRange):
        names = (join.left_on,), (join.right_on,)
    else:
        names = join.left_interval, join.right_interval
    schemas = (join.left_schema, join.right_schema)
    types = [schema.field(name).type for schema, side in zip(schemas, names, strict=True) for name in side if name]
    if join.domain.kind != "decimal":
        return False
    return max(each.precision - each.scale for each in types) + join.domain.scale > _SQL_DIGITS


def fits_spark(schema: pa.Schema) -> bool:
    """Tell whether Spark has the types of a schema."""
    return all(spark_type(field.type) for field in schema)


def spark_type(data_type: pa.DataType) -> bool:
    """Tell whether Spark has a type, so that it comes back as it went in."""
    if pat.is_timestamp(data_type):
        return data_type.unit == "us" and data_type.tz in (None, "UTC")
    if pat.is_duration(data_type):
        return data_type.unit == "us"
    if pat.is_decimal(data_type):
        return pat.is_decimal128(data_type) and data_type.scale >= 0
    if pat.is_map(data_type):
        return spark_type(data_type.key_type) and spark_type(data_type.item_type)
    if pat.is_struct(data_type):
        return all(spark_type(field.type) for field in data_type)
    if pat.is_list(data_type):
        return spark_type(data_type.value_type)
    return data_type in SCALARS


SCALARS = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}


def run_in_process(spec: Spec, left: object, right: object, algorithm: str) -> pa.Table:
    return jn.plan(left, right, spec, algorithm=algorithm).execute()


def join_in_process(spec: Spec, left: pa.Table, right: pa.Table, algorithm: str, **options: Any) -> pa.Table:
    """Join two tables by the engine itself, without a plan; ``"auto"`` is what is chosen for tables of unknown size."""
    from juncture.local.kinds import planning_input
    from juncture.runtime.sources import TableSource

    join = spec.resolve(left.schema, right.schema)
    if algorithm == "external_merge":
        # Holds a few rows at once.
        options = {"memory_bytes": 2_000} | options
    algorithm = choose(planning_input(join, Stats(), Resources(cores=1, memory_bytes=1 << 30)), algorithm).algorithm
    sources = (TableSource(table, options.get("sizes", SIZES).slice_rows) for table in (left, right))
    batches = execute(join, *sources, algorithm, **options)
    return pa.Table.from_batches(batches, join.user_schema(left.schema, right.schema))


def execute(
    join: Resolved,
    left: Source,
    right: Source,
    algorithm: str,
    *,
    threads: int | None = None,
    memory_bytes: int = 4 << 30,
    in_order: bool = True,
    progress: Report | None = None,
    sizes: Sizes = SIZES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join of two sources, with a context of its own."""
    from juncture.local import kinds
    from juncture.runtime.context import join_context

    options = {"threads": threads, "memory_bytes": memory_bytes, "in_order": in_order}
    with join_context(**options, report=progress, sizes=sizes) as context:
        yield from kinds.execute(join, left, right, algorithm, context)


def is_connect(session: SparkSession) -> bool:
    """Tell whether a session goes through Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def to_spark(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of a table's rows.

    The schema is given, since Spark takes times without a zone for instants otherwise, and Spark Connect infers none
    where there is no row.
    """
    from juncture.spark.schema import spark_schema

    schema = spark_schema(table.schema)
    return spark.createDataFrame(table if table.num_rows else [], schema)


def run_on_spark(spark: SparkSession, spec: Spec, left: pa.Table, right: pa.Table, algorithm: str) -> pa.Table:
    frames = [to_spark(spark, table) for table in (left, right)]
    # Given, so that no job counts them; where a side is sent, a given size would be counted.
    sides = {name: jn.SideStats(rows=table.num_rows) for name, table in (("left", left), ("right", right))}
    stats = jn.Stats(**sides) if algorithm not in SENT else None
    return jn.plan(*frames, spec, algorithm=algorithm, stats=stats).execute().toArrow()
