"""As-of joins with one shuffle: ``hash`` and ``range``.

Tasks read both sides once, and cut their rows into packets for the partitions that they go to: ranges of (key hash,
``on``), which divide a sample evenly. With ``hash`` all cuts fall between keys. With ``range`` a hot key spans many
partitions; then each task also sends the boundary rows that these have to know of one another, found in the same
pass (see `juncture.spark.tasks.asof.boundary`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from juncture.planner.statistics import Resources
from juncture.spark.exchange.partition import Cuts
from juncture.spark.exchange.shuffled_join import ShuffledJoin, packet_schemas
from juncture.spark.tasks.asof.boundary import Carryover, ScatterWithCarryover, Seen
from juncture.spark.tasks.asof.mark import JoinAndMark
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.join import JoinPartition
from juncture.spark.tasks.output import TaskOutput
from juncture.spark.tasks.placement import Coding
from juncture.spark.tasks.unmatched import ResolveUnmatched
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import Limit, MatchInterval

_SEEN: dict[str, tuple[Seen, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "nearest": ("backward", "forward"),
}


def asof_placements(join: ResolvedAsof, coding: Coding) -> tuple[Placement, Placement]:
    """Return what tells tasks where the rows of both sides lie."""
    ours, theirs = ((Limit(on, upper=False), Limit(on, upper=True)) for on in (join.left_on, join.right_on))
    interval = MatchInterval(ours, theirs, join.domain)
    return (
        Placement("left", join.left_by, coding, interval, tuple(dict.fromkeys((*join.left_by, join.left_on)))),
        Placement("right", join.right_by, coding, interval, tuple(dict.fromkeys((*join.right_by, join.right_on)))),
    )


def task_join(join: ResolvedAsof) -> ResolvedAsof:
    """Return the join as tasks take it, which see the needed right columns only, and rows in any order."""
    # Columns that are equal in a tie decide none.
    spec = replace(join.spec, order_by=[name for name in join.spec.order_columns() if name in join.tie_columns])
    if join.how in ("semi", "anti"):
        spec = replace(spec, order_by=(), ties="error" if spec.ties == "error" else "greatest")
    elif spec.ties == "first":
        # What decides may be left out of what they see; that some column does must not.
        spec = replace(spec, order_by=(*spec.order_columns(), join.right_on))
    elif spec.ties == "last":
        spec = replace(spec, ties="greatest")
    return replace(join, spec=spec)


def asof_stages(
    join: ResolvedAsof, coding: Coding, cuts: Cuts, output: TaskOutput, resources: Resources
) -> ShuffledJoin:
    """Return what the tasks of a join do.

    Parameters
    ----------
    join
        The join.
    coding, cuts
        How rows are placed.
    output
        What Spark expects of the last stage.
    resources
        What a task may hold, among others.
    """
    in_packets, placements = task_join(join).over(*packet_schemas(join)), asof_placements(join, coding)
    spec, memory_bytes = in_packets.spec, resources.memory_bytes
    stages = ShuffledJoin(join=join, placements=placements, cuts=cuts, memory_bytes=memory_bytes)
    if len(cuts.split_hashes) == 0:
        return replace(stages, joined=JoinPartition(in_packets, output=output, memory_bytes=memory_bytes))
    # One row more than are taken shows whether a tie had to be decided.
    count = spec.matches + (spec.ties == "error")
    carryover = Carryover(
        join.right_by,
        join.right_on,
        in_packets.tie_columns,
        count,
        _SEEN[spec.direction],
        least_wins=spec.ties == "first",
        nulls_equal=join.nulls_equal,
    )
    stages = replace(stages, scatter_right=partial(ScatterWithCarryover, carryover=carryover))
    if join.how not in ("right", "full"):
        return replace(stages, joined=JoinPartition(in_packets, output=output, memory_bytes=memory_bytes))
    return replace(
        stages,
        marked=JoinAndMark(in_packets, placements[1], cuts, carryover, memory_bytes=memory_bytes),
        resolved=ResolveUnmatched(in_packets, output=output, memory_bytes=memory_bytes),
    )
