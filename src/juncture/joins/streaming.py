"""Joins of streams."""

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
    """Join two streams of record batches that need not end.

    Rows are held for as long as what can still come of the other side may match them: that follows from the orders of
    both sides and the condition, by interval arithmetic, whatever sorted expression they are about.

    Parameters
    ----------
    left_schema, right_schema
        The columns of both streams.
    spec
        What the join means: `Where`, `Range`, `Overlap`, `Equi` or `Asof`.
    left, right
        The expressions in whose order the rows of a side come, each with its greatest disorder; one or several.
    allow_unbounded
        Whether to hold rows for ever where nothing bounds them, rather than refuse.
    late
        What becomes of rows that are behind their order by more than its delay: ``"count"`` leaves them out and counts
        them, ``"collect"`` keeps them for `StreamJoin.late`, ``"error"`` refuses the batch.

    Returns
    -------
    StreamJoin
        The join, which has seen no rows yet.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    SchemaError
        If columns are missing, or types do not fit.
    PlanError
        If rows of a side would be held for ever: with the side, the reason, and what would bound them.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.schema({"symbol": pa.string(), "at": pa.timestamp("ms")})
    >>> quotes = pa.schema({"symbol": pa.string(), "at": pa.timestamp("ms"), "bid": pa.float64()})
    >>> spec = jn.Range(on="at", by="symbol", lower="-1s", upper=0)
    >>> join = jn.stream(trades, quotes, spec, left=jn.Order("at", delay="5s"), right=jn.Order("at"))
    >>> print(join.explain())
    range join of streams, how='inner'
    left order: at, growing, at most 5s behind
    right order: at, growing
    left rows are kept while at >= the right at
    right rows are kept while at >= the left at - 1s
    given: matches at once
    >>> jn.stream(trades, quotes, spec, left=jn.Order("at"))
    Traceback (most recent call last):
    juncture.errors.PlanError: The left rows would be held for ever, and the state would grow without end: the right \
side has no order, so that nothing tells which right rows can still come. Pass right=jn.Order('at') or \
jn.Order('at', descending=True), if the right rows come in that order; or pass allow_unbounded=True if there is room \
for all of them.
    """
    from juncture.streams.join import StreamJoin
    from juncture.streams.order import orders_of
    from juncture.streams.plan import StreamPlan
    from juncture.streams.setup import Setup

    if not isinstance(spec, Spec):
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) says nothing of a join. Expected jn.Where(…), jn.Range(…), "
            "jn.Overlap(…), jn.Equi(…) or jn.Asof(…)."
        )
    for side, schema in (("left", left_schema), ("right", right_schema)):
        if not isinstance(schema, pa.Schema):
            raise SpecError(f"{side}_schema={schema!r} is no schema. Expected a pyarrow.Schema.")
    orders = orders_of(left, "left"), orders_of(right, "right")
    return StreamJoin(StreamPlan(Setup(spec, left_schema, right_schema, *orders, bool(allow_unbounded), late)))


def stream_listener(report: Callable[[StreamProgress], object] = print) -> StreamingQueryListener:
    """Return a listener that hands on what each trigger of a Spark session's streaming queries did.

    `StreamProgress.of` asks one query for the same.

    Parameters
    ----------
    report
        Called with the `StreamProgress` of each trigger, by a thread of Spark's.

    Returns
    -------
    pyspark.sql.streaming.listener.StreamingQueryListener
        For ``spark.streams.addListener``, on classic Spark and on Spark Connect.

    Raises
    ------
    SpecError
        If it cannot be called.
    """
    from juncture.streams.spark.progress import ProgressListener

    if not callable(report):
        raise SpecError(
            f"report={report!r} ({type(report).__name__}) cannot be called. Expected a function of one argument, such "
            "as print."
        )
    return ProgressListener(report)
