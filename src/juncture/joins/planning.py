"""`plan`: the spec decides the kind of join, the inputs decide the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from inspect import signature
from typing import Any, Literal

from juncture.errors import PlanError, SpecError, did_you_mean
from juncture.inputs import choose_engine, is_stream
from juncture.planner.choose import ALGORITHMS, check_algorithm
from juncture.planner.decision import Engine
from juncture.planner.plan import Plan
from juncture.planner.statistics import Stats
from juncture.spec.elsewhere import argument_hint
from juncture.spec.kinds import Spec
from juncture.spec.values import flag


def plan(
    left: Any,
    right: Any,
    spec: Spec,
    *,
    algorithm: str = "auto",
    spark: Any = None,
    lazy: bool = False,
    memory: str | int | None = None,
    maintain_order: Literal["left"] | None = "left",
    stats: Stats | None = None,
) -> Plan:
    """Plan a join without running it.

    Parameters
    ----------
    left, right
        The tables, as for `join_asof`, `join_range`, `join_overlap`, `join_where` and `join`.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    algorithm
        ``"auto"`` (default) lets the planner choose among the algorithms in ``explain()``. All algorithms return the
        same result.
    spark
        A Spark session. Paths are then joined on Spark, where tasks read the files.
    lazy
        Whether to forbid Spark jobs during planning. Hot keys are then not detected.
    memory
        The memory limit of an in-process join in bytes or such as ``"2GB"``, apart from the returned table. None
        (default) means a share of this process's memory. Further rows are spilled to disk, to the folder in ``TMPDIR``.
    maintain_order
        ``"left"`` (default) returns the rows of an in-process join in the order of the left rows. None returns them in
        any order, which saves a sort in joins that buffer the left table or spill. On Spark, rows have no order.
    stats
        Known statistics of the inputs. These are not measured.

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
    return _planned(
        left,
        right,
        spec,
        algorithm=algorithm,
        spark=spark,
        lazy=lazy,
        memory=memory,
        maintain_order=maintain_order,
        stats=stats,
        samples_few=True,
    )


def _planned(
    left: Any,
    right: Any,
    spec: Spec,
    *,
    algorithm: str,
    spark: Any,
    lazy: bool,
    memory: str | int | None,
    maintain_order: Literal["left"] | None,
    stats: Stats | None,
    samples_few: bool,
) -> Plan:
    """Plan a join. Without ``samples_few``, small tables in memory are joined without a look at their rows."""
    check_spec(spec)
    if stats is not None and not isinstance(stats, Stats):
        raise SpecError(
            f"stats={stats!r} ({type(stats).__name__}) is not statistics of both sides. Expected "
            "juncture.Stats(left=juncture.SideStats(rows=…), right=…).",
            name="JN-ARGUMENT-TYPE",
        )
    lazy = flag("lazy", lazy)
    engine = choose_engine(left, right, spark)
    check_limits(engine, memory)
    _check_order(maintain_order)
    check_algorithm(spec, algorithm, engine)
    if is_stream(left) and is_stream(right):
        raise PlanError(
            "Both tables are streaming DataFrames, and this function runs in batch. Use jn.stream(left, right, spec, "
            'left_order=jn.Order("ts", delay="5s"), …), or jn.changes(left, right, spec) for streams of changes.',
            name="JN-BATCH-ONLY",
        )
    if is_stream(left) or is_stream(right):
        from juncture.streams.spark.table import plan_with_table

        return plan_with_table(spec, left, right, algorithm=algorithm, session=spark, lazy=lazy, stats=stats)
    if engine == "spark":
        from juncture.spark import plan as on_spark

        return on_spark.plan(spec, left, right, algorithm=algorithm, session=spark, lazy=lazy, stats=stats)
    from juncture.local import plan as in_process
    from juncture.local.resources import resources_here

    resources = replace(resources_here(memory), in_order=maintain_order is not None)
    return in_process.plan(
        spec, left, right, algorithm=algorithm, stats=stats, resources=resources, samples_few=samples_few
    )


def join_by(kind: type[Spec], function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Run the join of a public function.

    Parameters
    ----------
    arguments
        The function's ``locals()``: the fields of the spec, the arguments of `plan`, and other names under ``unknown``.
    """
    refuse_unknown(function, arguments.pop("unknown"))
    meaning = {field.name: arguments.pop(field.name) for field in fields(kind) if field.name in arguments}
    return _planned(**arguments, spec=kind(**meaning), samples_few=False).execute()


def check_spec(spec: object) -> None:
    """Refuse a value that is not a join."""
    if type(spec) not in ALGORITHMS:
        known = ", ".join(f"jn.{kind.__name__}(…)" for kind in ALGORITHMS)
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) is not a join. Expected one of {known}.", name="JN-ARGUMENT-TYPE"
        )


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


def refuse_unknown(function: Callable[..., Any], unknown: dict[str, Any]) -> None:
    """Refuse arguments of other libraries and misspelled names, with a hint."""
    for name, value in unknown.items():
        known = [each for each in signature(function).parameters if each != "unknown"]
        hint = argument_hint(name, known) or did_you_mean(name, known)
        raise SpecError(f"{function.__name__}() has no argument {name}={value!r}. {hint}", name="JN-ARGUMENT-UNKNOWN")
