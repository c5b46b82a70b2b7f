"""The alternatives (OR) of a predicate as limits of stored rows: a row has to satisfy one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain, validity
from juncture.kernels.array_types import Ints
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.intervals.graph import Graph, Shrunk
from juncture.predicate.intervals.interval import Interval
from juncture.predicate.language import build, nodes
from juncture.predicate.language.nodes import Node, children, sides, walk
from juncture.predicate.language.types import arrow_type
from juncture.spec.schema import Side
from juncture.streams.order import ORDERED_KINDS
from juncture.streams.order_graph import OrderMarks, code_in, end_code


@dataclass(frozen=True)
class Watch:
    """An expression of stored rows with a limit. ``null_lives`` is set if rows with a null can match."""

    node: Node
    upper: bool
    domain: Domain
    null_lives: bool

    def codes(self, batch: pa.RecordBatch, side: Side) -> Ints:
        """Return the codes of stored rows. Rows with greater codes are kept longer."""
        values = plain(evaluate(self.node, **{side: batch}))
        try:
            codes, _ = self.domain.encode(values)
        except TooWideError:
            return np.full(batch.num_rows, MAX_CODE)
        codes = ~codes if self.upper else codes
        valid = validity(values)
        return codes if valid is None else np.where(valid, codes, MAX_CODE if self.null_lives else MIN_CODE)

    def least(self, one: Interval) -> int:
        """Return the least code of the values in an interval."""
        if one.empty and not one.may_be_nan:
            return MIN_CODE if one.may_be_null else MAX_CODE
        if self.upper and one.may_be_nan:
            return MIN_CODE
        code = end_code(one, code_in(self.domain), upper=self.upper)
        return ~code if self.upper else code


@dataclass(frozen=True)
class Filter:
    """A condition of an alternative on stored rows alone. A row that fails it cannot satisfy the alternative."""

    node: Node

    def codes(self, batch: pa.RecordBatch, side: Side) -> Ints:
        """Return the codes of stored rows: the least code if they fail."""
        passed = matches(self.node, **{side: batch}).to_numpy(zero_copy_only=False)
        return np.where(passed, np.int64(MAX_CODE), np.int64(MIN_CODE))


def watchable(predicate: Node, side: Side) -> tuple[Node, ...]:
    """Return the largest expressions of one side that a predicate compares, and their columns."""
    found: dict[Node, None] = {}
    for node in walk(predicate):
        if sides(node) == {side}:
            continue
        for child in children(node):
            if sides(child) == {side}:
                for each in (child, *nodes.columns(child)):
                    if each.type.kind in ORDERED_KINDS:
                        found[each] = None
    return tuple(found)


_BRANCHES_MOST = 16

Expressions = Collection[tuple[Node, bool]]
"""Expressions of stored rows, and whether they are limited from above."""


@dataclass(frozen=True)
class Branch:
    """One alternative of a predicate."""

    graph: Graph
    watches: tuple[tuple[int, int], ...]  # the code lines of each watched node's lower and upper limit; -1: none
    filters: tuple[int, ...] = ()  # the code lines of conditions on stored rows alone


class Alternatives:
    """The alternatives of a predicate, as further code lines of stored rows; none if there is nothing to watch.

    ``first`` is the number of code lines of the relations, and ``covered`` what these limit in every alternative.
    """

    def __init__(self, predicate: Node | None, side: Side, marks: OrderMarks, first: int, covered: Expressions) -> None:
        self._side: Side = side
        self._marks = marks
        self._first = first
        self.watches: list[Watch | Filter] = []
        self.branches: list[Branch] = []
        alternatives = [] if predicate is None else _alternatives(predicate)
        is_one = len(alternatives) == 1
        lines: dict[Watch, int] = {}
        for alternative in alternatives:
            self.branches.append(self._branch(alternative, covered if is_one else (), lines, filters=not is_one))
        if not lines:
            self.branches.clear()
            self.watches.clear()

    @property
    def lines(self) -> int:
        """Number of code lines, with those of the relations."""
        return self._first + len(self.watches)

    def _branch(self, alternative: Node, covered: Expressions, lines: dict[Watch, int], *, filters: bool) -> Branch:
        """Return the branch of an alternative, and add the watches that it needs."""
        watched = watchable(alternative, self._side)
        graph = Graph(build.conjunction([alternative, *self._marks.constraints()]), watched, in_types=False)
        free = graph.shrink({}).watched
        sampled = [graph.shrink(self._marks.at(codes)) for codes in self._marks.samples()]
        places = []
        for place, node in enumerate(watched):
            pair = [-1, -1]
            for upper in (False, True):
                if (node, upper) in covered or not _follows(sampled, free[place], place, upper=upper):
                    continue
                domain = domain_of(arrow_type(node.type))
                assert domain is not None
                watch = Watch(node, upper, domain, free[place].may_be_null)
                if watch not in lines:
                    lines[watch] = self.lines
                    self.watches.append(watch)
                pair[upper] = lines[watch]
            places.append((pair[0], pair[1]))
        return Branch(graph, tuple(places), self._filters(alternative) if filters else ())

    def _filters(self, alternative: Node) -> tuple[int, ...]:
        parts = alternative.operands if isinstance(alternative, nodes.And) else (alternative,)
        first = self.lines
        self.watches += [Filter(part) for part in parts if sides(part) == {self._side}]
        return tuple(range(first, self.lines))

    def limits(self, codes: Sequence[int | None]) -> tuple[Ints, ...]:
        """Return the least codes of each alternative for the frontier codes of the other side."""
        return tuple(self._limits(branch, codes) for branch in self.branches)

    def _limits(self, branch: Branch, codes: Sequence[int | None]) -> Ints:
        least = np.full(self.lines, MIN_CODE, np.int64)
        # Filter lines: every code but the least one passes.
        least[list(branch.filters)] = MIN_CODE + 1
        if not any(place >= 0 for pair in branch.watches for place in pair):
            return least
        shrunk = branch.graph.shrink(self._marks.at(codes))
        if not shrunk.feasible:
            return np.full(self.lines, MAX_CODE, np.int64)
        for pair, one in zip(branch.watches, shrunk.watched, strict=True):
            for place in pair:
                if place >= 0:
                    watch = self.watches[place - self._first]
                    assert isinstance(watch, Watch)
                    least[place] = watch.least(one)
        return least


def _follows(sampled: Sequence[Shrunk], free: Interval, place: int, *, upper: bool) -> bool:
    """Return whether some sampled frontier limits a watched expression more than no frontier does."""
    for shrunk in sampled:
        one = shrunk.watched[place]
        end = one.upper if upper else one.lower
        if not shrunk.feasible or one.empty or end is None or (upper and one.may_be_nan):
            continue
        if end != (free.upper if upper else free.lower):
            return True
    return False


def _alternatives(predicate: Node) -> list[Node]:
    """Return conditions whose disjunction is the predicate; the predicate itself beyond `_BRANCHES_MOST`."""
    found: list[list[Node]] = [[]]
    for part in predicate.operands if isinstance(predicate, nodes.And) else (predicate,):
        options = part.operands if isinstance(part, nodes.Or) else (part,)
        found = [[*known, option] for known in found for option in options]
        if len(found) > _BRANCHES_MOST:
            return [predicate]
    return [build.conjunction(parts) for parts in found]
