"""`join_where`: predicate joins in one call."""

from __future__ import annotations

from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.spec.aggregate import Agg
from juncture.spec.expression import Keys
from juncture.spec.schema import How
from juncture.spec.where import Where


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
