"""Cost constants of in-process joins, from joins of generated tables that isolate one step each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from juncture.joins.planning import plan
from juncture.planner.memory import HELD_ROW_BYTES
from juncture.runtime.threads import available_cores
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.kinds import Spec
from juncture.spec.range import Range
from juncture.spec.where import Where

_TRIES = 3
_WIDE = 20  # matches per row in tables that measure the cost of matches
_DISTANCE = 1_000_003  # how far keys are apart that need a hash table
_LITTLE_MEMORY = "64MB"  # a memory limit that a million rows exceed


def measure_local(report: Callable[[str], object] = str, *, rows: int = 1_000_000) -> dict[str, float]:
    """Return constants of `juncture.planner.constants.Constants`, by name.

    Takes some seconds for each million of `rows` on two cores. Each time is the shortest of three. Joins that compare
    all pairs use twice the square root of `rows`. `report` is called with the name of each step.
    """
    generator, few = np.random.default_rng(1), max(rows // 1_000, 1)
    large, second, small = (_table(generator, count, rows) for count in (rows, rows, few))
    report("as-of joins")
    order_ns = _core_ns(large, small, Asof(on="at", by="key"), "probe") / rows
    probe_ns, merge_ns = (
        _core_ns(small, large, Asof(on="at", by="key"), algorithm) / rows for algorithm in ("probe", "merge")
    )
    ordered = large.sort_by("at")
    pass_ns = _core_ns(ordered, ordered, Asof(on="at", by="key"), "merge") / (2 * rows)
    report("range joins")
    one_each = _core_ns(large, second, Range(on="place", lower=0, upper=0), "binary_search")
    many_each = _core_ns(large, second, Range(on="place", lower=0, upper=_WIDE), "binary_search")
    span_pair_ns = max(many_each - one_each, 0.0) / (rows * _WIDE)
    arrange_ns = (one_each - rows * span_pair_ns) / (2 * rows)
    report("predicate joins")
    side = 2 * int(rows**0.5)
    crowd, others = _table(generator, side, rows), _table(generator, side, rows)
    # No block can be skipped by its bounds, and few pairs match.
    residual = Where("l.at * r.odd = r.at * l.odd + 1", allow_cross=True)
    nested_pair_ns, block_pair_ns = (
        _core_ns(crowd, others, residual, algorithm) / side**2 for algorithm in ("nested_loop", "block_nested_loop")
    )
    report("equality joins")
    by_keys = _equality(*(table.select(["at", "place"]) for table in (large, second, small)))
    measured = by_keys | {
        "order_ns": order_ns,
        "probe_ns": probe_ns,
        "merge_ns": merge_ns,
        "pass_ns": pass_ns,
        "arrange_ns": arrange_ns,
        "span_pair_ns": span_pair_ns,
        "block_pair_ns": block_pair_ns,
        "nested_pair_ns": nested_pair_ns,
    }
    # The difference of two times may be zero or negative.
    return {name: max(value, 0.1) for name, value in measured.items()}


def _equality(large: pa.Table, second: pa.Table, small: pa.Table) -> dict[str, float]:
    """Return the constants of equality joins, by distinct integers."""
    rows, cores, join = large.num_rows, available_cores(), Equi(on="place")
    dense_key_ns = _core_ns(large, second, join, "hash") / (2 * rows)
    large, second, small = (_with_distant_keys(table) for table in (large, second, small))
    # Each row of the large table also matches in the small one.
    near = pa.table({"at": large["at"], "place": np.resize(small["place"].to_numpy(), rows)})
    hashed, in_one_piece = _core_ns(near, small, join, "hash"), _core_ns(large, second, join, "hash")
    equi_probe_ns = hashed / rows
    in_pieces, on_disk = (_core_ns(large, second, join, "grace", memory) for memory in (None, _LITTLE_MEMORY))
    return {
        "dense_key_ns": dense_key_ns,
        "equi_probe_ns": equi_probe_ns,
        "hash_build_ns": (in_one_piece - 2 * rows * equi_probe_ns) / (rows * cores),
        "partition_ns": (_core_ns(near, small, join, "parallel_hash") - hashed) / rows,
        "merge_left_ns": _core_ns(near, small, join, "sort_merge") / rows,
        "merge_right_ns": _core_ns(small, near, join, "sort_merge") / rows,
        "restore_ns": (in_pieces - in_one_piece) / rows,
        "spill_ns": (on_disk - in_pieces) / (large.nbytes + second.nbytes + 2 * rows * HELD_ROW_BYTES),
    }


def _with_distant_keys(table: pa.Table) -> pa.Table:
    """Return a table whose keys are so far apart that they need a hash table."""
    return pa.table({"at": table["at"], "place": table["place"].to_numpy() * _DISTANCE})


def _table(generator: np.random.Generator, rows: int, keys: int) -> pa.Table:
    """Return rows in random order, with a number that differs by 1 between neighbours."""
    index = generator.permutation(rows)
    # Text keys, the common case; integers would be cheaper.
    names = pa.array([f"key {number}" for number in range(max(keys // 1_000, 1))])
    return pa.table(
        {
            "at": generator.integers(0, 1 << 40, rows),
            "place": index,
            "key": names.take(pa.array(generator.integers(0, len(names), rows))),
            "odd": 2 * index + 1,
        }
    )


def _core_ns(left: pa.Table, right: pa.Table, spec: Spec, algorithm: str, memory: str | None = None) -> float:
    """Return the core-nanoseconds of a join: the shortest of several runs, since the first one compiles."""
    ready = plan(left, right, spec, algorithm=algorithm, memory=memory)
    return min(ready.analyze().measured.duration_s for _ in range(_TRIES)) * available_cores() * 1e9
