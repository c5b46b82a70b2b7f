"""`changes` and `plan_changes`: joins of tables that change."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from juncture.joins.planning import SparkTable, are_schemas, check_spec, check_streams, refuse_on_spark
from juncture.planner.plan import Plan
from juncture.spec.arguments import check_choice
from juncture.spec.kinds import Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from juncture.incremental.change_batch import ChangeFormat
    from juncture.incremental.join import ChangeJoin


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
