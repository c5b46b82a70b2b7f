"""A simulated join of two tables: its partitions, carryover, driver memory and chosen algorithm."""

from __future__ import annotations

import pickle
import resource
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import juncture as jn
from juncture.planner.algorithm import PlanningInput
from juncture.planner.choose import choose
from juncture.planner.statistics import KeySample, Resources, SideStats, Stats, sampled_from
from juncture.spark.asof.plan import LEFT_WEIGHT, asof_placements
from juncture.spark.exchange import partition_count
from juncture.spark.statistics import SampledRanges, balanced_by, sample_rows
from juncture.spark.tasks.cuts import Cuts, KeyRanges, balanced_cuts
from juncture.spark.tasks.feed import Unit
from juncture.spark.tasks.placement import Coding, Placement
from juncture_benchmarks.scale.tables import SHAPES, Table, hashes_of

ROW_BYTES = 40
CORES_PER_EXECUTOR = 4
TASK_BYTES = 2 << 30

_SHARE_BYTES = 128 << 20
_ROW_GROUP_ROWS = 1_000_000


@dataclass(frozen=True)
class Outcome:
    """The results for one pair of tables.

    Attributes
    ----------
    shape, rows
        Distribution of keys and times, and the rows of each side.
    algorithm, cost_s
        The planner's choice, and its estimated cost.
    partitions, largest, split_keys
        Number of partitions of ``range``, ratio of the largest to the median, and number of keys that are cut.
    carryover_rows, carryover_bytes
        The most that crosses cuts, were the rows of every key in every file.
    sampled_rows, driver_bytes
        The rows that the driver gets to see, and by how much they and the cuts made its process grow.
    stage_bytes
        The routing information of one task of a stage.
    """

    shape: str
    rows: int
    algorithm: str
    cost_s: float
    partitions: int
    largest: float
    split_keys: int
    carryover_rows: int
    carryover_bytes: int
    sampled_rows: int
    driver_bytes: int
    stage_bytes: int


def simulate(shape: str, rows: int, executors: int) -> dict[str, Any]:
    """Return what an as-of join of two tables would be like, as plain data.

    Parameters
    ----------
    shape
        One of `SHAPES`.
    rows
        Of each side.
    executors
        The number of executors, with the cores and task memory that this module defines.

    Notes
    -----
    The growth of the process is correct only in a new process.
    """
    resources = Resources(cores=CORES_PER_EXECUTOR * executors, memory_bytes=TASK_BYTES)
    make_keys, make_clock = SHAPES[shape]
    keys = make_keys()
    table = Table(rows, keys, make_clock())
    by = None if keys is None else "k"
    schema = pa.schema([("ts", pa.int64()), *([] if by is None else [("k", pa.int64())])])
    join = jn.Asof(on="ts", by=by).resolve(schema, schema)
    known = SideStats(rows=rows, row_bytes=ROW_BYTES)
    partitions = partition_count(Stats(left=known, right=known), resources, 200)
    wanted = sample_rows(partitions)
    drawn = [table.drawn(wanted, seed) for seed in (1, 2)]
    before = _peak_bytes()
    placements = asof_placements(join, Coding.of(join))
    left, right = (_sampled(rows, each, place) for each, place in zip(drawn, placements, strict=True))
    figures = [known if by is None else _learnt(known, sampled) for sampled in (left, right)]
    sample = balanced_by(left, right, left_weight=LEFT_WEIGHT)
    cuts = balanced_cuts(sample, partitions)
    grown = _peak_bytes() - before + sum(each.nbytes for each in drawn)
    stats = Stats(left=figures[0], right=figures[1])
    planning = PlanningInput(
        join=join, engine="spark", stats=stats, resources=resources, direct=True, partitions=partitions
    )
    choice = choose(planning)
    cost = next(option.cost_s for option in choice.options if option.algorithm == choice.algorithm)
    if choice.algorithm == "hash":
        cuts = balanced_cuts(sample, partitions, split_keys=False)
    # Both sides are alike, so the weights of their rows do not matter.
    sizes = np.diff(table.share_before(cuts), prepend=0.0, append=1.0)
    carried = carryover_rows(table, cuts)
    outcome = Outcome(
        shape=shape,
        rows=rows,
        algorithm=choice.algorithm,
        cost_s=cost or 0.0,
        partitions=cuts.partitions,
        largest=float(sizes.max() / np.median(sizes)),
        split_keys=len(cuts.split_hashes),
        carryover_rows=carried,
        carryover_bytes=carried * ROW_BYTES,
        sampled_rows=2 * wanted,
        driver_bytes=grown,
        stage_bytes=len(pickle.dumps((cuts, _shares(rows)))),
    )
    return asdict(outcome)


def carryover_rows(table: Table, cuts: Cuts) -> int:
    """Return how many rows cross cuts at most, if each left row takes one match from before it.

    A task sends one row of a key that is cut to each partition of the key behind one that it has rows of: at most to
    all but the first.
    """
    tasks = -(-table.rows * ROW_BYTES // _SHARE_BYTES)
    total = 0.0
    shares: dict[int, float] = {}
    if table.keys is not None:
        shares = dict(zip(hashes_of(len(table.keys)).tolist(), table.keys.tolist(), strict=True))
    for hashed in cuts.split_hashes.tolist():
        first, last = cuts.span(hashed)
        rows = table.rows * shares.get(hashed, 1.0)
        segment = rows / (last - first + 1)
        behind = np.arange(1, last - first + 1)
        total += float((tasks * -np.expm1(-behind * segment / tasks)).sum())
    return round(total)


def _sampled(rows: int, drawn: pa.Table, placement: Placement) -> SampledRanges:
    ranges = KeyRanges.concat([placement.ranges_of(drawn)])
    return SampledRanges(ranges, drawn.num_rows, rows / drawn.num_rows)


def _learnt(known: SideStats, sampled: SampledRanges) -> SideStats:
    rows = known.rows or 0
    counts = np.unique(sampled.ranges.hashes, return_counts=True)[1]
    figures, sources = KeySample(counts, sampled.sampled_rows, rows, sampled_from(sampled.sampled_rows, rows)).figures()
    return SideStats(rows=known.rows, row_bytes=known.row_bytes, provenance=dict(sources), **figures)


def _shares(rows: int) -> list[tuple[Unit, ...]]:
    """Return the files of a side as tasks receive them: one for each hundred row groups."""
    groups = -(-rows // _ROW_GROUP_ROWS)
    return [
        (Unit(f"/warehouse/table/part-{group // 100:05}.parquet", (group % 100,), bytes(32)),)
        for group in range(groups)
    ]


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
