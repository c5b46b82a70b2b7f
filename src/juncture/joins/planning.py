"""`plan`: the spec decides the kind of join, the inputs decide the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from juncture.errors import PlanError, SpecError, did_you_mean
from juncture.inputs import choose_engine, is_stream
from juncture.planner.choose import ALGORITHMS, check_algorithm
from juncture.planner.decision import Engine
from juncture.planner.plan import Plan
from juncture.planner.statistics import Stats
from juncture.spec.arguments import check_choice
from juncture.spec.elsewhere import argument_hint
from juncture.spec.kinds import Spec
from juncture.spec.values import flag

if TYPE_CHECKING:
    from juncture.incremental.change_batch import ChangeFormat
    from juncture.streams.order import Order


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
    left_order: Order | Sequence[Order] | None = None,
    right_order: Order | Sequence[Order] | None = None,
    changes: bool | ChangeFormat = False,
    unmatched_deletes: Literal["error", "count"] = "error",
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
    left_order, right_order
        For two streaming DataFrames: the expression in whose order the rows of a side arrive and their maximum delay,
        such as ``jn.Order("ts", delay="5s")``, or a list of these. Orders decide how long rows are kept and when
        results are final. By default, the watermark of a stream is its order.
    changes
        Whether streaming DataFrames contain changes of tables, in the column ``_weight``, the column ``_change_type``,
        or the columns ``op``, ``before`` and ``after``. The result is the stream of changes of the join: True and
        ``"weight"`` return a column ``_weight``; ``"change_type"`` and ``"debezium"`` return the other formats.
    unmatched_deletes
        With ``changes`` on two streams, what happens to deletes of rows that do not exist: ``"error"`` (default) raises
        DataError, ``"count"`` counts and skips them.

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
        left_order=left_order,
        right_order=right_order,
        changes=changes,
        unmatched_deletes=unmatched_deletes,
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
    left_order: Order | Sequence[Order] | None,
    right_order: Order | Sequence[Order] | None,
    changes: bool | ChangeFormat,
    unmatched_deletes: Literal["error", "count"],
    samples_few: bool,
) -> Plan:
    """Plan a join. Without ``samples_few``, small tables in memory are joined without a look at their rows."""
    if type(spec) not in ALGORITHMS:
        known = ", ".join(f"juncture.{kind.__name__}(…)" for kind in ALGORITHMS)
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) is not a join. Expected one of {known}.", name="JN-ARGUMENT-TYPE"
        )
    if stats is not None and not isinstance(stats, Stats):
        raise SpecError(
            f"stats={stats!r} ({type(stats).__name__}) is not statistics of both sides. Expected "
            "juncture.Stats(left=juncture.SideStats(rows=…), right=…).",
            name="JN-ARGUMENT-TYPE",
        )
    lazy = flag("lazy", lazy)
    engine = choose_engine(left, right, spark)
    check_limits(engine, memory)
    check_choice("unmatched_deletes", unmatched_deletes, ("error", "count"))
    _check_order(maintain_order)
    if changes is not False:
        return _plan_of_changes(
            spec,
            left,
            right,
            changes,
            unmatched_deletes=unmatched_deletes,
            algorithm=algorithm,
            session=spark,
            left_order=left_order,
            right_order=right_order,
        )
    if unmatched_deletes != "error":
        raise SpecError(
            f"unmatched_deletes={unmatched_deletes!r} applies to change streams only. Pass changes=True, or drop it.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if not (is_stream(left) and is_stream(right)):
        _refuse_orders(left_order=left_order, right_order=right_order)
    check_algorithm(spec, algorithm, engine)
    if is_stream(left) or is_stream(right):
        from juncture.streams.spark import plan as on_streams

        return on_streams.plan(
            spec,
            left,
            right,
            algorithm=algorithm,
            session=spark,
            lazy=lazy,
            stats=stats,
            left_order=left_order,
            right_order=right_order,
        )
    if engine == "spark":
        from juncture.spark import plan as on_spark

        return on_spark.plan(spec, left, right, algorithm=algorithm, session=spark, lazy=lazy, stats=stats)
    from juncture.local import plan as in_process
    from juncture.local.resources import resources_here

    resources = replace(resources_here(memory), in_order=maintain_order is not None)
    return in_process.plan(
        spec, left, right, algorithm=algorithm, stats=stats, resources=resources, samples_few=samples_few
    )


def _plan_of_changes(
    spec: Spec,
    left: Any,
    right: Any,
    changes: bool | ChangeFormat,
    *,
    unmatched_deletes: Literal["error", "count"],
    algorithm: str,
    session: Any,
    **orders: Any,
) -> Plan:
    """Plan a join of change streams."""
    if not (is_stream(left) or is_stream(right)):
        raise PlanError(
            f"changes={changes!r} needs a streaming DataFrame on at least one side, but both sides are batch tables. "
            "Read the changes with spark.readStream, or apply them in this process with jn.changes(…).",
            name="JN-BATCH-INPUTS",
        )
    if changes is not True:
        check_choice("changes", changes, ("weight", "change_type", "debezium"))
    for name, value in orders.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} does not apply to change streams, whose rows are kept until they are deleted. "
                "Remove it.",
                name="JN-ARGUMENT-INAPPLICABLE",
            )
    if algorithm != "auto":
        raise PlanError(
            f"algorithm={algorithm!r} does not apply to change streams. Remove it.", name="JN-ARGUMENT-INAPPLICABLE"
        )
    from juncture.incremental.spark import plan as on_changes

    output: ChangeFormat = "weight" if isinstance(changes, bool) else changes
    return on_changes.plan(spec, left, right, output=output, unmatched_deletes=unmatched_deletes, session=session)


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


def _refuse_orders(**orders: Any) -> None:
    """Refuse orders of batch tables."""
    for name, value in orders.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} applies only if both sides are streaming DataFrames. Remove it.",
                name="JN-ARGUMENT-INAPPLICABLE",
            )


def refuse_unknown(function: Callable[..., Any], unknown: dict[str, Any]) -> None:
    """Refuse arguments of other libraries and misspelled names, with a hint."""
    for name, value in unknown.items():
        known = [each for each in signature(function).parameters if each != "unknown"]
        hint = argument_hint(name, known) or did_you_mean(name, known)
        raise SpecError(f"{function.__name__}() has no argument {name}={value!r}. {hint}", name="JN-ARGUMENT-UNKNOWN")
