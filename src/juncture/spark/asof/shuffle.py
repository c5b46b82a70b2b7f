"""As-of joins in tasks with one shuffle: ``hash``, ``range`` and ``broadcast_left``.

Tasks read both sides once and split their rows into packets for partitions, which are ranges of (key hash, ``on``) of
even size by a sample. With ``hash`` all cuts fall between keys. With ``range`` a hot key spans several partitions, and
tasks also send the boundary rows that those need (`juncture.spark.tasks.asof`), in the same pass.

With ``broadcast_left``, each task probes its right rows with the whole left side and sends its best candidates. The
shuffle brings the candidates of a left row together, and the best one matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.planner.statistics import Resources
from juncture.spark.exchange import (
    ShuffledJoin,
    packet_schemas,
)
from juncture.spark.tasks.asof import (
    Carryover,
    ChooseCandidates,
    JoinAndMark,
    ProbeLeft,
    ScatterWithCarryover,
    candidates,
)
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.feed import BroadcastTable, Feed
from juncture.spark.tasks.join import JoinPartition, ResolveUnmatched
from juncture.spark.tasks.placement import Coding, Placement
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import Limit, MatchInterval

if TYPE_CHECKING:
    pass


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
    join: ResolvedAsof, coding: Coding, cuts: Cuts, output: pa.Schema, resources: Resources
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


def probe_stages(
    join: ResolvedAsof, left: BroadcastTable, output: pa.Schema, resources: Resources
) -> tuple[Callable[[Feed], ProbeLeft], Callable[[pa.Schema], ChooseCandidates]]:
    """Return functions that make the two stages of ``broadcast_left``.

    The first makes the probe stage from the feed of right rows, the second the choosing stage from the right schema.
    """
    seen = join.for_tasks()
    matching, targets, memory_bytes = join.compared("left"), resources.cores, resources.memory_bytes
    names = tuple(column.name for column in join.output)

    def probe(feed: Feed) -> ProbeLeft:
        return ProbeLeft(feed, seen, left, matching, targets, memory_bytes=memory_bytes)

    def choose(right: pa.Schema) -> ChooseCandidates:
        found = candidates(right, seen)
        return ChooseCandidates(seen, left, found, targets, names, memory_bytes=memory_bytes, output=output)

    return probe, choose
