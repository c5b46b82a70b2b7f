"""Joins of several tables to one spine, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from juncture.errors import PlanError, SpecError
from juncture.inputs import choose_engine, is_stream
from juncture.joins.planning import check_limits, refuse_unknown
from juncture.planner.many import ManyPlan
from juncture.spec.many import Right, named


def join_many(
    spine: Any, tables: Mapping[str, Right], *, spark: Any = None, memory: str | int | None = None, **unknown: Any
) -> Any:
    """Join several tables to the rows of one, each in its own way.

    Like a chain of joins that each add columns: as-of joins, aggregates over windows, and look-ups, by whatever keys.
    Each table gives a row of the spine at most one row. The spine is coded and sorted once for each list of keys, and
    on Spark shuffled once.

    Parameters
    ----------
    spine
        The table whose rows are kept: what single joins take as the left one.
    tables
        The tables by name, each a `Right`: the table, the join, and what of it is shown. Joins name columns of the
        spine, and not those that other tables add.
    spark
        A Spark session, to join paths on Spark.
    memory
        How much memory in-process joins may take, apart from the table that they return, such as ``"2GB"``.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
        The columns of the spine, then those that each table adds. In-process the rows keep the spine's order, and the
        type is the spine's; on Spark it is a DataFrame without an order.

    Raises
    ------
    SpecError, SchemaError, PlanError, DataError, StateError
        As the single joins do, with the name of the table; and DataError if several rows of a table match a row of the
        spine.

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
    spine: Any, tables: Mapping[str, Right], *, spark: Any = None, memory: str | int | None = None
) -> ManyPlan:
    """Plan joins of several tables to one spine without running them.

    Parameters
    ----------
    spine, tables, spark, memory
        As for `join_many`.

    Returns
    -------
    ManyPlan
        ``explain()`` says what will run for each table and what they share, ``execute()`` runs it, and
        ``match_report()`` counts what each table gives, and what of it was known too late.

    Raises
    ------
    SpecError, SchemaError, PlanError
        As `join_many` does. In-process no row is read; on Spark, small jobs may run that count or sample the inputs, or
        collect a small table.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> spine, rates = pa.table({"ts": [5, 9]}), pa.table({"ts": [1, 8], "rate": [2.0, 2.5]})
    >>> plan = jn.plan_many(spine, {"rates": jn.Right(rates, jn.Asof(on="ts"))})
    >>> plan
    Join of 1 table to one spine in-process
      spine      2 rows
      key        no key: coded once for rates
      rates: As-of join in-process by probe: lowest estimated cost; next is merge
    """
    rights = _checked(tables)
    engines = {}
    for name, right in rights.items():
        if is_stream(spine) or is_stream(right.table):
            raise PlanError(
                f"In table {name!r}: the spine or the table is a streaming DataFrame, and several tables are joined at "
                "once in batch only. Join the tables one after the other with join_asof, join_range and join."
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


def _checked(tables: Any) -> dict[str, Right]:
    """Return the tables in one form.

    Raises
    ------
    SpecError
        If they are no mapping of names to tables, or there are none.
    """
    if not isinstance(tables, Mapping) or not tables:
        raise SpecError(
            f"tables={tables!r} is not a mapping of names to tables. Expected such as "
            '{"weather": juncture.Right(weather, juncture.Asof(on="ts"))}.'
        )
    for name, right in tables.items():
        if not isinstance(name, str):
            raise SpecError(f"tables has the name {name!r} ({type(name).__name__}). Expected a string.")
        if not isinstance(right, Right):
            raise SpecError(
                f"tables[{name!r}] is a {type(right).__name__}. Expected juncture.Right(table, spec), which says how "
                "the table is joined."
            )
    return dict(tables)
