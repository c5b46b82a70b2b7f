"""Predicate joins in-process: equal expressions and limits find candidates, and the predicate decides what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import Mask
from juncture.columnar.hashes import KeyHashes
from juncture.columnar.key_table import KeyCodes
from juncture.local.inequality.block_nested_loop import BlockFinder
from juncture.local.inequality.conditions import Equality, Limit, Line, equalities_of, limits_of, line_of, sorting_line
from juncture.local.inequality.external_merge import stream_merged
from juncture.local.inequality.index import Coded, read_ordered
from juncture.local.inequality.key_ranges import Places
from juncture.local.inequality.limits import both
from juncture.local.inequality.probe import InequalityFinder, Prepare, Sought, run
from juncture.local.output.pairs import Finder
from juncture.local.output.payload import Holder, Payload
from juncture.local.output.residual import checking
from juncture.planner.question import Offer
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.language.nodes import Node, columns
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.schema import Side
from juncture.spec.where import ResolvedWhere

__all__ = ["Conditions", "WhereAlgorithm", "execute"]

WhereAlgorithm = Literal["sorted", "tree", "blocks", "nested", "external_merge"]


@dataclass(frozen=True)
class Conditions:
    """What of a predicate finds candidates.

    Attributes
    ----------
    join
        The join.
    equalities
        Expressions that are equal in every match.
    first
        The right expression to sort by, and its limits; None if there is none.
    second
        Another right expression, with limits of one end; None if there is none.
    exact
        Whether all candidates match.
    """

    join: ResolvedWhere
    equalities: tuple[Equality, ...]
    first: Line | None
    second: Line | None
    exact: bool

    @classmethod
    def of(cls, join: ResolvedWhere) -> Conditions:
        """Take what a predicate offers: a band to sort by goes before single limits."""
        equalities, exact = equalities_of(join.shape)
        limits = limits_of(join.shape)
        by_right: dict[Node, list[Limit]] = {}
        for limit in limits:
            by_right.setdefault(limit.right, []).append(limit)
        first, second = (*islice(_lines(by_right), 2), None, None)[:2]
        if second is not None and second.is_band:
            second = second.toward(upper=False)
        used = sum(len(line.limits) for line in (first, second) if line is not None)
        exact = exact and join.shape.residual is None and used == len(limits)
        exact = exact and all(line.is_exact for line in (first, second) if line is not None)
        return cls(join, tuple(equalities), first, second, exact)

    @property
    def offer(self) -> Offer:
        """What they are in the planner's terms."""
        return Offer(
            has_keys=bool(self.equalities or self.join.left_by),
            limited=sum(line is not None for line in (self.first, self.second)),
            is_bounded=self.first is not None and self.first.is_band,
        )

    def only_first(self) -> Conditions:
        """Return the conditions without the second right expression."""
        return Conditions(self.join, self.equalities, self.first, None, self.exact and self.second is None)

    def none(self) -> Conditions:
        """Return no conditions, so that all pairs are candidates: right rows are just sorted by a column."""
        return Conditions(self.join, (), sorting_line(columns(self.join.predicate)), None, exact=False)

    @property
    def key_types(self) -> tuple[list[pa.DataType], list[pa.DataType]]:
        """The types of the right and of the left key columns."""
        schemas = self.join.right_schema, self.join.left_schema
        names = self.join.right_by, self.join.left_by
        types = [[schema.field(name).type for name in by] for schema, by in zip(schemas, names, strict=True)]
        for equality in self.equalities:
            types[0] += equality.types(equality.right)
            types[1] += equality.types(equality.left)
        return types[0], types[1]

    @cached_property
    def key_codes(self) -> KeyCodes:
        """An empty table of keys, which the right side fills."""
        return KeyCodes(*self.key_types)

    def keys(self, batch: pa.RecordBatch, side: Side) -> list[pa.Array]:
        """Return the key columns of a side's rows."""
        by = self.join.left_by if side == "left" else self.join.right_by
        found = [batch.column(name) for name in by]
        for equality in self.equalities:
            node = equality.left if side == "left" else equality.right
            found += equality.columns(evaluate(node, **{side: batch}))
        return found

    def passed(self, batch: pa.RecordBatch, side: Side) -> Mask | None:
        """Return which rows of a side pass the predicate's conditions on that side alone; None for all."""
        shape = self.join.shape
        node = shape.left_filter if side == "left" else shape.right_filter
        if node is None:
            return None
        mask: Mask = matches(node, **{side: batch}).to_numpy(zero_copy_only=False)
        return mask

    def coded(self, batch: pa.RecordBatch, _first_row: int) -> Coded:
        """Return what the join sees in right rows."""
        valid, on, leaves = self.passed(batch, "right"), None, None
        if self.first is not None:
            on, here = self.first.encode(batch)
            valid = both(valid, here) if self.first.limits else valid
        if self.second is not None:
            leaves, here = self.second.encode(batch)
            valid = both(valid, here)
            # Limits from above are limits from below of the complement.
            leaves = ~leaves if self.second.limits[0].upper else leaves
        return Coded(self.keys(batch, "right"), on, leaves, valid)

    def sought(self, batch: pa.RecordBatch) -> Sought:
        """Return what left rows seek."""
        possible, low, high, thresholds = self.passed(batch, "left"), None, None, None
        if self.first is not None:
            low, high, here = self.first.ends(batch)
            possible = both(possible, here)
        if self.second is not None:
            least, most, here = self.second.ends(batch)
            thresholds = least if most is None else ~most
            possible = both(possible, here)
        return Sought(self.keys(batch, "left"), low, high, thresholds, possible)


