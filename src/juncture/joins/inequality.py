"""`join_range`, `join_overlap` and `join_where`: inequality joins in one call."""

from __future__ import annotations

from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.ordered.domain import Distance
from juncture.spec.aggregate import Agg
from juncture.spec.distance import Windows
from juncture.spec.expression import Key, Keys
from juncture.spec.overlap import KeyInterval, Overlap
from juncture.spec.range import Range
from juncture.spec.schema import Closed, How
from juncture.spec.where import Where


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


@returns_left_type
def join_where(
    left: Any,
    right: Any,
    predicate: str,
    *,
    by: Keys | None = None,
    left_by: Keys | None = None,
    right_by: Keys | None = None,
    how: How | None = None,
    agg: Agg | None = None,
    allow_cross: bool = False,
    names: tuple[str, str] = ("l", "r"),
    suffix: str = "_right",
    **execution: Unpack[Execution],
) -> Any:
    """Match rows for which an SQL condition over both tables is true.

    Equality, range, overlap and inequality conditions in the predicate are used to avoid comparing every pair. The rest
    is checked row by row.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`.
    predicate
        The condition, in Spark's SQL dialect, over left columns ``l.…`` and right columns ``r.…``. Columns that only
        one table has need no prefix. Rows match if it is true, not false or null.
    by, left_by, right_by
        Columns or expressions that must be equal: one, or a list. Use ``left_by`` and ``right_by`` if the names differ.
        Null equals nothing.
    how, agg
        As for `join_range`, except that ``first`` and ``last`` are ordered by all right columns.
    allow_cross
        Whether to accept a predicate that does not relate the two tables, and so pairs all left rows with all right
        rows.
    names
        The prefixes of the left and right columns in the predicate.
    suffix
        Appended to the name of a right column or an aggregate if the left table has that name.
    **execution
        How the join runs, as in `juncture.Execution`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left columns, then the right columns without ``by``, or the aggregates. Type and order are as for
        `join_asof`, with the matches of a row in right order.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for `join_asof`. SpecError also if the predicate cannot be parsed, PlanError if it does not relate the tables
        and ``allow_cross`` is not set, and DataError if a sum does not fit its type.

    Notes
    -----
    A predicate can use columns, numbers, strings, dates, timestamps, day-time intervals, ``+ - * / % div ||``,
    comparisons, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, CASE, and functions such as abs, cast, coalesce, date_trunc,
    floor, round, greatest, startswith and upper. A predicate without any usable condition costs O(L · R) time, less the
    pairs of blocks that their minimum and maximum values exclude.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> left = pa.table({"k": ["x", "x", "y"], "a": [5, 20, 5]})
    >>> right = pa.table({"k": ["x", "y"], "b": [4, 9]})
    >>> jn.join_where(left, right, "l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10").to_pydict()
    {'k': ['x'], 'a': [5], 'k_right': ['x'], 'b': [4]}
    """
    check_execution(join_where, execution)
    spec = Where(
        predicate=predicate,
        by=by,
        left_by=left_by,
        right_by=right_by,
        how=how,
        agg=agg,
        allow_cross=allow_cross,
        names=names,
        suffix=suffix,
    )
    return joined(left, right, spec, execution)
