"""`join_range`: range joins in one call."""

from __future__ import annotations

from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.ordered.domain import Distance
from juncture.spec.aggregate import Agg
from juncture.spec.distance import Windows
from juncture.spec.expression import Key, Keys
from juncture.spec.range import Range
from juncture.spec.schema import Closed, How


@returns_left_type
def join_range(
    left: Any,
    right: Any,
    *,
    on: Key | None = None,
    left_on: Key | None = None,
    right_on: Key | None = None,
    by: Keys | None = None,
    left_by: Keys | None = None,
    right_by: Keys | None = None,
    lower: Distance | None = None,
    upper: Distance | None = None,
    windows: Windows | None = None,
    closed: Closed = "both",
    how: How | None = None,
    agg: Agg | None = None,
    suffix: str = "_right",
    **execution: Unpack[Execution],
) -> Any:
    """Match each left row with all right rows in a window around it, in time or along another ordered column.

    For example, find the measurements in the hour before each event: the right rows with equal ``by`` for which ``left
    on + lower <= right on <= left on + upper``. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`.
    on, left_on, right_on
        The column that is compared: an integer, float, decimal, date or timestamp column, or an expression such as
        ``juncture.expr("date + open_time")``. Use ``left_on`` and ``right_on`` if the names differ. Null and NaN match
        nothing.
    by, left_by, right_by
        Columns or expressions that must be equal: one, or a list. Use ``left_by`` and ``right_by`` if the names differ.
        Null equals nothing.
    lower, upper
        The start and end of the window, as offsets from the left ``on`` (negative: before it): a number for numeric
        ``on``; a ``timedelta`` or a duration such as ``"-1h"`` for dates and timestamps; or the name of a left column
        with an offset per row. A left column takes precedence over a duration of the same name. None leaves that side
        open; at least one is required. Rows with a null offset, or with a window that starts after its end, match
        nothing.
    windows
        Several windows by name in place of ``lower`` and ``upper``, such as ``{"1h": ("-1h", 0), "7d": ("-7d", 0)}``.
        Requires ``agg``. Each window has its own columns, such as ``value_mean_1h``. The right table is read and sorted
        once. With ``how="inner"``, a left row is kept if any of its windows has a match.
    closed
        Which ends belong to the window: ``"both"`` (default), ``"left"``, ``"right"`` or ``"none"``.
    how
        ``"inner"`` (default) keeps matches only. ``"left"``, ``"right"`` and ``"full"`` also keep unmatched rows of the
        left table, the right table, or both. ``"semi"`` and ``"anti"`` return the left rows with or without a match.
        With ``agg``, pass ``"left"`` (then the default) or ``"inner"``.
    agg
        Aggregates over the matches of each left row, by right column, such as ``{"value": ["mean", ("quantile", 0.9)],
        "*": "count"}``. The result then has one row per left row, and the matches are not materialized. Functions:
        ``count``, ``sum``, ``mean``, ``min``, ``max``, ``std``, ``median``, ``("quantile", 0.9)``, ``count_distinct``,
        ``any``, ``all``, ``list``, ``first`` and ``last`` (ordered by the right ``on``), ``("weighted_mean", column)``,
        ``("arg_min", column)``, ``("arg_max", column)``. Nulls are skipped.
    suffix
        Appended to the name of a right column or an aggregate if the left table has that name.
    **execution
        How the join runs, as in `juncture.Execution`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left columns, then the right columns without ``by``, or the aggregates. Type and order are as for
        `join_asof`, with the matches of a row ordered by their ``on``.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for `join_asof`. SpecError also for a constant window that starts after its end, DataError if a sum
        does not fit its type.

    Notes
    -----
    In-process: time O((L + R) log R) plus the output, memory O(R). The right keys are sorted in memory, and the left
    table is streamed past them. On Spark, see ``juncture.plan(…).explain()``. Time bins with lookups in neighbouring
    bins follow "Efficient Range-Joins With Spark 2.0".

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> events = pa.table({"at": [100, 200], "event": ["login", "purchase"]})
    >>> measurements = pa.table({"at": [35, 90, 100, 150], "value": [1.0, 2.0, 4.0, 8.0]})
    >>> jn.join_range(events, measurements, on="at", lower=-60, upper=0).select(["at", "value"]).to_pydict()
    {'at': [100, 100, 200], 'value': [2.0, 4.0, 8.0]}
    >>> jn.join_range(events, measurements, on="at", lower=-70, upper=0, agg={"value": ["mean", "count"]}).to_pydict()
    {'at': [100, 200], 'event': ['login', 'purchase'], 'value_mean': [2.3333333333333335, 8.0], 'value_count': [3, 1]}
    """
    check_execution(join_range, execution)
    spec = Range(
        on=on,
        left_on=left_on,
        right_on=right_on,
        by=by,
        left_by=left_by,
        right_by=right_by,
        lower=lower,
        upper=upper,
        windows=windows,
        closed=closed,
        how=how,
        agg=agg,
        suffix=suffix,
    )
    return joined(left, right, spec, execution)
