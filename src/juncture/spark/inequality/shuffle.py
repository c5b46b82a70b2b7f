"""Range, overlap and predicate joins with one shuffle: ``range``.

Both sides are shuffled once into partitions that are ranges of (key hash, code), and a row goes to all partitions that
it touches. Only rows around a cut, and long rows, are copied. A second shuffle, of such rows only, finds whether a
copied row matches in another partition.
"""

from __future__ import annotations

from dataclasses import replace

from juncture.planner.statistics import Resources
from juncture.spark.exchange import ShuffledJoin, packet_schemas
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.inequality import BoundaryAggregate, JoinPairs, MarkMatches
from juncture.spark.tasks.join import JoinPartition, ResolveUnmatched
from juncture.spark.tasks.placement import Placement
from juncture.spark.tasks.stage import TaskOutput
from juncture.spec.condition import ResolvedInequality
from juncture.spec.schema import Side


def inequality_placements(join: ResolvedInequality) -> tuple[Placement, Placement] | None:
    """Return the placement of left and right rows, or None if the condition limits no values."""
    left, right = Placement.of(join, "left"), Placement.of(join, "right")
    return None if left is None or right is None else (left, right)


def inequality_stages(
    join: ResolvedInequality,
    placements: tuple[Placement, Placement],
    cuts: Cuts,
    output: TaskOutput,
    resources: Resources,
) -> ShuffledJoin:
    """Return the stages of the join's tasks."""
    (left, right), memory_bytes = packet_schemas(join), resources.memory_bytes
    in_packets = replace(join, left_schema=left, right_schema=right)
    stages = ShuffledJoin(join=join, placements=placements, cuts=cuts, memory_bytes=memory_bytes)
    is_split = len(cuts.split_hashes) > 0
    if is_split and join.aggregates:
        return replace(
            stages,
            marked=BoundaryAggregate(in_packets, placements, cuts, memory_bytes=memory_bytes),
            resolved=JoinPartition(in_packets, memory_bytes=memory_bytes, output=output),
        )
    marked = _marked_sides(join) if is_split else ()
    if not marked or join.how not in ("semi", "anti"):
        stages = replace(stages, joined=JoinPairs(in_packets, memory_bytes=memory_bytes, output=output))
    if not marked:
        return stages
    return replace(
        stages,
        marked=MarkMatches(in_packets, placements, cuts, marked, memory_bytes=memory_bytes),
        resolved=ResolveUnmatched(in_packets, memory_bytes=memory_bytes, output=output),
    )


def _marked_sides(join: ResolvedInequality) -> tuple[Side, ...]:
    """Return the sides whose rows may be copied and whose matches must be known."""
    sides: list[Side] = ["left"] if join.how in ("left", "full", "semi", "anti") else []
    interval = join.condition.interval
    # Rows that are points have no copies.
    if join.how in ("right", "full") and (interval is None or not interval.is_point("right")):
        sides.append("right")
    return tuple(sides)
