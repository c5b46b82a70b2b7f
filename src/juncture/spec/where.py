"""Predicate joins: all pairs of rows that satisfy a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.spec.aggregate import Agg
from juncture.spec.arguments import check_text, freeze_flags, freeze_names
from juncture.spec.base import AggregatingSpec, resolved_matches
from juncture.spec.compared import ComparedColumns, check_keys
from juncture.spec.condition import JoinCondition, ResolvedInequality
from juncture.spec.conversions import matched_keys
from juncture.spec.expression import Keys
from juncture.spec.schema import How

if TYPE_CHECKING:
    from juncture.predicate.decompose.shape import Shape
    from juncture.predicate.language.nodes import Node
    from juncture.spec.equi import Equi


@dataclass(frozen=True, kw_only=True)
class ResolvedWhere(ResolvedInequality):
    """A predicate spec, validated against two schemas. ``predicate`` is typed and excludes the ``by`` columns."""

    spec: Where | Equi
    predicate: Node
    shape: Shape

    @cached_property
    def condition(self) -> JoinCondition:
        """The condition under which two rows match, without the ``by`` columns."""
        from juncture.spec.predicate_condition import condition_of

        condition = condition_of(self.predicate, self.shape)
        if self.nulls_equal and condition.equalities:
            # Nulls are equal in ``by``, but not in `=` of the predicate. A hash table has one rule for nulls in all its
            # keys, so only ``by`` columns are keys, and pairs are checked against the equalities (`exact=False`).
            return replace(condition, equalities=(), exact=False)
        return condition


@dataclass(frozen=True)
class Where(AggregatingSpec):
    """A predicate join as a value: match the rows for which a condition is true.

    Two rows match if their ``by`` are equal and the predicate is true (neither false nor null). Equality, range and
    overlap conditions in the predicate are used to avoid comparing every pair. A spec is immutable and independent of
    tables and engines. Pass it to `juncture.plan`, `juncture.stream`, `juncture.changes` or `juncture.Right`.

    Its arguments are those of `juncture.join_where`, which runs the join at once. A spec costs nothing to create.

    Raises
    ------
    SpecError
        If an argument is invalid whatever the tables are.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> left, right = pa.table({"a": [1, 8]}), pa.table({"b": [3, 20]})
    >>> spec = jn.Where("l.a > r.b - 3 AND l.a < r.b + 10")
    >>> jn.plan(left, right, spec).execute().to_pydict()
    {'a': [1, 8], 'b': [3, 3]}
    >>> jn.Where.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "where"
    title: ClassVar[str] = "a predicate join"

    predicate: str
    _: KW_ONLY
    by: Keys | None = None
    left_by: Keys | None = None
    right_by: Keys | None = None
    how: How | None = None
    agg: Agg | None = field(default=None, hash=False)
    allow_cross: bool = False
    names: tuple[str, str] = ("l", "r")
    suffix: str = "_right"

    def __post_init__(self) -> None:
        check_text("predicate", self.predicate, 'SQL, such as "l.a > r.b - 3"')
        self.check_matches()
        freeze_flags(self, "allow_cross")
        pair = isinstance(self.names, Sequence) and not isinstance(self.names, str) and len(self.names) == 2
        if not pair or not all(isinstance(name, str) for name in self.names):
            raise SpecError(
                f'names={self.names!r} is not a pair of table names. Expected for example names=("l", "r").',
                name="JN-ARGUMENT-TYPE",
            )
        freeze_names(self, "names")

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedWhere:
        """Return the join of tables with these Arrow schemas. Raises as described in `Spec.resolve`.

        Raises
        ------
        PlanError
            If no condition has columns of both tables, and ``allow_cross`` is false.
        """
        columns = ComparedColumns(left, right)
        by = columns.pairs(self.by_pairs(), "by", shared=self.by is not None)
        # In unmatched right rows, the left key columns are filled with the right keys.
        by = matched_keys(columns, by, fills=self.how in ("right", "full"))
        return self._resolved(columns, by)

    def _retyped(self, join: ResolvedWhere, columns: ComparedColumns) -> ResolvedWhere:
        return self._resolved(columns, join.by_pairs)

    def _resolved(self, columns: ComparedColumns, equal: Sequence[tuple[str, str]]) -> ResolvedWhere:
        """Return the join of tables that contain all columns that it compares."""
        # The parser is slow to import, and not every user of specs needs it.
        from juncture.predicate.decompose.shape import shape

        check_keys(columns, equal)
        columns.type_nulls(equal)
        predicate = columns.predicate(self.predicate, self.names)
        parts = shape(predicate)
        if not (parts.links or equal or self.allow_cross):
            raise PlanError(
                f"predicate={self.predicate!r} has no condition with columns of both tables ({self.names[0]}. and "
                f"{self.names[1]}.), so it would join every left row with every right row. Add such a condition or "
                "by=, or pass allow_cross=True.",
                name="JN-CROSS-JOIN",
            )
        matches = resolved_matches(self, columns, equal)
        return ResolvedWhere(spec=self, **matches, predicate=predicate, shape=parts)
