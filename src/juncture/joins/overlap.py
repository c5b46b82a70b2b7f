"""`join_overlap`: overlap joins in one call."""

from __future__ import annotations

from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.spec.aggregate import Agg
from juncture.spec.expression import Keys
from juncture.spec.overlap import KeyInterval, Overlap
from juncture.spec.schema import Closed, How


@returns_left_type
def join_overlap(
    left: Any,
    right: Any,
    *,
    left_interval: KeyInterval,
    right_interval: KeyInterval,
    by: Keys | None = None,
    left_by: Keys | None = None,
    right_by: Keys | None = None,
    closed: Closed = "left",
    how: How | None = None,
    agg: Agg | None = None,
    suffix: str = "_right",
    **execution: Unpack[Execution],
) -> Any:
    """Match each left interval with all right intervals that overlap it.

    For example, find the outages during each call: the right rows with equal ``by`` whose interval shares a point with
    the left interval. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`.
    left_interval, right_interval
        The start and end columns of each table, such as ``("start", "end")``: integer, float, decimal, date or
        timestamp columns, or expressions such as ``juncture.expr("start + length")``. None in place of one of them
        means that all intervals are unbounded on that side. Null and NaN match nothing.
    by, left_by, right_by
        Columns or expressions that must be equal: one, or a list. Use ``left_by`` and ``right_by`` if the names differ.
        Null equals nothing.
    closed
        Which ends belong to the intervals: ``"left"`` (default, ``[start, end)``), ``"both"``, ``"right"`` or
        ``"none"``. Only with ``"both"`` do intervals that touch in one point overlap, and an interval from a point to
        itself is that point. Otherwise such an interval is empty and matches nothing.
    how, agg
        As for `join_range`, except that ``first`` and ``last`` are ordered by the right start.
    suffix
        Appended to the name of a right column or an aggregate if the left table has that name.
    **execution
        How the join runs, as in `juncture.Execution`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left columns, then the right columns without ``by``, or the aggregates. Type and order are as for
        `join_asof`, with the matches of a row ordered by their start.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for `join_asof`. DataError also if an interval starts after its end, or a sum does not fit its
        type.

    Notes
    -----
    In-process, memory is O(R): the right intervals are sorted in memory, and the left table is streamed past them. On
    Spark, see ``juncture.plan(…).explain()``.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> calls = pa.table({"start": [10, 50], "end": [20, 60], "call": ["a", "b"]})
    >>> outages = pa.table({"begin": [5, 15, 20], "finish": [11, 30, 40], "cause": ["storm", "power", "fibre"]})
    >>> jn.join_overlap(
    ...     calls, outages, left_interval=("start", "end"), right_interval=("begin", "finish"), agg={"cause": "first"}
    ... ).to_pydict()
    {'start': [10, 50], 'end': [20, 60], 'call': ['a', 'b'], 'cause_first': ['storm', None]}
    """
    check_execution(join_overlap, execution)
    spec = Overlap(
        left_interval=left_interval,
        right_interval=right_interval,
        by=by,
        left_by=left_by,
        right_by=right_by,
        closed=closed,
        how=how,
        agg=agg,
        suffix=suffix,
    )
    return joined(left, right, spec, execution)
