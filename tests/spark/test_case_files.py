"""The case files through what Spark's tasks run, as plain functions, for each algorithm that joins in tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.planner.statistics import Resources
from juncture.spark.asof.plan import asof_placements, asof_stages
from juncture.spark.exchange import ShuffledJoin, needed_right
from juncture.spark.inequality.plan import inequality_placements, inequality_stages
from juncture.spark.tasks.asof import ChooseCandidates, ProbeLeft
from juncture.spark.tasks.cuts import Cuts, even_cuts
from juncture.spark.tasks.feed import Feed, send
from juncture.spark.tasks.join import JoinBroadcast
from juncture.spark.tasks.packets import Content, Packet, write_packets
from juncture.spark.tasks.placement import Coding, Placement
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.testing.asof import asof_join
from juncture.testing.output import with_computed
from spark.stages import arrived, collect, output_of, run, scattered
from support.cases import Case, read_cases
from support.engines import algorithms_on_spark, fits_spark, in_tasks
from support.tables import difference

MEMORY_BYTES = 1 << 20
TASKS = 2
RESOURCES = Resources(cores=TASKS, memory_bytes=MEMORY_BYTES)

ABLE = [
    (case, in_tasks(kind, algorithms_on_spark(case.resolved)))
    for kind in ("asof", "range", "overlap", "where")
    for case in read_cases(kind)
    if case.resolved is not None
    and case.no_spark is None
    and fits_spark(case.left.schema)
    and fits_spark(case.right.schema)
]


@pytest.mark.parametrize(
    ("case", "algorithm"),
    [
        # Every case in each run, and by each algorithm in a nightly one.
        pytest.param(
            case,
            algorithm,
            marks=pytest.mark.nightly if (number + turn) % min(2, len(algorithms)) else [],
            id=f"{case}-{algorithm}",
        )
        for number, (case, algorithms) in enumerate(ABLE)
        for turn, algorithm in enumerate(algorithms)
    ],
)
def test_in_tasks(case: Case, algorithm: str):
    assert case.resolved is not None
    if case.error is not None:
        with pytest.raises(case.error):
            joined(case.resolved, case.left, case.right, algorithm)
        return
    answer = joined(case.resolved, case.left, case.right, algorithm)
    assert difference(answer, case.expected, ordered=False) is None


def joined(join: Resolved, left: pa.Table, right: pa.Table, algorithm: str) -> pa.Table:
    """Return the rows of a join whose tasks run in turn."""
    left, right = with_computed(join, left, right)
    if algorithm == "broadcast":
        return with_whole_right(join, left, right)
    if algorithm == "broadcast_left":
        return with_whole_left(join, left, right)
    return run(shuffled_stages(join, left, right, algorithm), left, right, TASKS)


def shuffled_stages(join: Resolved, left: pa.Table, right: pa.Table, algorithm: str) -> ShuffledJoin:
    if isinstance(join, ResolvedAsof):
        coding = Coding.of(join)
        placements = asof_placements(join, coding)
        cuts = even_cuts(3) if algorithm == "hash" else cuts_at_rows(placements, left, right)
        return asof_stages(join, coding, cuts, output_of(join), RESOURCES)
    placements = inequality_placements(join)
    assert placements is not None
    return inequality_stages(join, placements, cuts_at_rows(placements, left, right), output_of(join), RESOURCES)


def cuts_at_rows(placements: tuple[Placement, Placement], left: pa.Table, right: pa.Table) -> Cuts:
    """Return cuts at every third row of both sides, so that they split keys wherever these have several."""
    rows = set()
    for table, placement in zip((left, right), placements, strict=True):
        ranges = placement.ranges_of(table)
        ranges = ranges.take(ranges.valid)
        rows |= set(zip(ranges.hashes.tolist(), ranges.first.tolist(), strict=True))
    cuts = sorted(rows)[1::3]
    return Cuts(*(np.array([cut[i] for cut in cuts], kind) for i, kind in enumerate((np.uint64, np.int64))))


def with_whole_right(join: Resolved, left: pa.Table, right: pa.Table) -> pa.Table:
    if isinstance(join, ResolvedAsof):
        seen: Resolved = join.for_tasks().over(join.left_schema, needed_right(join))
    else:
        seen = replace(join, right_schema=needed_right(join))

    def stage(feed: Feed) -> JoinBroadcast:
        return JoinBroadcast(feed, seen, send(right), "right", memory_bytes=MEMORY_BYTES, output=output_of(join))

    return collect(scattered(stage, left, TASKS), join)


def with_whole_left(join: Resolved, left: pa.Table, right: pa.Table) -> pa.Table:
    needed = right.select(needed_right(join).names)
    if isinstance(join, ResolvedAsof):
        in_task, sent_left = join.for_tasks(), send(left)

        def probe(feed: Feed) -> ProbeLeft:
            return ProbeLeft(feed, in_task, sent_left, RESOURCES.cores, memory_bytes=RESOURCES.memory_bytes)

        memory_bytes, output = RESOURCES.memory_bytes, output_of(join)
        chosen = ChooseCandidates(
            in_task, sent_left, needed.schema, RESOURCES.cores, memory_bytes=memory_bytes, output=output
        )
        sent = list(write_packets(Packet(target, Content.EMPTY, pa.table({})) for target in range(TASKS)))
        partitions = arrived([*sent, *scattered(probe, needed, TASKS)], TASKS)
        return collect([batch for partition in partitions for batch in chosen(partition)], join)

    def stage(feed: Feed) -> JoinBroadcast:
        return JoinBroadcast(feed, join, send(left), "left", memory_bytes=MEMORY_BYTES, output=output_of(join))

    return collect(scattered(stage, needed, TASKS), join)


@pytest.mark.parametrize(
    "spec",
    [
        jn.Asof(on="ts", left_by=jn.expr("a + 1"), right_by="k"),
        jn.Asof(on="ts", left_by="a", right_by="k", where="r.k > l.ts"),
    ],
    ids=["in the output", "in a condition"],
)
@pytest.mark.parametrize("algorithm", ["hash", "broadcast", "broadcast_left"])
def test_right_keys_that_are_used_after_the_match(spec, algorithm):
    left, right = (
        pa.table({"ts": [1, 2, 3], "a": [1, 2, 4]}),
        pa.table({"ts": [0, 1, 2], "k": [2, 3, 4], "v": [5, 6, 7]}),
    )
    join = spec.resolve(left.schema, right.schema)
    assert difference(joined(join, left, right, algorithm), asof_join(join, left, right), ordered=False) is None
