"""`join`: equality joins in one call."""

from __future__ import annotations

from typing import Any, Unpack

from juncture.joins.execution import Execution, check_execution, returns_left_type
from juncture.joins.planning import joined
from juncture.spec.aggregate import Agg
from juncture.spec.equi import Equi
from juncture.spec.expression import Keys
from juncture.spec.schema import How


@returns_left_type
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
    **execution: Unpack[Execution],
) -> Any:
    """Match rows whose keys are equal.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`.
    on, left_on, right_on
        The key: a column, an expression such as ``juncture.expr("upper(code)")``, or a list of them. Use ``left_on``
        and ``right_on`` if the names differ. Keys of every type with equality, including nested ones, are compared
        exactly across widths, scales, units and encodings. NaN equals NaN, and -0.0 equals 0.0.
    how
        ``"inner"`` (default) keeps matches only. ``"left"``, ``"right"`` and ``"full"`` also keep unmatched rows of the
        left table, the right table, or both. ``"semi"`` and ``"anti"`` return the left rows with or without a match.
        With ``agg``, pass ``"left"`` (then the default) or ``"inner"``.
    agg
        As for `join_range`, except that ``first`` and ``last`` are ordered by all right columns.
    where
        A condition over both tables, in the SQL of `juncture.join_where`, such as ``"r.price < l.limit"``. Rows match
        if it is true, not false or null.
    nulls_equal
        Whether null equals null in the key. By default, null equals nothing.
    coalesce
        Whether to omit the right key, which equals the left key. In unmatched right rows, the left key column then has
        the right key. With False, the result has both keys.
    suffix
        Appended to the name of a right column or an aggregate if the left table has that name.
    **execution
        How the join runs, as in `juncture.Execution`.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The left columns, then the right columns without the key, or the aggregates. Type and order are as for
        `join_asof`, with the matches of a row in right order and unmatched right rows last.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for `join_asof`. SpecError also if ``where`` cannot be parsed, DataError if a sum does not fit its type.

    Notes
    -----
    Time O(L + R) plus the output. In-process, the keys of the smaller side and the right rows that can match are in
    memory; rows beyond ``memory`` are spilled to disk. On Spark, equality joins use Spark's own operators, selected
    with hints, and hot keys are split across tasks. The algorithms follow "Understanding Join Algorithms".

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
    check_execution(join, execution)
    spec = Equi(
        on=on,
        left_on=left_on,
        right_on=right_on,
        how=how,
        agg=agg,
        where=where,
        nulls_equal=nulls_equal,
        coalesce=coalesce,
        suffix=suffix,
    )
    return joined(left, right, spec, execution)
