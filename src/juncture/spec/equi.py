"""Equality joins: all pairs of rows whose keys are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from juncture.errors import SpecError
from juncture.spec.aggregate import Agg, aggregate_how, typed_aggregated
from juncture.spec.arguments import check_condition, freeze_flags, freeze_names, pair_names
from juncture.spec.base import Spec, check_answer
from juncture.spec.computed import ComputedColumns, Key, Keys, own_columns
from juncture.spec.conversions import matched_keys
from juncture.spec.keys import check_keys
from juncture.spec.nulls import typed_pairs
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How, Side, check_pairs, output_columns
from juncture.spec.where import ResolvedWhere, Where, resolved_where

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node


@dataclass(frozen=True, kw_only=True)
class ResolvedEqui(Resolved):
    """An equality spec that has been checked against two schemas: all that an engine needs to know.

    The keys are ``left_by`` and ``right_by``.

    Attributes
    ----------
    predicate
        What has to be true besides, with every column and type known; None if nothing has.
    nulls_equal
        Whether null equals null.
    """

    spec: Equi
    predicate: Node | None
    nulls_equal: bool

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match."""
        if self.predicate is None:
            return super().compared(side)
        from juncture.predicate.language.nodes import columns

        named = [column.name for column in columns(self.predicate) if column.side == side]
        return tuple(dict.fromkeys((*super().compared(side), *named)))


@dataclass(frozen=True, kw_only=True)
class Equi(Spec):
    """What an equality join means, without a word about where or how it runs.

    A left and a right row match if their keys are equal, and ``where`` is true of them. NaN equals NaN as in Spark, and
    -0.0 equals 0.0; a null equals nothing unless ``nulls_equal`` says so. With ``agg`` it resolves to a join by equal
    columns and a predicate, which is what engines aggregate.

    Its arguments are those of `juncture.join`, which says what each of them means.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense for any tables.

    Examples
    --------
    >>> spec = Equi(left_on="id", right_on="buyer_id", how="left", where="r.price > l.least")
    >>> Equi.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "equi"
    title: ClassVar[str] = "an equality join"

    on: Keys | None = None
    left_on: Keys | None = None
    right_on: Keys | None = None
    how: How | None = None
    agg: Agg | None = field(default=None, hash=False)
    where: str | None = None
    nulls_equal: bool = False
    coalesce: bool = True
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if not self.on_pairs():
            raise SpecError(
                'on= is missing, but an equality join needs a key. Pass on="id", or left_on= and right_on= if the '
                "names differ. For a condition without a key, use join_where(…).",
                name="JN-KEY-MISSING",
            )
        check_answer(self)
        check_condition(self.where, "l.price < r.limit")
        freeze_flags(self, "nulls_equal", "coalesce")
        freeze_names(self, "on", "left_on", "right_on")

    def on_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right key columns, or expressions."""
        return pair_names("on", self.on, self.left_on, self.right_on)

    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns, or expressions, that have to be equal."""
        return self.on_pairs()

    @property
    def joined_as(self) -> type[Spec]:
        """The kind of join that engines run for it: one by a predicate where matches are aggregated."""
        return type(self) if self.agg is None else Where

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedEqui | ResolvedWhere:
        """Check the spec against two schemas, and work out all that follows from them.

        Raises
        ------
        SpecError
            If ``where`` cannot be read, with the place where reading stopped.
        SchemaError
            If a column is missing or repeated, types do not compare, or an output name is taken.
        """
        columns = ComputedColumns(left, right)
        pairs = columns.pairs(self.on_pairs(), "on")
        check_pairs(columns.left, columns.right, pairs, argument="on", shared=self.on is not None)
        fills = self.how in ("right", "full") and self.coalesce
        pairs = matched_keys(columns, pairs, fills=fills, nulls_equal=self.nulls_equal)
        return self._resolved(columns.left, columns.right, pairs)

    def _over(
        self, join: ResolvedEqui | ResolvedWhere, left: pa.Schema, right: pa.Schema
    ) -> ResolvedEqui | ResolvedWhere:
        return self._resolved(left, right, join.by_pairs)

    def _resolved(
        self, left: pa.Schema, right: pa.Schema, pairs: Sequence[tuple[str, str]]
    ) -> ResolvedEqui | ResolvedWhere:
        """Return the join of tables that have all columns that it compares."""
        left_on, right_on = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        check_keys(left, right, left_on, right_on, role="on")
        left, right = typed_pairs(left, right, pairs)
        how = aggregate_how(self.how, self.agg)
        if self.agg is not None:
            return self._aggregated(left, right, (left_on, right_on))
        return ResolvedEqui(
            spec=self,
            how=how,
            left_schema=left,
            right_schema=right,
            left_by=left_on,
            right_by=right_on,
            predicate=self._predicate(left, right),
            nulls_equal=self.nulls_equal,
            output=output_columns(left, right, how=how, equal=pairs if self.coalesce else (), suffix=self.suffix),
        )

    def _aggregated(
        self, left: pa.Schema, right: pa.Schema, on: tuple[tuple[str, ...], tuple[str, ...]]
    ) -> ResolvedWhere:
        """Return the join by equal columns whose matches are aggregated."""
        from juncture.predicate.decompose.shape import shape
        from juncture.predicate.language.parse import parse

        predicate = parse("TRUE" if self.where is None else self.where, own_columns(left), own_columns(right))
        right = typed_aggregated(self.agg, right)
        return resolved_where(self, left, right, on, predicate, shape(predicate), nulls_equal=self.nulls_equal)

    def _predicate(self, left: pa.Schema, right: pa.Schema) -> Node | None:
        if self.where is None:
            return None
        # The parser is slow to import, and not every join needs it.
        from juncture.predicate.language.parse import parse

        return parse(self.where, own_columns(left), own_columns(right))
