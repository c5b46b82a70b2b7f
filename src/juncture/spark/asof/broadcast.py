"""As-of joins that send one side to every task: ``broadcast`` and ``broadcast_left``.

A small DataFrame is collected when the join is built, and goes along with the tasks' code; a small table in files is
read by each task.

With ``broadcast`` the right side is small: the left rows stream past it, and never move. With ``broadcast_left`` the
left side is: each task probes it with its own part of the right side, and sends on what is best for each left row; one
shuffle of these brings the candidates of a left row together, and the best of them wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.spark.asof.shuffle import needed_right
from juncture.spark.exchange.exchange import finish, packets, placeholders, shuffled
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import Side
from juncture.spark.result import task_output
from juncture.spark.tasks.asof.broadcast import Choose, JoinRight, ProbeLeft, candidates
from juncture.spark.tasks.broadcast_table import Small
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.output import Output
from juncture.spec.asof import Asof, ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["join_broadcast", "join_broadcast_left", "probe_stages", "task_spec"]


def join_broadcast(
    join: ResolvedAsof, left: Side, right: Side, schema: StructType, *, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose right side goes to every task, and the jobs that this took.

    Raises
    ------
    PlanError
        If the right side is too large to be sent.
    """
    columns = needed_right(join)
    small, jobs = broadcast_side(right, columns, "right")
    frame, feed = left.rows(left.schema.names, join.left_by)
    work = JoinRight(task_spec(join), feed, small, tuple(columns), memory_bytes, task_output(schema))
    return finish(frame, work, schema), jobs


def join_broadcast_left(
    join: ResolvedAsof, left: Side, right: Side, schema: StructType, *, cores: int, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose left side goes to every task, and the jobs that this took.

    Raises
    ------
    PlanError
        If the left side is too large to be sent.
    """
    small, jobs = broadcast_side(left, left.schema.names, "left")
    probe, choose = probe_stages(join, small, task_output(schema), cores, memory_bytes)
    frame, feed = right.rows(needed_right(join), join.right_by)
    # Partitions that nothing was found for have to speak for their left rows, too.
    sent = placeholders(left.session, cores).union(packets(frame, probe(feed)))
    return finish(shuffled(sent, cores), choose(feed.schema), schema), jobs


def probe_stages(
    join: ResolvedAsof, left: Small, output: Output, targets: int, memory_bytes: int
) -> tuple[Callable[[Feed], ProbeLeft], Callable[[pa.Schema], Choose]]:
    """Return what the tasks of ``broadcast_left`` do, given where right rows come from, and what they look like."""
    spec = task_spec(join)
    tolerance = join.tolerance.column if join.tolerance is not None else None
    matching = dict.fromkeys((join.left_on, *join.left_by, *([tolerance] if tolerance else [])))
    names = tuple(column.name for column in join.output)

    def probe(feed: Feed) -> ProbeLeft:
        return ProbeLeft(spec, feed, join.right_by, left, tuple(matching), targets, memory_bytes)

    def choose(right: pa.Schema) -> Choose:
        return Choose(spec, left, candidates(right, join.right_by, join.right_on), targets, names, memory_bytes, output)

    return probe, choose


def task_spec(join: ResolvedAsof) -> Asof:
    """Return the spec as tasks take it, which see the needed right columns only."""
    return replace(join.spec, order_by=()) if join.spec.how in ("semi", "anti") else join.spec
