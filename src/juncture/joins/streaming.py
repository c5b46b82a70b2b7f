"""`stream`, `stream_many`, `plan_stream` and `stream_listener`: joins of unbounded streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

import pyarrow as pa

from juncture.errors import PlanError, SpecError, wrong_type
from juncture.inputs.kinds import is_stream
from juncture.joins.planning import SparkTable, are_schemas, check_spec, check_streams, refuse_on_spark
from juncture.planner.plan import Plan
from juncture.spec.kinds import Spec
from juncture.spec.many import Right, check_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from juncture.matching.order import Order
    from juncture.streams.join import StreamJoin
    from juncture.streams.many import ManyStreamJoin
    from juncture.streams.progress import StreamProgress

Orders: TypeAlias = "Order | Sequence[Order] | None"
"""The orders of a side."""


@overload
def stream(
    left: SparkTable, right: SparkTable, spec: Spec, *, left_order: Orders = None, right_order: Orders = None
) -> DataFrame: ...
@overload
def stream(
    left: pa.Schema,
    right: pa.Schema,
    spec: Spec,
    *,
    left_order: Orders = None,
    right_order: Orders = None,
    allow_unbounded: bool = False,
    late: Literal["count", "collect", "error"] = "count",
) -> StreamJoin: ...
def stream(
    left: SparkTable | pa.Schema,
    right: SparkTable | pa.Schema,
    spec: Spec,
    *,
    left_order: Orders = None,
    right_order: Orders = None,
    allow_unbounded: bool = False,
    late: Literal["count", "collect", "error"] = "count",
) -> StreamJoin | DataFrame:
    """Join two unbounded streams: of record batches in this process, or streaming DataFrames on Spark.

    A row is kept only while a future row of the other side could still match it. This is derived from the orders of
    both sides and the condition by interval arithmetic, for any monotonic expression.

    Parameters
    ----------
    left, right
        Two schemas for record batches that are pushed in this process, or two streaming DataFrames. The right DataFrame
        may also be static, or a path to Parquet files.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    left_order, right_order
        The expression in whose order the rows of a side arrive and their maximum delay, such as ``jn.Order("ts",
        delay="5s")``, or a list of these. The default on Spark is the watermark of the DataFrame.
    allow_unbounded
        Whether to keep rows forever if nothing bounds them. By default, such a join raises PlanError, as it always does
        on Spark.
    late
        What happens to rows beyond the delay of their order: ``"count"`` counts and skips them. In this process,
        ``"collect"`` keeps them in `StreamJoin.late`, and ``"error"`` raises DataError.

    Returns
    -------
    StreamJoin or pyspark.sql.DataFrame
        For schemas, the join, without rows. For DataFrames, the streaming DataFrame of the result, whose query has the
        output mode ``append``.

    Raises
    ------
    SpecError
        If an argument has an invalid value.
    SchemaError
        If a column is missing, or the types of two columns do not compare.
    PlanError
        If rows of a side would be kept forever. The message names the side, the reason, and what would bound it.

    Notes
    -----
    Memory is proportional to the rows that can still match. `StreamJoin.explain` and, for DataFrames,
    `juncture.plan_stream` describe the bounds of each side.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.schema({"symbol": pa.string(), "at": pa.int64()})
    >>> quotes = pa.schema({"symbol": pa.string(), "at": pa.int64(), "bid": pa.float64()})
    >>> spec = jn.Range(on="at", by="symbol", lower=-1, upper=0)
    >>> join = jn.stream(trades, quotes, spec, left_order=jn.Order("at", delay=5), right_order=jn.Order("at"))
    >>> _ = join.push(right=pa.record_batch({"symbol": ["A", "A"], "at": [1, 4], "bid": [9.5, 9.6]}, schema=quotes))
    >>> trade = pa.record_batch({"symbol": ["A"], "at": [5]}, schema=trades)
    >>> [batch.to_pylist() for batch in join.push(left=trade)]
    [[{'symbol': 'A', 'at': 5, 'at_right': 4, 'bid': 9.6}]]
    """
    if not are_schemas(left, right):
        refuse_on_spark(allow_unbounded=allow_unbounded or None, late=None if late == "count" else late)
        plan = plan_stream(left, right, spec, left_order=left_order, right_order=right_order)
        frame: DataFrame = plan.execute()
        return frame
    from juncture.streams.join import StreamJoin
    from juncture.streams.order import orders_of
    from juncture.streams.plan import Setup, StreamPlan

    check_spec(spec)
    orders = orders_of(left_order, "left_order"), orders_of(right_order, "right_order")
    return StreamJoin(StreamPlan(Setup(spec, left, right, *orders, bool(allow_unbounded), late)))


def stream_many(
    spine: pa.Schema,
    tables: Mapping[str, Right],
    *,
    order: Orders = None,
    allow_unbounded: bool = False,
    late: Literal["count", "collect", "error"] = "count",
) -> ManyStreamJoin:
    """Join several unbounded streams to the rows of one, each with its own kind of join, in this process.

    The streaming form of `juncture.join_many`: each row of the spine is emitted once, with the columns of all tables,
    when it is final in each.

    Parameters
    ----------
    spine
        The schema of the stream whose rows are kept.
    tables
        The tables by name, as for `juncture.join_many`, with a schema in place of the table, and ``order`` for the
        order of its rows. A table with rows that has the Arrow PyCapsule interface is joined as it is: it has no
        further rows.
    order
        The order of the spine: as ``left_order`` of `juncture.stream`.
    allow_unbounded, late
        As for `juncture.stream`.

    Returns
    -------
    ManyStreamJoin
        The join, without rows of streams.

    Raises
    ------
    SpecError, SchemaError, PlanError
        As for `juncture.stream`, with the name of the table. PlanError also for streaming DataFrames.
    DataError
        If the rows of a table passed with its rows are invalid.

    Notes
    -----
    Each table is a join of two streams. ``algorithm`` and ``check_available_at`` of a table have no effect.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> orders = pa.schema({"ts": pa.int64(), "user": pa.string()})
    >>> clicks = pa.schema({"ts": pa.int64(), "user": pa.string()})
    >>> recent = jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count"})
    >>> users = pa.table({"name": ["ann", "bob"], "since": [1, 2]})
    >>> tables = {
    ...     "clicks": jn.Right(clicks, recent, order=jn.Order("ts")),
    ...     "user": jn.Right(users, jn.Equi(left_on="user", right_on="name", how="left"), columns=["since"]),
    ... }
    >>> join = jn.stream_many(orders, tables, order=jn.Order("ts"))
    >>> join.push(spine=pa.table({"ts": [5], "user": ["ann"]}), clicks=pa.table({"ts": [3, 4], "user": ["ann", "ann"]}))
    []
    >>> [batch.to_pylist() for batch in join.push(clicks=pa.table({"ts": [7], "user": ["bob"]}))]
    [[{'ts': 5, 'user': 'ann', 'count': 2, 'since': 1}]]
    """
    from juncture.streams.many import ManySetup, ManyStreamJoin, ManyStreamPlan
    from juncture.streams.order import orders_of

    rights, static = check_tables(tables), dict[str, pa.Table]()
    if "spine" in rights:
        raise SpecError("tables has the name 'spine', which is reserved. Rename it.", name="JN-ARGUMENT-VALUE")
    if not isinstance(spine, pa.Schema):
        raise _not_in_process("spine", spine)
    for name, right in rights.items():
        orders_of(right.order, f"tables[{name!r}].order")
        if isinstance(right.table, pa.Schema):
            continue
        if is_stream(right.table) or not hasattr(right.table, "__arrow_c_stream__"):
            raise _not_in_process(f"tables[{name!r}]", right.table)
        static[name] = pa.table(right.table)
        rights[name] = replace(right, table=static[name].schema)
    orders = orders_of(order, "order")
    setup = ManySetup(spine, orders, rights, tuple(static), allow_unbounded=bool(allow_unbounded), late=late)
    join = ManyStreamJoin(ManyStreamPlan(setup))
    for name, table in static.items():
        join.add_static(name, table)
    return join


def _not_in_process(argument: str, value: object) -> PlanError:
    return PlanError(
        f"{argument} is a {type(value).__name__}, but stream_many joins streams of this process. Expected a "
        "pyarrow.Schema. On Spark, join one table after the other with jn.stream(…): Spark has one watermark for a "
        "chain of stateful operators, so rows of the spine would wait for the slowest table.",
        name="JN-STREAM-MANY",
    )


def plan_stream(
    left: SparkTable, right: SparkTable, spec: Spec, *, left_order: Orders = None, right_order: Orders = None
) -> Plan:
    """Plan a join of streaming DataFrames without running it.

    The arguments and errors are those of `juncture.stream` for DataFrames.

    Returns
    -------
    Plan
        ``explain()`` describes which operator runs and why, and how long rows of each side are kept. ``execute()``
        returns the streaming DataFrame.

    Examples
    --------
    >>> import juncture as jn
    >>> plan = jn.plan_stream(trades, quotes, jn.Asof(on="ts"), left_order=order, right_order=order)  # doctest: +SKIP
    >>> print(plan.explain())  # doctest: +SKIP
    """
    check_streams(left, right, spec)
    from juncture.hosting.plan import plan_stream_join

    return plan_stream_join(spec, left, right, left_order=left_order, right_order=right_order)


def stream_listener(report: Callable[[StreamProgress], object] = print) -> StreamingQueryListener:
    """Return a listener that reports each trigger of the streaming queries of a Spark session.

    To read the progress of one query, use `StreamProgress.of`.

    Parameters
    ----------
    report
        Called with the `StreamProgress` of each trigger, in a thread of Spark.

    Returns
    -------
    pyspark.sql.streaming.listener.StreamingQueryListener
        For ``spark.streams.addListener``, on classic Spark and Spark Connect.

    Raises
    ------
    SpecError
        If ``report`` is not callable.

    Examples
    --------
    >>> import juncture as jn
    >>> spark.streams.addListener(jn.stream_listener())  # doctest: +SKIP
    """
    from juncture.hosting.progress import ProgressListener

    if not callable(report):
        raise wrong_type("report", report, "callable", "a function of one argument, such as print")
    return ProgressListener(report)
