"""Joins of rows that lie near each other, in tasks: ``range``, ``broadcast`` and ``broadcast_left``.

With ``range`` both sides are shuffled once into partitions that are ranges of (key hash, place), and a row goes to all
that it touches. Only rows near a cut, or long ones, have copies. What a partition cannot know alone, whether a row with
copies has a match elsewhere, takes a second shuffle of such rows and no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.predicate.language.nodes import columns
from juncture.spark.exchange.exchange import finish, packets, shuffled
from juncture.spark.exchange.partition import Cuts
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import Side
from juncture.spark.result import task_output
from juncture.spark.tasks.broadcast import WholeLeft, WholeRight
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.inequality.aggregate import Aggregate, Recall
from juncture.spark.tasks.inequality.join import Meet, Meeting
from juncture.spark.tasks.inequality.join import Side as SideName
from juncture.spark.tasks.inequality.mark import Decide, Judge
from juncture.spark.tasks.inequality.placement import Places
from juncture.spark.tasks.inequality.replicate import LEFT, RIGHT, Spread
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.scatter import encoded
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.where import ResolvedWhere

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["Stages", "join_range", "join_whole_left", "join_whole_right", "needed_right", "stages_of"]


@dataclass(frozen=True)
class Stages:
    """What tasks do, stage by stage.

    Attributes
    ----------
    meeting
        What they know of the join.
    met
        What a partition gives at once; None where all has to be judged first.
    judged, decided
        What it gives after a second shuffle, in two steps; None where nothing is left.
    """

    meeting: Meeting
    met: Meet | None
    judged: Judge | Recall | None
    decided: Decide | Aggregate | None

    def left(self, feed: Feed) -> Spread:
        """Return what sends left rows to their partitions, given where they come from."""
        keeps = self.meeting.join.how in ("left", "full", "anti")
        return Spread(feed, LEFT, self.meeting.join.left_by, self.meeting.left, self.meeting.cuts, keeps)

    def right(self, feed: Feed) -> Spread:
        """Return what sends right rows to their partitions, given where they come from."""
        keeps = self.meeting.join.how in ("right", "full")
        return Spread(feed, RIGHT, self.meeting.join.right_by, self.meeting.right, self.meeting.cuts, keeps)


def stages_of(join: Resolved, places: tuple[Places, Places], cuts: Cuts, output: Output, memory_bytes: int) -> Stages:
    """Return what the tasks of a join do.

    Parameters
    ----------
    join
        The join.
    places, cuts
        Where the rows of both sides lie, and where partitions end.
    output
        What Spark expects of the last stage.
    memory_bytes
        What a task may hold.
    """
    left = encoded(join.left_schema, join.left_by)
    right = encoded(pa.schema([join.right_schema.field(name) for name in needed_right(join)]), join.right_by)
    meeting = Meeting(replace(join, left_schema=left, right_schema=right), *places, cuts, memory_bytes)
    is_split = len(cuts.split_hashes) > 0
    if is_split and join.aggregates:
        return Stages(meeting, None, Recall(meeting), Aggregate(meeting, output))
    sides = _judged_sides(join) if is_split else ()
    met = None if join.how in ("semi", "anti") and sides else Meet(meeting, output)
    if not sides:
        return Stages(meeting, met, None, None)
    return Stages(meeting, met, Judge(meeting, sides), Decide(meeting, output))


def _judged_sides(join: Resolved) -> tuple[SideName, ...]:
    """Return the sides whose rows may have copies, and where it counts whether they have a match."""
    sides: list[SideName] = ["left"] if join.how in ("left", "full", "semi", "anti") else []
    # The right rows of a range join lie at one place each.
    if join.how in ("right", "full") and not isinstance(join, ResolvedRange):
        sides.append("right")
    return tuple(sides)


def join_range(
    join: Resolved,
    left: Side,
    right: Side,
    *,
    places: tuple[Places, Places],
    cuts: Cuts,
    memory_bytes: int,
    schema: StructType,
) -> DataFrame:
    """Return the result of a join whose partitions are given.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    places, cuts
        Where rows lie, and where partitions end.
    memory_bytes
        What a task may hold.
    schema
        Of the result.
    """
    stages = stages_of(join, places, cuts, task_output(schema), memory_bytes)
    left_frame, left_feed = left.rows(left.schema.names, join.left_by)
    right_frame, right_feed = right.rows(needed_right(join), join.right_by)
    sent = packets(left_frame, stages.left(left_feed)).union(packets(right_frame, stages.right(right_feed)))
    arrived = shuffled(sent, cuts.partitions)
    results = [finish(arrived, stages.met, schema)] if stages.met is not None else []
    if stages.judged is not None and stages.decided is not None:
        judged = shuffled(packets(arrived, stages.judged), cuts.partitions)
        results.append(finish(judged, stages.decided, schema))
    return results[0] if len(results) == 1 else results[0].union(results[1])


def join_whole_right(
    join: Resolved, left: Side, right: Side, schema: StructType, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose right side goes to every task, and the jobs that this took.

    Raises
    ------
    PlanError
        If the right side is too large to be sent.
    """
    needed = needed_right(join)
    small, jobs = broadcast_side(right, needed, "right")
    frame, feed = left.rows(left.schema.names, join.left_by)
    shown = replace(join, right_schema=pa.schema([join.right_schema.field(name) for name in needed]))
    return finish(frame, WholeRight(shown, feed, small, memory_bytes, task_output(schema)), schema), jobs


def join_whole_left(
    join: Resolved, left: Side, right: Side, schema: StructType, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose left side goes to every task, and the jobs that this took.

    Raises
    ------
    PlanError
        If the left side is too large to be sent.
    """
    small, jobs = broadcast_side(left, left.schema.names, "left")
    frame, feed = right.rows(needed_right(join), join.right_by)
    return finish(frame, WholeLeft(join, feed, small, memory_bytes, task_output(schema)), schema), jobs


def needed_right(join: Resolved) -> list[str]:
    """Return the right columns that a join has to see."""
    wanted = set(join.right_by) | _matching(join)
    if join.how not in ("semi", "anti"):
        wanted |= {each.column for each in join.aggregates if each.column is not None}
        if not join.aggregates or any(each.function in ("first", "last") for each in join.aggregates):
            wanted |= set(join.right_schema.names)
    return [name for name in join.right_schema.names if name in wanted]


def _matching(join: Resolved) -> set[str]:
    """Return the right columns that decide matches, besides the keys."""
    if isinstance(join, ResolvedRange):
        return {join.right_on}
    if isinstance(join, ResolvedOverlap):
        return {name for name in join.right_interval if name is not None}
    assert isinstance(join, ResolvedWhere)
    return {column.name for column in columns(join.predicate) if column.side == "right"}
