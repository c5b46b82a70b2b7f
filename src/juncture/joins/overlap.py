"""Overlap joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from juncture.joins.arguments import Frame, OverlapArguments
from juncture.joins.planning import join_by
from juncture.planner.statistics import Stats
from juncture.spec.aggregate import Agg
from juncture.spec.computed import Keys
from juncture.spec.overlap import KeyInterval, Overlap
from juncture.spec.schema import Closed, How

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


@overload
def join_overlap(left: Frame, right: Any, **arguments: Unpack[OverlapArguments]) -> Frame: ...
@overload
def join_overlap(left: Any, right: Any, **arguments: Unpack[OverlapArguments]) -> Any: ...
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
    """Match each left interval with all right intervals that overlap it.

    Like each call with the outages during it: the right rows with equal ``by`` whose interval shares a point with the
    left row's. The inputs need not be sorted.

    Parameters
    ----------
    left, right
        Two Spark DataFrames (classic or Connect), of which the left one, or both, may be streams; or any
        mixture of tables that speak Arrow (pyarrow and its datasets, Polars, pandas, DuckDB, an iterable of record
        batches) and paths to files (a file, folder, glob or list of them).
    left_interval, right_interval
        The columns in which the intervals of each table start and end: integers, floats, decimals, dates or
        timestamps, or expressions of them, ``juncture.expr("start + length")``. None for one of the two where all
        intervals are unbounded on that side. Rows that have null or NaN there match nothing.
    by
        Columns or expressions that have to be equal, one or several; ``left_by`` and ``right_by`` where they differ.
        Null equals nothing.
    closed
        Which ends belong to the intervals: ``"left"`` (half-open ``[start, end)``, the default), ``"both"``,
        ``"right"`` or ``"none"``. Only with ``"both"`` do intervals overlap that touch in one point; an interval from a
        point to itself is that point then, and otherwise empty and matches nothing.
    how
        ``"inner"`` (the default) keeps the matches, ``"left"`` every left row too; ``"right"`` and ``"full"`` keep the
        right rows that no left row matched; ``"semi"`` and ``"anti"`` return the left rows with and without a match.
        With ``agg``, ``"left"`` (the default then) or ``"inner"``.
    agg
        Aggregates over the matches of each left row, in place of the matches themselves:
        ``{"value": ["mean", ("quantile", 0.9)], "*": "count"}`` by right column, of ``count``, ``sum``, ``mean``,
        ``min``, ``max``, ``std``, ``first`` and ``last`` (by the right start), ``median``,
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
        the matches of each by their start, and the type is the left table's (pyarrow for paths and streams); on Spark
        it is a DataFrame without an order. The index of a pandas left table goes with its rows; a right one's is left
        out.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    SchemaError
        If a column is missing, or types do not compare.
    PlanError
        If the inputs or the algorithm named cannot be joined this way, or the memory is too small to work in.
    DataError
        If a file cannot be read, an interval starts after its end, or a sum does not fit its type.
    StateError
        If there is no room to spill.

    Notes
    -----
    In-process the right intervals are held in memory and sorted, and the left is streamed past them. On Spark see
    ``juncture.plan(…).explain()``.

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
    return join_by(Overlap, join_overlap, locals())
