"""`changes`, `changes_many`, `plan_changes` and `view`: joins and SQL queries over tables that change."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from juncture.errors import PlanError, SpecError, optional_packages, wrong_type
from juncture.inputs.kinds import is_spark_frame, is_stream
from juncture.joins.planning import SparkTable, are_schemas, check_spec, check_streams, refuse_on_spark
from juncture.planner.plan import Plan
from juncture.spec.arguments import check_choice
from juncture.spec.kinds import Spec
from juncture.spec.many import Right, check_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from juncture.incremental.changes.change_batch import ChangeFormat
    from juncture.incremental.changes.source import Source
    from juncture.incremental.join import ChangeJoin
    from juncture.incremental.many import ManyChangeJoin
    from juncture.incremental.view import View


@overload
def changes(
    left: SparkTable,
    right: SparkTable,
    spec: Spec,
    *,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> DataFrame: ...
@overload
def changes(
    left: pa.Schema,
    right: pa.Schema,
    spec: Spec,
    *,
    state: str | PathLike[str] | None = None,
    memory: str | int | None = None,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> ChangeJoin: ...
def changes(
    left: SparkTable | pa.Schema,
    right: SparkTable | pa.Schema,
    spec: Spec,
    *,
    state: str | PathLike[str] | None = None,
    memory: str | int | None = None,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> ChangeJoin | DataFrame:
    """Maintain the result of a join while rows of its tables are inserted, updated and deleted.

    Parameters
    ----------
    left, right
        Two schemas for changes that are applied in this process, or two streaming DataFrames of changes. One DataFrame
        may also be static, or a path to Parquet files.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    state
        For schemas, a folder that stores the rows of both tables. Each epoch is stored completely or not at all. A
        folder with rows of the same join is continued. None (default) keeps the rows in memory only.
    memory
        The memory for rows if ``state`` is set, in bytes or such as ``"1GB"``. Further rows stay on disk and are read
        when needed. None means a share of the machine's memory. `ChangeJoin.result` may use the same amount again.
    output
        The format of the changes of the result: ``"weight"`` (column ``_weight``), ``"change_type"`` (column
        ``_change_type``) or ``"debezium"`` (columns ``op``, ``before``, ``after``).
    unmatched_deletes
        What happens to deletes of rows that do not exist: ``"error"`` raises DataError, ``"count"`` counts and skips
        them. Joins with a static table do not check deletes.

    Returns
    -------
    ChangeJoin or pyspark.sql.DataFrame
        For schemas, the join, with the rows in ``state`` or empty. For DataFrames, the streaming DataFrame of the
        changes of the result.

    Raises
    ------
    SpecError
        If an argument has an invalid value.
    SchemaError
        If a column is missing, or the types of two columns do not compare.
    PlanError
        If Spark has no operator for this join of DataFrames, or ``memory`` is below the minimum.
    StateError
        If the folder is in use by another process, belongs to another join or version, or is damaged.

    Notes
    -----
    Applying an epoch costs time in proportion to its changes and their matches, not to the tables.

    Examples
    --------
    A new quote between two others becomes the match of the later trade:

    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades, quotes = pa.schema({"ts": pa.int64()}), pa.schema({"ts": pa.int64(), "bid": pa.int64()})
    >>> join = jn.changes(trades, quotes, jn.Asof(on="ts"))
    >>> result = join.apply(left=pa.table({"ts": [3, 7]}), right=pa.table({"ts": [1], "bid": [10]}))
    >>> [batch.to_pylist() for batch in join.apply(right=pa.table({"ts": [5], "bid": [11]}))]
    [[{'ts': 7, 'bid': 10, '_weight': -1}, {'ts': 7, 'bid': 11, '_weight': 1}]]
    """
    if not are_schemas(left, right):
        refuse_on_spark(state=state, memory=memory)
        plan = plan_changes(left, right, spec, output=output, unmatched_deletes=unmatched_deletes)
        frame: DataFrame = plan.execute()
        return frame
    from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
    from juncture.incremental.state.policy import MemoryPolicy
    from juncture.local.resources import resources_here

    check_spec(spec)
    setup = ChangeSetup(spec, left, right, output, unmatched_deletes)
    resources = resources_here(memory)
    store = None if state is None else store_in(Path(state), setup, MemoryPolicy.of(resources.memory_bytes))
    return ChangeJoin(setup, resources, store)


def changes_many(
    spine: pa.Schema,
    tables: Mapping[str, Right],
    *,
    state: str | PathLike[str] | None = None,
    memory: str | int | None = None,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> ManyChangeJoin:
    """Maintain the join of several tables to one while rows of all of them change, in this process.

    The maintained form of `juncture.join_many`: the result has each row of the spine once, with the columns of all
    tables.

    Parameters
    ----------
    spine
        The schema of the table whose rows are kept.
    tables
        The tables by name, as for `juncture.join_many`, with a schema in place of the table.
    state, memory, output, unmatched_deletes
        As for `juncture.changes`.

    Returns
    -------
    ManyChangeJoin
        The join, with the rows in ``state`` or empty.

    Raises
    ------
    SpecError, SchemaError, PlanError, StateError
        As for `juncture.changes`, with the name of the table.

    Notes
    -----
    ``algorithm``, ``order`` and ``check_available_at`` of a table have no effect.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> orders = pa.schema({"ts": pa.int64(), "user": pa.string()})
    >>> users = pa.schema({"user": pa.string(), "since": pa.int64()})
    >>> recent = jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count"})
    >>> tables = {"clicks": jn.Right(orders, recent), "user": jn.Right(users, jn.Equi(on="user", how="left"))}
    >>> join = jn.changes_many(orders, tables)
    >>> _ = join.populate(spine=pa.table({"ts": [5], "user": ["ann"]}), user=pa.table({"user": ["ann"], "since": [1]}))
    >>> _ = join.apply(clicks=pa.table({"ts": [3, 4], "user": ["ann", "ann"]}))
    >>> join.result().to_pylist()
    [{'ts': 5, 'user': 'ann', 'count': 2, 'since': 1}]
    """
    from juncture.incremental.many import SPINE, ManyChangeJoin, ManyChangeSetup
    from juncture.incremental.state.policy import MemoryPolicy, store_opener
    from juncture.local.resources import resources_here

    rights = check_tables(tables)
    for name in (SPINE, "offset", "progress"):
        if name in rights:
            raise SpecError(f"tables has the name {name!r}, which is reserved. Rename it.", name="JN-ARGUMENT-VALUE")
    schemas = {"spine": spine, **{f"tables[{name!r}]": right.table for name, right in rights.items()}}
    for argument, schema in schemas.items():
        if not isinstance(schema, pa.Schema):
            raise wrong_type(argument, schema, "a schema", "a pyarrow.Schema. On Spark, chain jn.changes(…)")
    setup = ManyChangeSetup(spine, rights, output, unmatched_deletes)
    resources = resources_here(memory)
    policy = MemoryPolicy.of(resources.memory_bytes)
    store = None if state is None else store_opener(Path(state), "join", policy, setup.to_dict())
    return ManyChangeJoin(setup, resources, store)


def plan_changes(
    left: SparkTable,
    right: SparkTable,
    spec: Spec,
    *,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> Plan:
    """Plan a join of streaming DataFrames of changes without running it.

    The arguments and errors are those of `juncture.changes` for DataFrames.

    Returns
    -------
    Plan
        ``explain()`` describes which operator runs and which columns mark changes. ``execute()`` returns the streaming
        DataFrame.

    Examples
    --------
    >>> import juncture as jn
    >>> print(jn.plan_changes(trades, quotes, jn.Asof(on="ts", by="symbol")).explain())  # doctest: +SKIP
    """
    check_streams(left, right, spec)
    check_choice("output", output, ("weight", "change_type", "debezium"))
    check_choice("unmatched_deletes", unmatched_deletes, ("error", "count"))
    from juncture.hosting.plan import plan_change_join

    return plan_change_join(spec, left, right, output=output, unmatched_deletes=unmatched_deletes)


@overload
def view(
    state: None,
    sql: str,
    *,
    sources: Mapping[str, DataFrame],
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
    final_rows: Literal["keep", "forget"] = "keep",
) -> DataFrame: ...
@overload
def view(
    state: str | PathLike[str] | None,
    sql: str,
    *,
    sources: Mapping[str, pa.Schema | Source],
    memory: str | int | None = None,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
    final_rows: Literal["keep", "forget"] = "keep",
) -> View: ...
def view(
    state: str | PathLike[str] | None,
    sql: str,
    *,
    sources: Mapping[str, pa.Schema | Source] | Mapping[str, DataFrame],
    memory: str | int | None = None,
    output: ChangeFormat = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
    final_rows: Literal["keep", "forget"] = "keep",
) -> View | DataFrame:
    """Maintain the result of an SQL query while the tables that it reads change.

    Parameters
    ----------
    state
        A folder that stores the rows. Each epoch is stored completely or not at all. A folder with rows of the same
        query is continued. None keeps the rows in memory only, or for DataFrames, in the checkpoint of Spark's query.
    sql
        The query in DuckDB's SQL, including ``ASOF JOIN … MATCH_CONDITION (…)``. The documentation of views lists what
        is supported. The error for anything else shows the position.
    sources
        The tables of the query by name: their columns, or a `Source` with further options. Or streaming DataFrames of
        changes, whose watermarks are their orders.
    memory
        The memory for rows if ``state`` is set, in bytes or such as ``"1GB"``. Further rows stay on disk and are read
        when needed. Groups, their values under MIN, MAX and DISTINCT, and one key per joined row stay in memory. None
        means a share of the machine's memory.
    output, unmatched_deletes
        As for `juncture.changes`.
    final_rows
        Whether `View.result` keeps rows of the result that can no longer change, because sources have an order.

    Returns
    -------
    View or pyspark.sql.DataFrame
        The view, with the rows in ``state`` or empty. For DataFrames, the streaming DataFrame of the changes of the
        result: each micro-batch is an epoch, which one task applies.

    Raises
    ------
    SpecError
        If the query cannot be parsed or maintained, or an argument has an invalid value.
    PlanError
        If ``memory`` is below the minimum, or a DataFrame is not streaming.
    StateError
        If the folder is in use by another process, belongs to another query or version, or is damaged.

    Notes
    -----
    Applying an epoch costs time in proportion to its changes and their matches, not to the tables.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> sales = pa.schema({"book": pa.string(), "price": pa.decimal128(7, 2)})
    >>> view = jn.view(None, "SELECT book, sum(price) AS total FROM sales GROUP BY book", sources={"sales": sales})
    >>> first = pa.table({"book": ["Emma", "Emma"], "price": pa.array(["5", "7"]).cast(pa.decimal128(7, 2))})
    >>> [batch.to_pylist() for batch in view.apply(sales=first)]
    [[{'book': 'Emma', 'total': Decimal('12.00'), '_weight': 1}]]
    """
    from juncture.incremental.changes.source import Source
    from juncture.incremental.state.policy import MemoryPolicy
    from juncture.local.resources import resources_here

    with optional_packages("A view"):
        from juncture.incremental.view import View, ViewSetup, store_in

    if not isinstance(sql, str):
        raise wrong_type("sql", sql, "SQL", 'a string such as "SELECT … FROM …"')
    if not isinstance(sources, Mapping) or not sources or not all(isinstance(name, str) for name in sources):
        raise SpecError(
            f"sources={sources!r} is not a mapping of names to schemas, or is empty. Expected for example "
            f'{{"sales": pa.schema(…)}}.',
            name="JN-ARGUMENT-TYPE",
        )
    if "offset" in sources or len({name.lower() for name in sources}) < len(sources):
        raise SpecError(
            f"sources={list(sources)!r} has names that differ only in case, or the reserved name 'offset'. Rename "
            "these sources.",
            name="JN-ARGUMENT-VALUE",
        )
    if any(map(is_spark_frame, sources.values())):
        refuse_on_spark(state=state, memory=memory)
        check_choice("output", output, ("weight", "change_type", "debezium"))
        not_streaming = next((name for name, each in sources.items() if not is_stream(each)), None)
        if not_streaming is not None:
            raise PlanError(
                f"Source {not_streaming!r} is not a streaming DataFrame, but another source is one. Read it with "
                "spark.readStream.",
                name="JN-BATCH-INPUTS",
            )
        from juncture.hosting.views import plan_view

        frames: Mapping[str, Any] = sources
        return plan_view(frames, sql, output=output, unmatched_deletes=unmatched_deletes, final_rows=final_rows)
    tables: dict[str, Any] = {
        name: each if isinstance(each, Source) else Source(each) for name, each in sources.items()
    }
    setup = ViewSetup(sql, tables, output, unmatched_deletes, final_rows)
    policy = MemoryPolicy.of(resources_here(memory).memory_bytes)
    return View(setup, None if state is None else store_in(Path(state), setup, policy))
