"""Plans of joins: the spec says the kind of join, the inputs say where it runs."""

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
        The tables: as for `join_asof`, `join_range`, `join_overlap`, `join_where` and `join`.
    spec
        What the join means: an `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    algorithm
        ``"auto"`` (the default) lets the planner choose, among those that ``explain()`` lists. The answer is the same.
    spark
        A Spark session, to join paths on Spark: its tasks then read the files themselves.
    lazy
        Whether to forbid Spark jobs before the result is asked for. Hot keys are then not looked for.
    memory
        How much memory an in-process join may take, apart from a table that it returns, such as ``"2GB"``; by default a
        share of what this process may have. What does not fit goes to disk, in the folder that ``TMPDIR`` names.
    maintain_order
        ``"left"`` (the default) gives the rows of an in-process join in the order of the left rows. None gives them as
        they are found, which spares joins that hold the left side, or work on disk, to put them in order. On Spark rows
        have no order, whatever this says.
    stats
        What is known of the inputs, so that nobody has to look.
    left_order, right_order
        Where both are streaming DataFrames: the expression by which the rows of a side come, and how far one may be
        behind, as ``jn.Order("ts", delay="5s")``; or several of them. They say how long a row is held, and when a row
        of the result is final. A watermark that a stream has counts as its order.
    changes
        Whether streaming DataFrames hold changes of tables rather than rows: a column ``_weight``, a column
        ``_change_type``, or the columns ``op``, ``before`` and ``after`` say what comes and what goes. The result is
        the stream of changes of the join of these tables, with a column ``_weight``; ``"change_type"`` and
        ``"debezium"`` say them in the other ways.
    unmatched_deletes
        What becomes of deletes of rows that are not there, of two streams of changes: ``"error"``, or ``"count"``.

    Returns
    -------
    Plan
        ``explain()`` says what will run and why, ``execute()`` runs it.

    Raises
    ------
    SpecError, SchemaError, PlanError
        As these functions do. In-process at most 20,000 rows of each side are read; on Spark, unless ``lazy``, small
        jobs may run that count or sample the inputs, or collect a small side; ``explain()`` names them.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> table = pa.table({"ts": [1, 2]})
    >>> jn.plan(table, table, jn.Asof(on="ts", how="semi")).execute().to_pydict()
    {'ts': [1, 2]}
    """
    if type(spec) not in ALGORITHMS:
        known = ", ".join(f"juncture.{kind.__name__}(…)" for kind in ALGORITHMS)
        raise SpecError(f"spec={spec!r} ({type(spec).__name__}) is not a join. Expected one of {known}.")
    if stats is not None and not isinstance(stats, Stats):
        raise SpecError(
            f"stats={stats!r} is a {type(stats).__name__}. Expected what is known of both sides, as "
            "juncture.Stats(left=juncture.SideStats(rows=…), right=…)."
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
    return in_process.plan(spec, left, right, algorithm=algorithm, stats=stats, resources=resources)


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
    """Plan a join of changes.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    PlanError
        If no side is a stream, or an argument is about something else.
    """
    if not (is_stream(left) or is_stream(right)):
        raise PlanError(
            f"changes={changes!r} keeps the answer of a join up to date over streaming DataFrames, and neither side is "
            "one. In this process, jn.changes(…) takes changes epoch by epoch; on Spark, read the changes by "
            "spark.readStream."
        )
    if changes is not True:
        check_choice("changes", changes, ("weight", "change_type", "debezium"))
    for name, value in orders.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} says when the rows of a stream can go, and those of a table that changes go when "
                "they are deleted. Leave it out."
            )
    if algorithm != "auto":
        raise PlanError(f"algorithm={algorithm!r} joins no changes. Leave it out: which sides are streams decides.")
    from juncture.incremental.spark import plan as on_changes

    output: ChangeFormat = "weight" if isinstance(changes, bool) else changes
    return on_changes.plan(spec, left, right, output=output, unmatched_deletes=unmatched_deletes, session=session)


def join_by(kind: type[Spec], function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return the rows of a join that a function was called for.

    Parameters
    ----------
    kind
        The kind of join.
    function
        The function.
    arguments
        What it was given, by name: what the join means, and where and how it runs. Under ``unknown``, what it does not
        know.

    Raises
    ------
    JunctureError
        As the function says.
    """
    refuse_unknown(function, arguments.pop("unknown"))
    meaning = {field.name: arguments.pop(field.name) for field in fields(kind) if field.name in arguments}
    return plan(**arguments, spec=kind(**meaning)).execute()


def check_limits(engine: Engine, memory: str | int | None) -> None:
    """Refuse a limit of the memory where others manage it.

    Raises
    ------
    PlanError
        With what to do instead.
    """
    if memory is not None and engine == "spark":
        raise PlanError(f"memory={memory!r} limits joins in this process, and this one runs on Spark. Leave it out.")


def _check_order(value: object) -> None:
    """Refuse an order of the rows that no join gives.

    Raises
    ------
    SpecError
        With those there are.
    """
    if not (value is None or (isinstance(value, str) and value == "left")):
        raise SpecError(
            f"maintain_order={value!r} ({type(value).__name__}) is not known. Expected 'left', for the order of left "
            "rows, or None, for any. Swap the two tables for the order of the right ones."
        )


def _refuse_orders(**orders: Any) -> None:
    """Refuse orders of tables, which are read to their ends.

    Raises
    ------
    PlanError
        If there is one.
    """
    for name, value in orders.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} says what can still come of a stream, which bounds what a join of two streaming "
                "DataFrames holds, and not both sides of this one are such. Leave it out."
            )


def refuse_unknown(function: Callable[..., Any], unknown: dict[str, Any]) -> None:
    """Answer arguments of other libraries, and slips of the keyboard.

    Raises
    ------
    SpecError
        If there is any.
    """
    for name, value in unknown.items():
        known = [each for each in signature(function).parameters if each != "unknown"]
        hint = argument_hint(name, known) or did_you_mean(name, known)
        raise SpecError(f"{function.__name__}() has no argument {name}={value!r}. {hint}")
