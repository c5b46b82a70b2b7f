"""What each algorithm for range, overlap and predicate joins costs, in seconds, from row counts and resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from juncture.planner.cost import Work
from juncture.planner.memory import ASSUMED_ROW_BYTES
from juncture.planner.planning_input import Engine, Offer, Question
from juncture.spec.schema import How

__all__ = ["near_cost_s"]


@dataclass(frozen=True, kw_only=True)
class NearWork(Work):
    """What a cost formula needs to know besides.

    Attributes
    ----------
    offer
        What brings rows together, and what has been found out of it.
    how
        Which rows the output keeps.
    folds
        Whether it shows aggregates in place of matches.
    """

    offer: Offer
    how: How
    folds: bool

    @property
    def all_pairs(self) -> float:
        """Pairs of a left and a right row."""
        return float(self.left_rows) * self.right_rows

    @property
    def found(self) -> float:
        """Pairs that equal keys and one limited expression leave, where nobody has looked."""
        if not self.offer.has_keys and not self.offer.limited:
            return self.all_pairs
        if not self.offer.has_keys and not self.offer.is_bounded:
            return self.all_pairs / 2
        return float(max(self.left_rows, self.right_rows))

    @property
    def matches(self) -> float:
        """Pairs that match: one for each row of the larger side where nobody has looked."""
        return self.offer.pairs if self.offer.pairs is not None else float(max(self.left_rows, self.right_rows))

    @property
    def shown(self) -> float:
        """Rows of the output."""
        return self.left_rows if self.folds or self.how in ("semi", "anti") else self.matches

    @property
    def given_ns(self) -> float:
        """What it takes to bring the output from Python."""
        c = self.constants
        return self.shown * c.from_python_ns + (self.matches * c.folded_ns if self.folds else 0)


def _sorted_s(work: NearWork) -> float:
    c = work.constants
    return work.spread_s((work.left_rows + work.right_rows) * c.arrange_ns + work.found * c.found_ns)


def _tree_s(work: NearWork) -> float:
    # The second expression rules out half of what the first one leaves, say.
    c = work.constants
    return work.spread_s((work.left_rows + work.right_rows) * c.arrange_ns + work.found * c.found_ns / 2)


def _blocks_s(work: NearWork) -> float:
    # Half of the blocks are ruled out, say.
    return work.spread_s(work.all_pairs * work.constants.blocked_ns / 2)


def _nested_s(work: NearWork) -> float:
    return work.spread_s(work.all_pairs * work.constants.compared_ns)


def _external_merge_s(work: NearWork) -> float:
    c = work.constants
    # Both sides are written and read, and the output is sorted.
    rows = work.left_rows + work.right_rows + work.shown
    return _sorted_s(work) + work.spread_s(rows * (c.restore_ns + ASSUMED_ROW_BYTES * c.spill_ns))


def _broadcast_s(work: NearWork) -> float:
    return _sent_s(work, sent_rows=work.right_rows, kept_rows=work.left_rows)


def _broadcast_left_s(work: NearWork) -> float:
    return _sent_s(work, sent_rows=work.left_rows, kept_rows=work.right_rows)


def _sent_s(work: NearWork, *, sent_rows: int, kept_rows: int) -> float:
    c = work.constants
    prepared = sent_rows * (c.search_ns + (0 if work.direct else c.collect_ns))
    streamed = kept_rows * (work.enter_ns + c.search_ns)
    # A DataFrame is collected by a job of its own; tasks read files by themselves.
    stages = 1 if work.direct else 2
    return c.python_s + stages * c.stage_s + prepared / 1e9 + work.spread_s(streamed + work.given_ns)


def _range_s(work: NearWork) -> float:
    c = work.constants
    each = work.enter_ns + c.scan_ns + c.shuffle_ns + c.to_python_ns + c.search_ns
    moved = (work.left_rows + work.right_rows) * each
    # A sample, where rows go, and the join: each is a stage with Python.
    return 3 * (c.stage_s + c.python_s) + work.spread_s(moved + work.given_ns)


def _bucket_s(work: NearWork) -> float:
    c, offer = work.constants, work.offer
    copies = work.left_rows * offer.left_copies + work.right_rows * offer.right_copies
    compared = 2 * work.matches if offer.candidates is None else work.left_rows * offer.candidates
    core_ns = copies * (c.shuffle_ns + c.sort_ns) + compared * c.bin_pair_ns
    return 3 * c.stage_s + work.spread_s(_read_and_made_ns(work) + core_ns)


def _loop_s(work: NearWork) -> float:
    c = work.constants
    # A side is sent to all tasks, or both are paired, before anything is compared.
    return 2 * c.stage_s + work.spread_s(_read_and_made_ns(work) + work.all_pairs * c.loop_ns)


def _sql_s(work: NearWork) -> float:
    c, pairs = work.constants, work.offer.key_pairs
    if pairs is None:
        # As if keys came rather often: few of them, or a hot one, would be what makes it slow.
        return c.stage_s + work.spread_s(_read_and_made_ns(work) + work.all_pairs * c.hashed_ns)
    moved_ns = (work.left_rows + work.right_rows) * (c.shuffle_ns + c.key_sort_ns)
    return 2 * c.stage_s + work.spread_s(_read_and_made_ns(work) + moved_ns + pairs * c.bin_pair_ns)


def _read_and_made_ns(work: NearWork) -> float:
    return (work.left_rows + work.right_rows) * work.constants.scan_ns + work.shown * work.constants.made_ns


COSTS: Mapping[Engine, Mapping[str, Callable[[NearWork], float]]] = {
    "local": {
        "sorted": _sorted_s,
        "tree": _tree_s,
        "blocks": _blocks_s,
        "nested": _nested_s,
        "external_merge": _external_merge_s,
    },
    "spark": {
        "broadcast": _broadcast_s,
        "broadcast_left": _broadcast_left_s,
        "range": _range_s,
        "bucket": _bucket_s,
        "nested": _loop_s,
        "sql": _sql_s,
    },
}
"""The formula of each algorithm."""


IN_MEMORY = ("sorted", "tree", "blocks", "nested")
"""The algorithms that hold the right side in-process."""


def near_cost_s(question: Question, algorithm: str) -> float | None:
    """Return what an algorithm should take; None if it may hold a side that nobody has counted."""
    if question.engine == "local" and algorithm in IN_MEMORY and question.stats.right.rows is None:
        return None
    work = NearWork(
        left_rows=question.left_rows,
        right_rows=question.right_rows,
        resources=question.resources,
        direct=question.direct,
        offer=question.offer,
        how=question.join.how,
        folds=bool(question.join.aggregates),
    )
    return COSTS[question.engine][algorithm](work)
