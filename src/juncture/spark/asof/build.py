"""As-of joins on Spark: the algorithms behind one function."""

from __future__ import annotations

from juncture.errors import PlanError
from juncture.planner.stats import Resources, Stats
from juncture.spark.asof.broadcast import join_broadcast_left
from juncture.spark.asof.native import join_native
from juncture.spark.asof.shuffle import asof_stages, task_spec
from juncture.spark.asof.window import join_window
from juncture.spark.exchange.broadcast_join import join_broadcast_right
from juncture.spark.exchange.partition import Cuts, Sample, balanced_cuts, even_cuts
from juncture.spark.exchange.shuffled_join import needed_right
from juncture.spark.input.files import in_sql
from juncture.spark.input.frame import Side
from juncture.spark.query import SHUFFLE_PARTITIONS, Built, partition_count
from juncture.spark.result import result_schema, task_output
from juncture.spark.tasks.placement import Coding
from juncture.spec.asof import ResolvedAsof

__all__ = ["build"]


def build(
    join: ResolvedAsof,
    left: Side,
    right: Side,
    *,
    algorithm: str,
    stats: Stats,
    resources: Resources,
    sample: Sample | None = None,
    cuts: Cuts | None = None,
) -> Built:
    """Build a join with one algorithm.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    algorithm
        Its name, as in `juncture.planner.asof.ASOF`.
    stats, resources
        What is known of the inputs, and what may be used.
    sample
        Rows of both sides, which ``range`` needs.
    cuts
        Where to cut ``range``'s partitions, instead of by the sample.

    Raises
    ------
    PlanError
        If the algorithm cannot run this join after all: a side is too large to be sent, or types have no common type
        in SQL.
    DataError
        If a file cannot be read.
    """
    schema = result_schema(join, left, right)
    if algorithm == "broadcast":
        seen = task_spec(join).resolve(join.left_schema, needed_right(join))
        frame, jobs = join_broadcast_right(seen, left, right, schema, memory_bytes=resources.memory_bytes)
        return Built(frame, tuple(jobs))
    if algorithm == "broadcast_left":
        frame, jobs = join_broadcast_left(
            join, left, right, schema, cores=resources.cores, memory_bytes=resources.memory_bytes
        )
        return Built(frame, tuple(jobs))
    if algorithm in ("hash", "range"):
        if cuts is None:
            shuffle_partitions = int(left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
            count = partition_count(stats, resources, shuffle_partitions)
            cuts = even_cuts(count) if algorithm == "hash" else balanced_cuts(_needed(sample), count)
        stages = asof_stages(join, Coding.of(join), cuts, task_output(schema), resources.memory_bytes)
        return Built(stages.frame(left, right, schema), details=(("partitions", _describe(cuts)),))
    return Built((join_window if algorithm == "window" else join_native)(*in_sql(join, left, right)))


def _needed(sample: Sample | None) -> Sample:
    if sample is None:
        raise PlanError("algorithm='range' needs a sample of both sides, which lazy=True forbids. Pass 'hash'.")
    return sample


def _describe(cuts: Cuts) -> str:
    split = len(cuts.split_hashes)
    keys = {0: "no key is", 1: "one key is"}.get(split, f"{split} keys are")
    return f"{cuts.partitions}; {keys} split among several"
