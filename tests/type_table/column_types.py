"""Types of columns, and columns of them in place of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from type_table.roles import Columns, Join, Positions, Trial, is_tried

__all__ = ["ColumnType", "Types", "sharing"]


@dataclass(frozen=True)
class ColumnType:
    """A type of a column.

    Attributes
    ----------
    name
        What the page calls it.
    values
        Some of its values, each less than the next. None of them is null.
    make
        Makes a column of values, where None is null.
    is_nullable
        Whether there can be null in such a column of a table.
    """

    name: str
    values: Sequence[Any]
    make: Callable[[Sequence[Any]], Any]
    is_nullable: bool = True

    def fitted(self, positions: Positions) -> Positions:
        """Return positions that the type has, in place of those that it has not."""
        last = len(self.values) - 1
        if last < 0:
            return [None] * len(positions)
        fill = None if self.is_nullable else 0
        return [fill if position is None else min(position, last) for position in positions]

    def column(self, positions: Positions) -> Any:
        """Return the column that has the values at some positions."""
        return self.make([None if position is None else self.values[position] for position in positions])


@dataclass(frozen=True)
class Types:
    """The types of the columns of a join.

    Attributes
    ----------
    tried
        Those of the columns that have the role, by their names, and of those with values of theirs.
    numbers
        That of all others.
    """

    tried: Mapping[str, ColumnType]
    numbers: ColumnType

    @classmethod
    def numbered(cls, column_types: Sequence[ColumnType], numbers: ColumnType) -> Self:
        """Return types with names for their columns: ``x`` for one alone."""
        names = ["x"] if len(column_types) == 1 else [f"x{number}" for number in range(len(column_types))]
        return cls(dict(zip(names, column_types, strict=True)), numbers)

    def of(self, name: str) -> ColumnType:
        """Return the type of a column of a table or of an answer."""
        return self.tried[name.partition("_")[0]] if is_tried(name) else self.numbers

    def fitted(self, join: Join) -> Join:
        """Return the join with positions that the types have."""
        return Join(join.spec, *map(self.fitted_columns, (join.left, join.right)))

    def fitted_columns(self, columns: Columns) -> Columns:
        """Return columns of positions that the types have."""
        return {name: self.of(name).fitted(positions) for name, positions in columns.items()}

    def columns(self, columns: Columns) -> dict[str, Any]:
        """Return columns of values in place of positions."""
        return {name: self.of(name).column(positions) for name, positions in columns.items()}


def sharing(trial: Trial, column_types: Sequence[ColumnType], most: int) -> Iterator[Sequence[ColumnType]]:
    """Yield types in groups that can be tried by one join, of so many at most."""
    # A column of nothing but nulls equals nothing, in the blocks of others as well.
    together = [each for each in column_types if trial.is_shared and (each.values or not trial.is_compared)]
    yield from (together[start : start + most] for start in range(0, len(together), most))
    yield from ([each] for each in column_types if each not in together)
