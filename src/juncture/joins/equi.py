"""Equality joins in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from juncture.joins.arguments import EquiArguments, Frame
from juncture.joins.planning import join_by
from juncture.planner.statistics import Stats
from juncture.spec.aggregate import Agg
from juncture.spec.computed import Keys
from juncture.spec.equi import Equi
from juncture.spec.schema import How

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


@overload
def join(left: Frame, right: Any, **arguments: Unpack[EquiArguments]) -> Frame: ...
@overload
def join(left: Any, right: Any, **arguments: Unpack[EquiArguments]) -> Any: ...
def join(
    left: Any,
    right: Any,
    *,
    on: Keys | None = None,
    left_on: Keys | None = None,
    right_on: Keys | None = None,
    how: How | None = None,
    agg: Agg | None = None,
    where: str | None = None,
    nulls_equal: bool = False,
    coalesce: bool = True,
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
    """Match rows whose keys are equal.

    Parameters
    ----------
    left, right
        Two Spark DataFrames, of which the left one, or both, may be streams; or any mixture of tables that speak Arrow
        (pyarrow and its datasets, Polars, pandas, DuckDB, an iterable of record batches) and paths to files (a file,
        folder, glob or list of them), joined in this process. Paths, with ``spark=`` or beside a DataFrame, are read
        by Spark.
    on
        The key: a column of both tables, or several; ``left_on`` and ``right_on`` where the names differ. Values of any
        type that has equality, nested ones included, are compared exactly, whatever their width, scale, unit or
        encoding. NaN equals NaN, and -0.0 equals 0.0. Or an expression, ``juncture.expr("upper(code)")``.
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
    where
        A condition besides, in Spark's SQL, over columns of the left table ``l.…`` and of the right ``r.…``. Rows match
        where it is true, neither false nor null.
    nulls_equal
        Whether a null equals a null. Otherwise it equals nothing.
    coalesce
        Whether to leave out the right key, which equals the left one. In rows without a left match its values then
        stand in the left key. Otherwise both are shown.
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
        The left columns, then the right ones less the key, or the aggregates. In-process, the rows keep the left
        order, the matches of each come in right order, and right rows without a match last. The type is the left
        table's (pyarrow for paths and streams). The index of a pandas left table goes with its rows; a right one's is
        left out.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense, or ``where`` cannot be read.
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
    Time O(L + R) and the output. In memory, the keys of the smaller side and the right rows that can match are held;
    on disk, what ``memory`` allows. On Spark its own operators join, by hints, and the rows of keys that would keep one
    task busy are divided among several. The algorithms are those of "Understanding Join Algorithms".

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> customers = pa.table({"id": [1, 2, 3], "name": ["ann", "bob", "cy"]})
    >>> sales = pa.table({"buyer_id": [3, 1, 3], "price": [5.0, 7.5, 2.0]})
    >>> jn.join(customers, sales, left_on="id", right_on="buyer_id", how="left").to_pydict()
    {'id': [1, 2, 3, 3], 'name': ['ann', 'bob', 'cy', 'cy'], 'price': [7.5, None, 5.0, 2.0]}
    >>> jn.join(customers, sales, left_on="id", right_on="buyer_id", agg={"price": "list"}).to_pydict()
    {'id': [1, 2, 3], 'name': ['ann', 'bob', 'cy'], 'price_list': [[7.5], [], [2.0, 5.0]]}
    """
    return join_by(Equi, join, locals())
