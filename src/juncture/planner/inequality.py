"""The algorithms for range, overlap and predicate joins: what they do, cost and need, and what rules them out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from juncture.planner.algorithm import (
    Algorithm,
    Need,
    PlanningInput,
    Rule,
    broadcast,
    enter_ns,
    handed_ns,
    spread_s,
    terms,
)
from juncture.planner.decision import Engine
from juncture.planner.memory import ASSUMED_ROW_BYTES
from juncture.planner.rules import collects, fits_in_task, in_memory, keeps_right_rows, knows_left_rows, samples
from juncture.spec.schema import Side


def _has_partitions(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse partitions for conditions such as ``l.a > 3 OR r.b > 1``, which bring no rows together."""
    return None if planning.features.is_partitionable else "no condition determines a partition for each row."


def _aggregates_without_matches(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse ``agg=`` where Spark would make the matches first."""
    if not planning.join.aggregates:
        return None
    return "it would have to make all matches to aggregate them: broadcast and range aggregate without."


def _runs_in_sql(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse SQL where it lacks a type or function, such as a common type of two keys."""
    return planning.features.no_sql


def _has_keys(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse a join by keys for conditions such as ``l.a < r.b``, which has none."""
    if planning.features.has_keys:
        return None
    return "nothing has to be equal, so Spark would compare all pairs: that is nested_loop."


def _fills_bins(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse bins for open windows, as with ``lower=None``, and under ``lazy=True`` for intervals of any length."""
    if not planning.features.is_bounded:
        return "the condition is open on one side, so all rows would share a bin."
    if planning.lazy and planning.features.needs_sample:
        return "its bins need a sample of both sides, which lazy=True forbids."
    return None


def _has_two_inequalities(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse an interval tree where only one expression is bounded, as in ``l.a < r.b``."""
    if planning.features.inequalities < 2:
        return "it needs inequalities on two different right expressions."
    return None


def _has_no_by(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse blocks with ``by="k"``, since only the predicate decides which blocks are skipped."""
    return "it does not support by=." if planning.join.left_by else None


def _all_pairs(planning: PlanningInput) -> float:
    return float(planning.left_rows) * planning.right_rows


def _candidates(planning: PlanningInput) -> float:
    """Return how many pairs equal keys and one inequality leave, as if nothing were sampled."""
    features = planning.features
    if not features.has_keys and not features.inequalities:
        return _all_pairs(planning)
    if not features.has_keys and not features.is_bounded:
        return _all_pairs(planning) / 2
    return float(max(planning.left_rows, planning.right_rows))


def _matches(planning: PlanningInput) -> float:
    """Return how many pairs match: one for each row of the larger side where that is not known."""
    pairs = planning.features.pairs
    return pairs if pairs is not None else float(max(planning.left_rows, planning.right_rows))


def _output_rows(planning: PlanningInput) -> float:
    shows_left = planning.join.aggregates or planning.join.how in ("semi", "anti")
    return planning.left_rows if shows_left else _matches(planning)


def _binary_search_s(planning: PlanningInput, share: float = 1.0) -> float:
    c, left, right = terms(planning)
    return spread_s(planning, (left + right) * c.arrange_ns + share * _candidates(planning) * c.span_pair_ns)


def _interval_tree_s(planning: PlanningInput) -> float:
    # The second expression rules out half of what the first one leaves, say.
    return _binary_search_s(planning, 0.5)


def _block_nested_loop_s(planning: PlanningInput) -> float:
    # Half of the blocks are ruled out, say.
    return spread_s(planning, _all_pairs(planning) * planning.resources.constants.block_pair_ns / 2)


def _nested_loop_s(planning: PlanningInput) -> float:
    return spread_s(planning, _all_pairs(planning) * planning.resources.constants.nested_pair_ns)


def _external_merge_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # Both sides are written and read, and the output is sorted.
    rows = left + right + _output_rows(planning)
    return _binary_search_s(planning) + spread_s(planning, rows * (c.restore_ns + ASSUMED_ROW_BYTES * c.spill_ns))


def _from_python_ns(planning: PlanningInput) -> float:
    """Return what it takes to bring the output from Python."""
    c = planning.resources.constants
    fold_ns = _matches(planning) * c.fold_ns if planning.join.aggregates else 0
    return _output_rows(planning) * c.from_python_ns + fold_ns


def _broadcast_s(planning: PlanningInput, sent: Side) -> float:
    c, left, right = terms(planning)
    sent_rows, kept_rows = (left, right) if sent == "left" else (right, left)
    prepared = sent_rows * (c.search_ns + (0 if planning.direct else c.collect_ns)) / 1e9
    streamed = kept_rows * (enter_ns(planning) + c.search_ns)
    # A DataFrame is collected by a job of its own; tasks read files by themselves.
    started = c.python_s + (1 if planning.direct else 2) * c.stage_s
    return started + prepared + spread_s(planning, streamed + _from_python_ns(planning))


def _range_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    moved = (left + right) * (enter_ns(planning) + c.scan_ns + c.shuffle_ns + handed_ns(c) + c.search_ns)
    # A sample, where rows go, and the join: each is a stage with Python.
    return 3 * (c.stage_s + c.python_s) + spread_s(planning, moved + _from_python_ns(planning))


def _in_sql_s(planning: PlanningInput, stages: int, core_ns: float) -> float:
    """Return the cost of a join in SQL, which reads both sides and makes the output."""
    c, left, right = terms(planning)
    read_and_made = (left + right) * c.scan_ns + _output_rows(planning) * c.output_row_ns
    return stages * c.stage_s + spread_s(planning, read_and_made + core_ns)


def _bins_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    features = planning.features
    copies = left * features.left_copies + right * features.right_copies
    compared = 2 * _matches(planning) if features.candidates is None else left * features.candidates
    return _in_sql_s(planning, 3, copies * (c.shuffle_ns + c.sort_ns) + compared * c.bin_pair_ns)


def _spark_nested_loop_s(planning: PlanningInput) -> float:
    # A side is sent to all tasks, or both are paired, before anything is compared.
    return _in_sql_s(planning, 2, _all_pairs(planning) * planning.resources.constants.jvm_loop_pair_ns)


def _sql_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    pairs = planning.features.key_pairs
    if pairs is None:
        # As if keys came rather often: few of them, or a hot one, would be what makes it slow.
        return _in_sql_s(planning, 1, _all_pairs(planning) * c.jvm_hash_pair_ns)
    return _in_sql_s(planning, 2, (left + right) * (c.shuffle_ns + c.key_sort_ns) + pairs * c.bin_pair_ns)


def _sent(side: Side, rule: Rule) -> Algorithm:
    cost = partial(_broadcast_s, sent=side)
    return broadcast(side, cost, needs=(_PAIRS, Need("size")), rules=(rule, collects, fits_in_task))


_PAIRS = Need("sample", unnamed=True)  # what matches decides what the output costs, whatever makes it
_KEYS = Need("keys", unnamed=True)
"""Whether keys alone bring few rows together is asked where both sides would have to be moved."""
_SQL = (_aggregates_without_matches, _runs_in_sql)

_BINARY_SEARCH = in_memory(
    "binary_search", "sort the right side and search each left row's window in it", _binary_search_s
)
_INTERVAL_TREE = in_memory(
    "interval_tree", "sort the right intervals by start and search overlaps in an interval tree", _interval_tree_s
)
_ALWAYS = (
    in_memory("nested_loop", "compare all pairs of rows", _nested_loop_s),
    Algorithm(
        "external_merge",
        "sort both sides on disk and join each right block with the left rows in its range",
        _external_merge_s,
    ),
)
_SPARK = (
    _sent("right", keeps_right_rows),
    _sent("left", knows_left_rows),
    Algorithm(
        "range",
        "shuffle both sides once into equal ranges, and replicate rows that span several",
        _range_s,
        shuffles="once",
        in_python=True,
        splits_keys=True,
        needs=(Need("counts"), _PAIRS, _KEYS, Need("cuts")),
        rules=(_has_partitions, samples),
    ),
    Algorithm(
        "bins",
        "assign bins on several levels and shuffle by bin, all in SQL",
        _bins_s,
        shuffles="copies",
        # Bins have to be wide enough for all rows, not only for those of a sample.
        needs=(Need("counts"), Need("sample"), _KEYS, Need("lengths", unnamed=True)),
        rules=(*_SQL, _fills_bins),
    ),
    Algorithm(
        "nested_loop",
        "Spark's nested loop join with the condition",
        _spark_nested_loop_s,
        needs=(_PAIRS, _KEYS),
        rules=_SQL,
    ),
)

RANGE: Mapping[Engine, tuple[Algorithm, ...]] = {"local": (_BINARY_SEARCH, *_ALWAYS), "spark": _SPARK}
"""Range joins."""

OVERLAP: Mapping[Engine, tuple[Algorithm, ...]] = {"local": (_INTERVAL_TREE, *_ALWAYS), "spark": _SPARK}
"""Overlap joins."""

WHERE: Mapping[Engine, tuple[Algorithm, ...]] = {
    "local": (
        in_memory(
            "binary_search",
            "sort the right side by key and one inequality expression, and search spans in it",
            _binary_search_s,
        ),
        in_memory(
            "interval_tree",
            "like binary_search, with an interval tree over a second inequality expression",
            _interval_tree_s,
            _has_two_inequalities,
        ),
        in_memory(
            "block_nested_loop",
            "skip pairs of blocks by their column bounds and compare the rest",
            _block_nested_loop_s,
            _has_no_by,
        ),
        *_ALWAYS,
    ),
    "spark": (
        *_SPARK,
        Algorithm(
            "sql",
            "Spark's equality join, with the rest as a condition",
            _sql_s,
            needs=(_PAIRS, _KEYS),
            rules=(*_SQL, _has_keys),
        ),
    ),
}
"""Predicate joins."""
