"""Predicate joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from juncture.joins.arguments import Frame, WhereArguments
from juncture.joins.planning import join_by
from juncture.planner.statistics import Stats
from juncture.spec.aggregate import Agg
from juncture.spec.computed import Keys
from juncture.spec.schema import How
from juncture.spec.where import Where

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


@overload
def join_where(left: Frame, right: Any, predicate: str, **arguments: Unpack[WhereArguments]) -> Frame: ...
@overload
def join_where(left: Any, right: Any, predicate: str, **arguments: Unpack[WhereArguments]) -> Any: ...
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
    """Match rows for which a condition holds.

    The condition is SQL over the columns of both tables; equalities, ranges, overlaps and inequalities are found in
    it and made use of, and what is left is checked row by row.

    Parameters
    ----------
    left, right
        Two Spark DataFrames (classic or Connect), of which the left one, or both, may be streams; or any
        mixture of tables that speak Arrow (pyarrow and its datasets, Polars, pandas, DuckDB, an iterable of record
        batches) and paths to files (a file, folder, glob or list of them).
    predicate
        The condition, in Spark's dialect, over columns of the left table ``l.…`` and of the right ``r.…``; a column
        that only one of them has needs no name in front. Rows match where it is true, neither false nor null.
    by
        Columns or expressions that have to be equal besides, one or several; ``left_by`` and ``right_by`` where they
        differ. Null equals nothing.
    how
        ``"inner"`` (the default) keeps the matches, ``"left"`` every left row too; ``"right"`` and ``"full"`` keep the
        right rows that no left row matched; ``"semi"`` and ``"anti"`` return the left rows with and without a match.
        With ``agg``, ``"left"`` (the default then) or ``"inner"``.
    agg
        Aggregates over the matches of each left row, in place of the matches themselves:
        ``{"value": ["mean", ("quantile", 0.9)], "*": "count"}`` by right column, of ``count``, ``sum``, ``mean``,
        ``min``, ``max``, ``std``, ``first`` and ``last`` (by all right columns), ``median``,
        ``("quantile", 0.9)``, ``count_distinct``, ``any``, ``all``, ``("weighted_mean", column)``, ``list``,
        ``("arg_min", column)`` and ``("arg_max", column)``. Nulls are skipped. The output has one row per left row, and
        the matches are never all there at once.
    allow_cross
        Whether a condition passes that ties no left row to any right row, and so joins all with all.
    names
        What the predicate calls the two tables.
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
        the matches of each in right order, and the type is the left table's (pyarrow for paths and streams); on Spark
        it is a DataFrame without an order. The index of a pandas left table goes with its rows; a right one's is left
        out.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense, or the predicate cannot be read.
    SchemaError
        If a column is missing, or types do not compare.
    PlanError
        If the inputs or the algorithm named cannot be joined this way, nothing ties the tables together and
        ``allow_cross`` is not set, or the memory is too small to work in.
    DataError
        If a file cannot be read, or a sum does not fit its type.
    StateError
        If there is no room to spill.

    Notes
    -----
    A predicate can use columns, numbers, strings, dates, timestamps, day-time intervals, ``+ - * / % div ||``,
    comparisons, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, CASE, and functions such as abs, cast, coalesce,
    date_trunc, floor, round, greatest, startswith and upper. A condition that has none of the known shapes costs time
    in proportion to the product of the two row counts, less the blocks of rows that their least and greatest values
    rule out.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> left = pa.table({"k": ["x", "x", "y"], "a": [5, 20, 5]})
    >>> right = pa.table({"k": ["x", "y"], "b": [4, 9]})
    >>> jn.join_where(left, right, "l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10").to_pydict()
    {'k': ['x'], 'a': [5], 'k_right': ['x'], 'b': [4]}
    """
    return join_by(Where, join_where, locals())
