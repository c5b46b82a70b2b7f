"""As-of joins with one shuffle: ``hash`` and ``range``.

Tasks read both sides once and split their rows into packets for partitions, which are ranges of (key hash, ``on``) of
even size by a sample. With ``hash`` all cuts fall between keys. With ``range`` a hot key spans several partitions, and
tasks also send the boundary rows that those need (`juncture.spark.tasks.asof.boundary`), in the same pass.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from juncture.planner.statistics import Resources
from juncture.spark.exchange.shuffled_join import ShuffledJoin, packet_schemas
from juncture.spark.tasks.asof.boundary import Carryover, ScatterWithCarryover
from juncture.spark.tasks.asof.mark import JoinAndMark
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.join import JoinPartition
from juncture.spark.tasks.output import TaskOutput
from juncture.spark.tasks.placement import Coding
from juncture.spark.tasks.unmatched import ResolveUnmatched
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import Limit, MatchInterval


def asof_placements(join: ResolvedAsof, coding: Coding) -> tuple[Placement, Placement]:
    """Return the placement of left and right rows."""
    left_limits, right_limits = (
        (Limit(on, upper=False), Limit(on, upper=True)) for on in (join.left_on, join.right_on)
    )
    interval = MatchInterval(left_limits, right_limits, join.domain)
    return (
        Placement("left", join.left_by, coding, interval, tuple(dict.fromkeys((*join.left_by, join.left_on)))),
        Placement("right", join.right_by, coding, interval, tuple(dict.fromkeys((*join.right_by, join.right_on)))),
    )


def asof_stages(
    join: ResolvedAsof, coding: Coding, cuts: Cuts, output: TaskOutput, resources: Resources
) -> ShuffledJoin:
    """Return the stages of the join's tasks, given the placement of rows and the result's schema."""
    in_packets, placements = join.for_tasks().over(*packet_schemas(join)), asof_placements(join, coding)
    spec, memory_bytes = in_packets.spec, resources.memory_bytes
    stages = ShuffledJoin(join=join, placements=placements, cuts=cuts, memory_bytes=memory_bytes)
    if len(cuts.split_hashes) == 0:
        return replace(stages, joined=JoinPartition(in_packets, output=output, memory_bytes=memory_bytes))
    # One more row than needed reveals a tie.
    count = spec.matches + (spec.ties == "error")
    carryover = Carryover(
        join.right_by,
        join.right_on,
        join.domain,
        in_packets.tie_columns,
        count,
        join.directions,
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
