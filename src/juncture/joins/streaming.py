"""`stream` and `stream_listener`: joins of unbounded streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from juncture.errors import SpecError
from juncture.spec.base import Spec

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from juncture.streams.join import StreamJoin
    from juncture.streams.order import Order
    from juncture.streams.progress import StreamProgress


def stream(
    left_schema: pa.Schema,
    right_schema: pa.Schema,
    spec: Spec,
    *,
    left: Order | Sequence[Order] | None = None,
    right: Order | Sequence[Order] | None = None,
    allow_unbounded: bool = False,
    late: Literal["count", "collect", "error"] = "count",
) -> StreamJoin:
    """Join two unbounded streams of record batches.

    A row is kept only while a future row of the other side could still match it. This is derived from the orders of
    both sides and the condition by interval arithmetic, for any monotonic expression.

    Parameters
    ----------
    left_schema, right_schema
        The columns of both streams.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    left, right
        The expression in whose order the rows of a side arrive and their maximum delay, such as ``jn.Order("ts",
        delay="5s")``, or a list of these.
    allow_unbounded
        Whether to keep rows forever if nothing bounds them. By default, such a join raises PlanError.
    late
        What happens to rows beyond the delay of their order: ``"count"`` counts and skips them, ``"collect"`` keeps
        them in `StreamJoin.late`, ``"error"`` raises DataError.

    Returns
    -------
    StreamJoin
        The join, without rows.

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
    Memory is proportional to the rows that can still match. `StreamJoin.explain` describes the bounds of each side.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.schema({"symbol": pa.string(), "at": pa.int64()})
    >>> quotes = pa.schema({"symbol": pa.string(), "at": pa.int64(), "bid": pa.float64()})
    >>> spec = jn.Range(on="at", by="symbol", lower=-1, upper=0)
    >>> join = jn.stream(trades, quotes, spec, left=jn.Order("at", delay=5), right=jn.Order("at"))
    >>> _ = join.push(right=pa.record_batch({"symbol": ["A", "A"], "at": [1, 4], "bid": [9.5, 9.6]}, schema=quotes))
    >>> trade = pa.record_batch({"symbol": ["A"], "at": [5]}, schema=trades)
    >>> [batch.to_pylist() for batch in join.push(left=trade)]
    [[{'symbol': 'A', 'at': 5, 'at_right': 4, 'bid': 9.6}]]
    """
    from juncture.streams.join import StreamJoin
    from juncture.streams.order import orders_of
    from juncture.streams.plan import StreamPlan
    from juncture.streams.setup import Setup

    if not isinstance(spec, Spec):
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) is not a join. Expected jn.Asof(…), jn.Range(…), jn.Overlap(…), "
            "jn.Where(…) or jn.Equi(…).",
            name="JN-ARGUMENT-TYPE",
        )
    for side, schema in (("left", left_schema), ("right", right_schema)):
        if not isinstance(schema, pa.Schema):
            raise SpecError(
                f"{side}_schema={schema!r} ({type(schema).__name__}) is not a schema. Expected a pyarrow.Schema, such "
                "as table.schema.",
                name="JN-ARGUMENT-TYPE",
            )
    orders = orders_of(left, "left"), orders_of(right, "right")
    return StreamJoin(StreamPlan(Setup(spec, left_schema, right_schema, *orders, bool(allow_unbounded), late)))


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
    from juncture.streams.spark.progress import ProgressListener

    if not callable(report):
        raise SpecError(
            f"report={report!r} ({type(report).__name__}) is not callable. Expected a function of one argument, such "
            "as print.",
            name="JN-ARGUMENT-TYPE",
        )
    return ProgressListener(report)
