"""`join_many` and `plan_many`: joins of several tables to one spine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Never

from juncture.errors import PlanError
from juncture.inputs.kinds import choose_engine, is_stream
from juncture.joins.execution import refuse_unknown
from juncture.joins.planning import check_limits
from juncture.planner.many import ManyPlan
from juncture.spec.many import Right, check_tables, named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def join_many(
    spine: Any,
    tables: Mapping[str, Right],
    *,
    spark: SparkSession | None = None,
    memory: str | int | None = None,
    **unknown: Never,
) -> Any:
    """Join several tables to the rows of one table, each with its own kind of join.

    The result is that of a chain of joins that each add columns: as-of joins, aggregates over windows, and lookups.
    Each table matches at most one row per spine row.

    Parameters
    ----------
    spine
        The table whose rows are kept. Accepts the same inputs as ``left`` of `join_asof`, except streams.
    tables
        The tables by name, each a `Right` with the table, its join and the columns to add. Joins refer to columns of
        the spine, not to columns that other tables add.
    spark
        A Spark session. Paths are then read and joined on Spark.
    memory
        The memory limit of an in-process join in bytes or such as ``"2GB"``, apart from the returned table. None means
        a share of this process's memory.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, DuckDB relation or pyspark.sql.DataFrame
        The columns of the spine, then the columns of each table. In-process, the result has the type and order of the
        spine. On Spark, the rows have no order.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As for single joins, with the name of the table. DataError also if several rows of a table match a spine row.

    Notes
    -----
    The spine is coded and sorted once per distinct list of keys. On Spark, it is shuffled once.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> spine = pa.table({"ts": [5, 9], "user": ["ann", "bob"]})
    >>> prices = pa.table({"ts": [1, 8], "price": [2.0, 2.5]})
    >>> clicks = pa.table({"ts": [3, 4, 9], "user": ["ann", "ann", "bob"]})
    >>> users = pa.table({"name": ["ann", "bob"], "since": [1, 2]})
    >>> tables = {
    ...     "price": jn.Right(prices, jn.Asof(on="ts")),
    ...     "clicks": jn.Right(clicks, jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count"})),
    ...     "user": jn.Right(users, jn.Equi(left_on="user", right_on="name"), columns=["since"]),
    ... }
    >>> jn.join_many(spine, tables).to_pydict()
    {'ts': [5, 9], 'user': ['ann', 'bob'], 'price': [2.0, 2.5], 'count': [2, 1], 'since': [1, 2]}
    """
    refuse_unknown(join_many, unknown)
    return plan_many(spine, tables, spark=spark, memory=memory).execute()


def plan_many(
    spine: Any, tables: Mapping[str, Right], *, spark: SparkSession | None = None, memory: str | int | None = None
) -> ManyPlan:
    """Plan joins of several tables to one spine without running them.

    The arguments and errors are those of `join_many`.

    Returns
    -------
    ManyPlan
        ``explain()`` describes what runs for each table and what the tables share. ``execute()`` runs the joins.
        ``match_report()`` counts the matches of each table, and matches that became available too late.

    Notes
    -----
    In-process, no rows are read. On Spark, small jobs may run that count or sample the inputs, or collect a small
    table.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> spine, rates = pa.table({"ts": [5, 9]}), pa.table({"ts": [1, 8], "rate": [2.0, 2.5]})
    >>> plan = jn.plan_many(spine, {"rates": jn.Right(rates, jn.Asof(on="ts"))})
    >>> plan.execute().to_pydict()
    {'ts': [5, 9], 'rate': [2.0, 2.5]}
    """
    rights = check_tables(tables)
    engines = {}
    for name, right in rights.items():
        if is_stream(spine) or is_stream(right.table):
            raise PlanError(
                f"In table {name!r}: the spine or the table is a streaming DataFrame, but join_many runs in batch "
                "only. Join one table after the other with join_asof, join_range and join.",
                name="JN-BATCH-ONLY",
            )
        try:
            engines[name] = choose_engine(spine, right.table, spark)
        except PlanError as error:
            raise named(name, error) from error
    if "spark" in engines.values():
        check_limits("spark", memory)
        from juncture.spark.many import plan as on_spark

        return on_spark.plan(spine, rights, session=spark)
    from juncture.local.many import plan as in_process
    from juncture.local.resources import resources_here

    return in_process.plan(spine, rights, resources_here(memory))
