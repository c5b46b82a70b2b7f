"""What each algorithm for range, overlap and predicate joins costs, in seconds, from row counts and resources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from juncture.planner.cost import Work
from juncture.planner.question import Offer, Question

__all__ = ["near_cost_s"]


@dataclass(frozen=True, kw_only=True)
class NearWork(Work):
    """What a cost formula needs to know besides.

    Attributes
    ----------
    offer
        What brings rows together.
    """

    offer: Offer

    @property
    def all_pairs(self) -> float:
        """Pairs of a left and a right row."""
        return float(self.left_rows) * self.right_rows

    @property
    def found(self) -> float:
        """Pairs that equal keys and one limited expression leave, as far as nobody has looked: one for each row."""
        if not self.offer.has_keys and not self.offer.limited:
            return self.all_pairs
        if not self.offer.has_keys and not self.offer.is_bounded:
            return self.all_pairs / 2
        return float(max(self.left_rows, self.right_rows))


def _sorted_s(work: NearWork) -> float:
    c = work.constants
    return work.spread_s((work.left_rows + work.right_rows) * c.arrange_ns + work.found * c.found_ns)


def _tree_s(work: NearWork) -> float:
    # The tree finds pairs that the second expression allows, at no more than it takes to check one.
    c = work.constants
    return work.spread_s((work.left_rows + work.right_rows) * c.arrange_ns + work.found * c.found_ns / 2)


def _blocks_s(work: NearWork) -> float:
    # Half of the blocks are ruled out, say.
    return work.spread_s(work.all_pairs * work.constants.blocked_ns / 2)


def _nested_s(work: NearWork) -> float:
    return work.spread_s(work.all_pairs * work.constants.compared_ns)


_LOCAL: dict[str, Callable[[NearWork], float]] = {
    "sorted": _sorted_s,
    "tree": _tree_s,
    "blocks": _blocks_s,
    "nested": _nested_s,
}


def near_cost_s(question: Question, algorithm: str) -> float | None:
    """Return what an algorithm should take; on Spark the engine knows more of the rows."""
    if question.engine != "local":
        return None
    work = NearWork(
        left_rows=question.left_rows,
        right_rows=question.right_rows,
        resources=question.resources,
        direct=question.direct,
        offer=question.offer,
    )
    return _LOCAL[algorithm](work)
