"""Equality joins: all pairs of rows with equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from juncture.errors import SpecError
from juncture.spec.aggregate import Agg, aggregate_how
from juncture.spec.arguments import check_condition, freeze_flags, freeze_names, pair_names
from juncture.spec.base import Spec, check_answer, resolved_matches
from juncture.spec.compared import ComparedColumns, check_keys, output_columns
from juncture.spec.conversions import matched_keys
from juncture.spec.expression import Key, Keys
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How
from juncture.spec.where import ResolvedWhere, Where


@dataclass(frozen=True, kw_only=True)
class ResolvedEqui(Resolved):
    """An equality spec, validated against two schemas. The keys are ``left_by`` and ``right_by``."""

    spec: Equi


@dataclass(frozen=True, kw_only=True)
class Equi(Spec):
    """An equality join as a value: match the rows with equal keys.

    Two rows match if their keys are equal and ``where`` is true. NaN equals NaN, as in Spark, and -0.0 equals 0.0. A
    spec is immutable and independent of tables and engines. Pass it to `juncture.plan`, `juncture.stream`,
    `juncture.changes` or `juncture.Right`.

    Its arguments are those of `juncture.join`, which runs the join at once. A spec costs nothing to create.

    Raises
    ------
    SpecError
        If an argument is invalid whatever the tables are.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> customers = pa.table({"id": [1, 2], "name": ["Ann", "Bo"]})
    >>> sales = pa.table({"buyer_id": [2, 2], "price": [5, 7]})
    >>> spec = jn.Equi(left_on="id", right_on="buyer_id", how="left")
    >>> jn.plan(customers, sales, spec).execute().to_pydict()
    {'id': [1, 2, 2], 'name': ['Ann', 'Bo', 'Bo'], 'price': [None, 5, 7]}
    >>> jn.Equi.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "equi"
    title: ClassVar[str] = "an equality join"
    key_argument: ClassVar[str] = "on"
    is_lookup: ClassVar[bool] = True

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
        """Return the pairs of left and right key columns or expressions."""
        return pair_names("on", self.on, self.left_on, self.right_on)

    def key_pairs(self) -> list[tuple[Key, Key]]:
        """Return the pairs of left and right columns or expressions that must be equal."""
        return self.on_pairs()

    @property
    def joined_as(self) -> type[Spec]:
        """The kind of join that engines run: a predicate join if matches are aggregated."""
        return type(self) if self.agg is None else Where

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedEqui | ResolvedWhere:
        """Return the join of tables with these Arrow schemas. Raises as described in `Spec.resolve`."""
        columns = ComparedColumns(left, right)
        pairs = columns.pairs(self.on_pairs(), "on", shared=self.on is not None)
        fills = self.how in ("right", "full") and self.coalesce
        pairs = matched_keys(columns, pairs, fills=fills, nulls_equal=self.nulls_equal)
        return self._resolved(columns, pairs)

    def _retyped(self, join: ResolvedEqui | ResolvedWhere, columns: ComparedColumns) -> ResolvedEqui | ResolvedWhere:
        return self._resolved(columns, join.by_pairs)

    def _resolved(self, columns: ComparedColumns, pairs: Sequence[tuple[str, str]]) -> ResolvedEqui | ResolvedWhere:
        """Return the join of tables that contain all columns that it compares."""
        check_keys(columns, pairs, role="on")
        columns.type_nulls(pairs)
        how = aggregate_how(self.how, self.agg)
        predicate, parts = None, None
        if self.where is not None or self.agg is not None:
            from juncture.predicate.decompose.shape import shape

            predicate = columns.predicate("TRUE" if self.where is None else self.where)
            parts = shape(predicate)
            if self.agg is not None:
                matches = resolved_matches(self, columns, pairs)
                return ResolvedWhere(
                    spec=self, **matches, predicate=predicate, shape=parts, nulls_equal=self.nulls_equal
                )
        return ResolvedEqui(
            spec=self,
            how=how,
            **columns.sides(pairs),
            predicate=predicate,
            shape=parts,
            nulls_equal=self.nulls_equal,
            output=output_columns(columns, how=how, equal=pairs if self.coalesce else (), suffix=self.suffix),
        )