def _lines(by_right: dict[Node, list[Limit]]) -> Iterator[Line]:
    """Yield the lines of right expressions with their limits, bands first: few are asked for of what may be many."""
    single: list[tuple[Node, list[Limit]]] = []
    for right, limits in by_right.items():
        line = line_of(right, limits) if len({limit.upper for limit in limits}) == 2 else None
        if line is not None and line.is_band:
            yield line
        else:
            single.append((right, limits))
    for right, limits in single:
        line = line_of(right, limits)
        if line is not None:
            yield line


def execute(
    join: ResolvedWhere, left: Source, right: Source, algorithm: WhereAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a predicate join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right, context
        As for a range join (`juncture.local.inequality.range.execute`).
    algorithm
        ``"sorted"`` sorts the right side by its equal expressions and one that is limited; ``"tree"`` makes use of a
        second one; ``"blocks"``, where there are no ``by`` columns, rules out pairs of blocks by the bounds of their
        columns; ``"nested"`` compares all pairs, to compare with; ``"external_merge"`` sorts both sides on disk, by a
        band or by the hash of what is equal, and holds the right one block by block.

    Raises
    ------
    PlanError
        If the right side has too many rows.
    DataError, StateError
        As for a range join.

    Notes
    -----
    Time O((L + R) log R), and that of the predicate for all candidates unless it is exact without. Holds 21 bytes of
    each right row (57 while it sorts them), and the right columns that the output shows or the predicate reads.
    """
    if algorithm == "external_merge":
        in_memory = partial(_in_memory, algorithm=_of_pieces(Conditions.of(join)))
        return stream_merged(join, left, right, _places, in_memory, context)
    return _in_memory(join, left, right, context.streaming(UNDER_WAY_SHARE), algorithm=algorithm)


def _in_memory(
    join: ResolvedWhere, left: Source, right: Source, context: JoinContext, *, algorithm: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side is held."""
    conditions = Conditions.of(join)
    if algorithm in ("blocks", "nested"):
        conditions = conditions.none()
    elif algorithm == "sorted":
        conditions = conditions.only_first()
    prepare = _prepared(conditions, right, blocks=algorithm == "blocks", nested=algorithm == "nested")
    return run(join, left, right, prepare, context, checked=() if conditions.exact else join.compared("right"))


def _of_pieces(conditions: Conditions) -> WhereAlgorithm:
    """Return what joins pieces in memory."""
    if conditions.second is not None:
        return "tree"
    return "sorted" if conditions.offer.has_keys or conditions.first is not None else "blocks"


def _places(join: ResolvedWhere) -> Places:
    """Return where rows lie: by a band, else by a hash of what is equal, else by a single limit."""
    conditions = Conditions.of(join)
    if not conditions.offer.has_keys or conditions.offer.is_bounded:
        return Places(conditions.coded, conditions.sought, by_row=True)
    hashes = KeyHashes(*conditions.key_types)

    def code(batch: pa.RecordBatch, _first_row: int) -> Coded:
        codes, usable = hashes.of(conditions.keys(batch, "right"))
        return Coded([], codes.view(np.int64), valid=usable)

    def seek(batch: pa.RecordBatch) -> Sought:
        codes, usable = hashes.of(conditions.keys(batch, "left"))
        return Sought([], codes.view(np.int64), codes.view(np.int64), possible=usable)

    return Places(code, seek, by_row=True)


def _prepared(conditions: Conditions, right: Source, *, blocks: bool, nested: bool) -> Prepare:
    """Return what reads the right side."""
    node = conditions.join.predicate

    def prepare(ranked: bool, holder: Holder, context: JoinContext) -> Callable[[Payload], Finder]:
        used = _by_rank(conditions, right) if ranked else conditions
        ordered = read_ordered(
            right, used.join.compared("right"), used.join.right_by, used.coded, used.key_codes, context,
            has_tree=used.second is not None, holder=holder,
        )  # fmt: skip

        def make(payload: Payload) -> Finder:
            check = checking(node, payload, ordered.rows_at)
            if blocks:
                return BlockFinder(node, ordered, payload, used.join.compared("left"), check)
            return InequalityFinder(
                ordered,
                used.join.compared("left"),
                used.join.left_by,
                used.sought,
                by_row=True,
                nested=nested,
                check=None if used.exact else check,
            )

        return make

    return prepare


def _by_rank(conditions: Conditions, right: Source) -> Conditions:
    """Return the conditions with right values coded by rank."""

    def ranked(line: Line | None) -> Line | None:
        if line is None or line.axis.domain.kind == "float":
            return line
        return line.by_rank(
            batch
            for part in range(len(right.part_rows))
            for batch in right.read(part, [each.name for each in columns(line.right)])
        )

    return Conditions(
        conditions.join, conditions.equalities, ranked(conditions.first), ranked(conditions.second), conditions.exact
    )
