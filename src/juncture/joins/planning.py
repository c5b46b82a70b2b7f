"""`plan` and `prepare`: the spec decides the kind of join, the inputs decide the engine. Checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import pyarrow as pa

from juncture.errors import PlanError, SpecError, wrong_type
from juncture.inputs.kinds import choose_engine, is_spark_frame, is_stream
from juncture.joins.execution import Execution, check_execution
from juncture.planner.choose import ALGORITHMS, check_algorithm
from juncture.planner.decision import Engine
from juncture.planner.plan import Plan, is_announced
from juncture.planner.statistics import Resources, Stats
from juncture.spec.kinds import Spec
from juncture.values import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from juncture.inputs.files import Files
    from juncture.local.plan import PreparedJoin


def plan(left: Any, right: Any, spec: Spec, **execution: Unpack[Execution]) -> Plan:
    """Plan a join without running it.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`, `join_range`, `join_overlap`, `join_where` and `join`.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    **execution
        How the join runs: ``algorithm``, ``spark``, ``lazy``, ``memory``, ``maintain_order`` and ``stats``, as in
        `juncture.Execution`.

    Returns
    -------
    Plan
        ``explain()`` describes what runs and why, ``execute()`` runs the join.

    Raises
    ------
    SpecError, SchemaError, PlanError
        As for the join functions.

    Notes
    -----
    In-process, at most 20,000 rows of each side are read. On Spark, unless ``lazy`` is set, small jobs may count or
    sample the inputs, or collect a small side; ``explain()`` lists them.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> table = pa.table({"ts": [1, 2]})
    >>> jn.plan(table, table, jn.Asof(on="ts", how="semi")).execute().to_pydict()
    {'ts': [1, 2]}
    """
    check_execution(plan, execution)
    engine = _engine_of(left, right, spec, execution)
    algorithm, stats = execution.get("algorithm", "auto"), execution.get("stats")
    if engine == "local":
        from juncture.local.plan import plan as plan_in_process

        return plan_in_process(spec, left, right, algorithm=algorithm, stats=stats, resources=_resources(execution))
    lazy = execution.get("lazy", False)
    if is_stream(left) and is_stream(right):
        raise PlanError(
            "Both tables are streaming DataFrames, and this function runs in batch. Use jn.stream(left, right, spec, "
            'left_order=jn.Order("ts", delay="5s"), …), or jn.changes(left, right, spec) for streams of changes.',
            name="JN-BATCH-ONLY",
        )
    if is_stream(left) or is_stream(right):
        _check_version(left, right)
        from juncture.hosting.table import plan_with_table

        return plan_with_table(spec, left, right, algorithm=algorithm, lazy=lazy, stats=stats)
    from juncture.spark.plan import plan as plan_on_spark

    session = execution.get("spark")
    return plan_on_spark(spec, left, right, algorithm=algorithm, session=session, lazy=lazy, stats=stats)


def prepare(
    left_schema: pa.Schema,
    right_schema: pa.Schema,
    spec: Spec,
    *,
    algorithm: str = "auto",
    memory: str | int | None = None,
    maintain_order: Literal["left"] | None = "left",
) -> PreparedJoin:
    """Validate a join once, to run it on many small tables of this process, for example in a service.

    Parameters
    ----------
    left_schema, right_schema
        The columns of both tables.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    algorithm, memory, maintain_order
        As in `juncture.Execution`.

    Returns
    -------
    PreparedJoin
        Call it with two tables: ``prepared(left, right)`` returns the joined table.

    Raises
    ------
    SpecError, SchemaError, PlanError
        As for the join functions.

    Notes
    -----
    With tables of 1,000 rows, a call takes 0.5 to 0.9 times as long as that of a join function. Join functions, too,
    remember the last joins that they have validated.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> schema = pa.schema({"ts": pa.int64()})
    >>> prepared = jn.prepare(schema, schema, jn.Asof(on="ts", how="semi"))
    >>> prepared(pa.table({"ts": [1, 5]}), pa.table({"ts": [3]})).to_pydict()
    {'ts': [5]}
    """
    check_spec(spec)
    for side, schema in (("left", left_schema), ("right", right_schema)):
        if not isinstance(schema, pa.Schema):
            raise wrong_type(f"{side}_schema", schema, "a schema", "a pyarrow.Schema, such as table.schema")
    _check_order(maintain_order)
    check_algorithm(spec, algorithm, "local")
    from juncture.local.plan import prepare as prepare_in_process
    from juncture.local.resources import resources_here

    resources = resources_here(memory, in_order=maintain_order is not None)
    return prepare_in_process(spec, (left_schema, right_schema), algorithm=algorithm, resources=resources)


def joined(left: Any, right: Any, spec: Spec, execution: Execution) -> Any:
    """Return the joined table. In-process, planning is brief, unless the plan is logged."""
    if _engine_of(left, right, spec, execution) == "spark" or is_announced():
        return plan(left, right, spec, **execution).execute()
    from juncture.local.plan import join_at_once

    algorithm, stats = execution.get("algorithm", "auto"), execution.get("stats")
    return join_at_once(spec, left, right, algorithm=algorithm, stats=stats, resources=_resources(execution))


def _engine_of(left: Any, right: Any, spec: Spec, execution: Execution) -> Engine:
    """Return the engine of a join whose arguments are valid."""
    check_spec(spec)
    stats = execution.get("stats")
    if stats is not None and not isinstance(stats, Stats):
        example = "juncture.Stats(left=juncture.SideStats(rows=…), right=…)"
        raise wrong_type("stats", stats, "statistics of both sides", example)
    flag("lazy", execution.get("lazy", False))
    engine = choose_engine(left, right, execution.get("spark"))
    check_limits(engine, execution.get("memory"))
    _check_order(execution.get("maintain_order", "left"))
    check_algorithm(spec, execution.get("algorithm", "auto"), engine)
    return engine


def _resources(execution: Execution) -> Resources:
    from juncture.local.resources import resources_here

    return resources_here(execution.get("memory"), in_order=execution.get("maintain_order", "left") is not None)


def check_spec(spec: object) -> None:
    """Refuse a value that is not a join."""
    if type(spec) not in ALGORITHMS:
        choices = ", ".join(f"jn.{kind.__name__}(…)" for kind in ALGORITHMS)
        raise wrong_type("spec", spec, "a join", f"one of {choices}")


def check_limits(engine: Engine, memory: str | int | None) -> None:
    """Refuse a memory limit on Spark."""
    if memory is not None and engine == "spark":
        raise PlanError(
            f"memory={memory!r} applies to in-process joins, but this join runs on Spark. Remove it, and set the "
            "memory of Spark's executors instead.",
            name="JN-ARGUMENT-INAPPLICABLE",
        )


def _check_order(value: object) -> None:
    """Refuse an invalid ``maintain_order``."""
    if not (value is None or (isinstance(value, str) and value == "left")):
        raise SpecError(
            f"maintain_order={value!r} ({type(value).__name__}) is unknown. Expected 'left' (the order of the left "
            "rows) or None (any order). For the order of the right rows, swap the two tables.",
            name="JN-ARGUMENT-VALUE",
        )


SparkTable: TypeAlias = "DataFrame | Files | str | PathLike[str] | Sequence[str | PathLike[str]]"
"""A DataFrame, or paths to Parquet files."""


def are_schemas(left: object, right: object) -> bool:
    """Return whether the inputs are two schemas, or False if one is a DataFrame. Anything else raises an error."""
    if is_spark_frame(left) or is_spark_frame(right):
        return False
    for side, value in (("left", left), ("right", right)):
        if not isinstance(value, pa.Schema):
            raise SpecError(
                f"{side}={value!r} ({type(value).__name__}) is neither a schema nor a streaming DataFrame. Expected a "
                "pyarrow.Schema, such as table.schema, or a DataFrame of spark.readStream.",
                name="JN-ARGUMENT-TYPE",
            )
    return True


def check_streams(left: object, right: object, spec: object) -> None:
    """Refuse a join on Spark without a streaming DataFrame."""
    check_spec(spec)
    choose_engine(left, right, None)
    if not (is_stream(left) or is_stream(right)):
        raise PlanError(
            "Neither input is a streaming DataFrame. Read one of them with spark.readStream, or join two tables with "
            "jn.plan(left, right, spec).",
            name="JN-BATCH-INPUTS",
        )
    _check_version(left, right)


def _check_version(left: Any, right: Any) -> None:
    """Refuse a streaming DataFrame of a Spark without stateful operators, which hosting imports."""
    from juncture.spark.session.session import check_streams_run

    check_streams_run((left if is_stream(left) else right).sparkSession)


def refuse_on_spark(**arguments: object) -> None:
    """Refuse arguments that apply to two schemas only. None stands for the default of an argument."""
    for name, value in arguments.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} applies to joins of two schemas, which run in this process. Remove it.",
                name="JN-ARGUMENT-INAPPLICABLE",
            )
