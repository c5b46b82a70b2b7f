"""Predicate joins: all pairs of rows for which a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, get_args

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.spec.arguments import check_choice, check_suffix, freeze_flags, freeze_names
from juncture.spec.base import KeyedSpec
from juncture.spec.condition import JoinCondition, ResolvedInequality
from juncture.spec.nulls import typed_pairs
from juncture.spec.schema import How, Side, check_keys, check_pairs, output_columns

if TYPE_CHECKING:
    from juncture.predicate.decompose.shape import Shape
    from juncture.predicate.language.nodes import Node


@dataclass(frozen=True, kw_only=True)
class ResolvedWhere(ResolvedInequality):
    """A predicate spec that has been checked against two schemas: all that an engine needs to know.

    Attributes
    ----------
    spec
        The spec itself.
    predicate
        The condition, with every column and type known. The ``by`` columns are not in it.
    shape
        What a planner can use of the condition.
    """

    spec: Where
    predicate: Node
    shape: Shape

    @cached_property
    def condition(self) -> JoinCondition:
        """When two rows match, their ``by`` columns aside."""
        from juncture.predicate.decompose.join_condition import condition_of

        return condition_of(self.predicate, self.shape)

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match."""
        from juncture.predicate.language.nodes import columns

        named = [column.name for column in columns(self.predicate) if column.side == side]
        return tuple(dict.fromkeys((*super().compared(side), *named)))


@dataclass(frozen=True)
class Where(KeyedSpec):
    """What a predicate join means, without a word about where or how it runs.

    A left and a right row match if their ``by`` are equal and the predicate is true: neither false nor null.

    Its arguments are those of `juncture.join_where`, which says what each of them means.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense for any tables.

    Examples
    --------
    >>> spec = Where("l.a > r.b - 3 AND l.a < r.b + 10", by="k")
    >>> Where.from_dict(spec.to_dict()) == spec
    True
    """

    kind: ClassVar[str] = "where"
    title: ClassVar[str] = "a predicate join"

    predicate: str
    _: KW_ONLY
    by: str | Sequence[str] | None = None
    left_by: str | Sequence[str] | None = None
    right_by: str | Sequence[str] | None = None
    how: How | None = None
    allow_cross: bool = False
    names: tuple[str, str] = ("l", "r")
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if not isinstance(self.predicate, str):
            raise SpecError(
                f"predicate={self.predicate!r} ({type(self.predicate).__name__}) is not SQL. Expected a string such as "
                '"l.a > r.b - 3".'
            )
        self.by_pairs()
        if self.how is not None:
            check_choice("how", self.how, get_args(How))
        freeze_flags(self, "allow_cross")
        check_suffix(self.suffix)
        pair = isinstance(self.names, Sequence) and not isinstance(self.names, str) and len(self.names) == 2
        if not pair or not all(isinstance(name, str) for name in self.names):
            raise SpecError(f'names={self.names!r} is not a pair of names for the two tables, such as ("l", "r").')
        freeze_names(self, "by", "left_by", "right_by", "names")

    def resolve(self, left: pa.Schema, right: pa.Schema) -> ResolvedWhere:
        """Check the spec against two schemas, and work out all that follows from them.

        Raises
        ------
        SpecError
            If the predicate cannot be read, with the place where reading stopped.
        SchemaError
            If a column is missing or repeated, types do not compare, or an output name is taken.
        PlanError
            If nothing ties the two tables together, and ``allow_cross`` is not set.
        """
        # The parser is slow to import, and not every user of specs needs it.
        from juncture.predicate.decompose.shape import shape
        from juncture.predicate.language.parse import parse

        equal = self.by_pairs()
        left_by, right_by = tuple(pair[0] for pair in equal), tuple(pair[1] for pair in equal)
        check_pairs(left, right, equal, argument="by", shared=self.by is not None)
        check_keys(left, right, left_by, right_by)
        left, right = typed_pairs(left, right, equal)
        predicate = parse(self.predicate, left, right, names=self.names)
        parts = shape(predicate)
        if not (parts.links or left_by or self.allow_cross):
            raise PlanError(
                f"The predicate {self.predicate!r} ties no left row to any right row: no condition has columns of both "
                f"tables ({self.names[0]}. and {self.names[1]}.), so that it would join every row that it lets through "
                "with every other. Add a condition over both or by=, or pass allow_cross=True if that is what you want."
            )
        how = self.how or "inner"
        return ResolvedWhere(
            spec=self,
            how=how,
            left_schema=left,
            right_schema=right,
            left_by=left_by,
            right_by=right_by,
            predicate=predicate,
            shape=parts,
            output=output_columns(left, right, how=how, equal=equal, suffix=self.suffix),
        )
