"""Expressions of stored rows that a predicate limits without a relation, as further code lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain, validity
from juncture.kernels.array_types import Ints
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.intervals.interval import Interval
from juncture.predicate.language import nodes
from juncture.predicate.language.nodes import Node, children, sides, walk
from juncture.spec.schema import Side
from juncture.streams.limits import beyond_codes
from juncture.streams.order import ORDERED_KINDS
from juncture.streams.order_graph import one_value


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
        end, nan = (one.upper if self.upper else one.lower), one.may_be_nan
        if one.empty and not nan:
            return MIN_CODE if one.may_be_null else MAX_CODE
        if end is None or (self.upper and nan):
            return MIN_CODE
        try:
            codes, _ = self.domain.encode(plain(one_value(end, one.type)))
        except TooWideError:
            return ~beyond_codes(end) if self.upper else beyond_codes(end)
        return ~int(codes[0]) if self.upper else int(codes[0])


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
