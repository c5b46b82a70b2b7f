"""Range joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from juncture.joins.arguments import Frame, RangeArguments
from juncture.joins.planning import join_by
from juncture.planner.statistics import Stats
from juncture.spec.aggregate import Agg
from juncture.spec.computed import Key, Keys
from juncture.spec.distance import Distance
from juncture.spec.range import Range
from juncture.spec.schema import Closed, How
from juncture.spec.window import Windows

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


@overload
def join_range(left: Frame, right: Any, **arguments: Unpack[RangeArguments]) -> Frame: ...
@overload
def join_range(left: Any, right: Any, **arguments: Unpack[RangeArguments]) -> Any: ...
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
    algorithm: str = "auto",
    spark: Any = None,
    lazy: bool = False,
    memory: str | int | None = None,
    maintain_order: Literal["left"] | None = "left",
    stats: Stats | None = None,
    left_order: Order | Sequence[Order] | None = None,
    right_order: Order | Sequence[Order] | None = None,
    changes: bool | ChangeFormat = False,
    unmatched_deletes: Literal["error", "count"] = "error",
    **unknown: Any,
) -> Any:
    """Match each left row with all right rows in a window around its place in time, or on any other line.

    Like all measurements of the hour before each event: the right rows with equal ``by`` for which
    ``left on + lower <= right on <= left on + upper``. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        Two Spark DataFrames (classic or Connect), of which the left one, or both, may be streams; or any
        mixture of tables that speak Arrow (pyarrow and its datasets, Polars, pandas, DuckDB, an iterable of record
        batches) and paths to files (a file, folder, glob or list of them).
    on
        The column of both that is compared: an integer, float, decimal, date or timestamp; ``left_on`` and
        ``right_on`` where the names differ. Rows whose ``on`` is null or NaN match nothing. Or an expression,
        ``juncture.expr("date + open_time")``.
    by
        Columns or expressions that have to be equal, one or several; ``left_by`` and ``right_by`` where they differ.
        Null equals nothing.
    lower, upper
        Where the window starts and ends, counted from the left ``on``, so that what lies before is negative: a
        number, a ``timedelta``, a duration such as ``"-1h"``, or the name of a left column that holds one per row,
        which goes first. None for an open side; one of them has to be given. A row that has null there, or whose
        window starts after its end, matches nothing.
    windows
        Several windows in place of one, by their names: ``{"1h": ("-1h", 0), "7d": ("-7d", 0)}``. Each has the
        aggregates of ``agg``, in columns whose names end with its own: ``value_mean_1h``. The right table is read and
        sorted once. With ``how="inner"`` a left row is kept if any of them holds a match.
    closed
        Which ends belong to the window: ``"both"`` (the default), ``"left"``, ``"right"`` or ``"none"``.
    how
        ``"inner"`` (the default) keeps the matches, ``"left"`` every left row too; ``"right"`` and ``"full"`` keep the
        right rows that no left row matched; ``"semi"`` and ``"anti"`` return the left rows with and without a match.
        With ``agg``, ``"left"`` (the default then) or ``"inner"``.
    agg
        Aggregates over the matches of each left row, in place of the matches themselves:
        ``{"value": ["mean", ("quantile", 0.9)], "*": "count"}`` by right column, of ``count``, ``sum``, ``mean``,
        ``min``, ``max``, ``std``, ``first`` and ``last`` (by the right ``on``), ``median``,
        ``("quantile", 0.9)``, ``count_distinct``, ``any``, ``all``, ``("weighted_mean", column)``, ``list``,
        ``("arg_min", column)`` and ``("arg_max", column)``. Nulls are skipped. The output has one row per left row, and
        the matches are never all there at once.
    suffix
        Added to the name of a right column, or of an aggregate, that the left table has too.
    algorithm
        ``"auto"`` (the default) lets the planner choose. ``juncture.plan(…).explain()`` lists those there are. The
        answer is the same.
    spark, lazy, memory, maintain_order, stats, left_order, right_order, changes, unmatched_deletes
        Where it runs, and what it may use: as for `juncture.plan`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
        The left columns, then the right ones less ``by``, or the aggregates. In-process the rows keep the left order,
        the matches of each by their ``on``, and the type is the left table's (pyarrow for paths and streams); on Spark
        it is a DataFrame without an order. The index of a pandas left table goes with its rows; a right one's is left
        out.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense, such as a window that starts after its end.
    SchemaError
        If a column is missing, or types do not compare.
    PlanError
        If the inputs or the algorithm named cannot be joined this way, or the memory is too small to work in.
    DataError
        If a file cannot be read, or a sum does not fit its type.
    StateError
        If there is no room to spill.

    Notes
    -----
    In-process the right ``by`` and ``on`` columns are held in memory and sorted, and the left is streamed past them:
    time O((L + R) log R) and the output. On Spark see ``juncture.plan(…).explain()``. Bins of time, and looking into
    the neighbouring ones, come from "Efficient Range-Joins With Spark 2.0".

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
    return join_by(Range, join_range, locals())
