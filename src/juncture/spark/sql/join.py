"""A join in terms of SQL: both sides with the columns that match them, the condition, and the result made of pairs.

The columns of the inputs go by number, ``l0``, ``r0`` and so on, since names may hold dots and backticks, or differ in
case only. Beside them stand the keys in types that both sides share, ``lkey0`` and ``rkey0``, and what a kind of join
adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.columns import common_type, has_map
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SPARK_HOW = {
    "inner": "inner",
    "left": "left",
    "right": "right",
    "full": "full",
    "semi": "left_semi",
    "anti": "left_anti",
}
"""Spark's names of the joins that keep these rows."""


class SqlSides:
    """Both inputs in columns whose names are known, with their keys.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    inlined
        Whether what is made of columns stays an expression, so that the rows of both sides have no more columns than
        the inputs: a state that holds rows holds nothing twice.

    Raises
    ------
    PlanError
        If a pair of key columns has no common type in SQL.

    Attributes
    ----------
    left, right
        The inputs.
    names
        What their columns are called.
    keys
        The names of the pairs of key columns.
    derived
        What is made of columns and stays an expression, by name.
    """

    def __init__(self, join: Resolved, left: FrameSide, right: FrameSide, *, inlined: bool = False) -> None:
        self.join = join
        self._inlined = inlined
        self.derived: dict[str, Column] = {}
        self.names: dict[Side, dict[str, str]] = {
            "left": {name: f"l{i}" for i, name in enumerate(left.schema.names)},
            "right": {name: f"r{i}" for i, name in enumerate(right.schema.names)},
        }
        self._types = {
            "left": {field.name: field.dataType for field in left.spark_schema.fields},
            "right": {field.name: field.dataType for field in right.spark_schema.fields},
        }
        self.left = left.frame.toDF(*self.names["left"].values())
        self.right = right.frame.toDF(*self.names["right"].values())
        self.keys: list[tuple[str, str]] = []
        for ours, theirs in zip(join.left_by, join.right_by, strict=True):
            shared = common_type(self._types["left"][ours], self._types["right"][theirs])
            self.add_key(self.column("left", ours).cast(shared), self.column("right", theirs).cast(shared))

    def add_key(self, left: Column, right: Column) -> None:
        """Add columns that have to be equal."""
        pair = (f"lkey{len(self.keys)}", f"rkey{len(self.keys)}")
        self.derive("left", {pair[0]: left})
        self.derive("right", {pair[1]: right})
        self.keys.append(pair)

    def derive(self, side: Side, columns: Mapping[str, Column]) -> None:
        """Add what is made of the columns of an input, in place of what has the same name."""
        if self._inlined:
            self.derived.update(columns)
        elif side == "left":
            self.left = self.left.withColumns(dict(columns))
        else:
            self.right = self.right.withColumns(dict(columns))

    def where(self, side: Side, condition: Column) -> None:
        """Keep those rows of an input of which a condition is true."""
        if side == "left":
            self.left = self.left.where(condition)
        else:
            self.right = self.right.where(condition)

    def value(self, name: str) -> Column:
        """Return a column of a side, or what is made of its columns."""
        return self.derived.get(name, F.col(name))

    def column(self, side: Side, column: str) -> Column:
        """Return a column of an input."""
        return F.col(self.names[side][column])

    def hashable(self, side: Side) -> tuple[str, ...]:
        """Return the columns of an input that can be hashed."""
        return tuple(self.names[side][name] for name, kind in self._types[side].items() if not has_map(kind))

    def output(self) -> list[str | Column]:
        """Return the columns of the result, made of a pair of rows or one without a match.

        One that is an input's goes by its name: as a `Column`, each would take several calls of the JVM.
        """
        columns: list[str | Column] = []
        for column in self.join.output:
            if column.filled_from is None:
                columns.append(self.names[column.side][column.source])
                continue
            same = self._types["left"][column.source]
            filling = self.column("right", column.filled_from).cast(same)
            columns.append(F.coalesce(self.column(column.side, column.source), filling))
        return columns


@dataclass(frozen=True)
class RangeColumns:
    """Where the rows of both sides lie: in ranges of ordered values, of which rows that match share a point.

    Their ends are the columns ``lfirst`` and ``llast``, ``rfirst`` and ``rlast``. Both are null where a row can match
    nothing, and no first is after its last.

    Attributes
    ----------
    is_real
        Whether they are numbers with fractions, rather than 64-bit integers.
    are_points
        Whether each right row is at one point.
    width
        How long all left spans are, if that is known.
    step_ns
        How long a step is, of times in 64-bit integers; otherwise 0.
    """

    is_real: bool = False
    are_points: bool = False
    width: float | None = None
    step_ns: int = 0


@dataclass(frozen=True)
class Pairs:
    """A join that Spark can run.

    Attributes
    ----------
    left, right
        The rows, with all columns that the condition needs.
    keys
        Pairs of columns that have to be equal.
    match
        What has to be true besides.
    output, names
        The columns of the result, by name where they are those of the rows, and what they are called.
    decisive
        For each side, the columns that decide whether a row has a match: of the rows that agree in them, all
        have a match or none has.
    hashable
        For each side, the columns of the input that can be hashed: nearly all.
    spans
        Where rows lie, if that limits which ones match.
    nulls_equal
        Whether null equals null in the keys.
    derived
        Of the names of keys, those that are not columns of the rows, but made of them.
    """

    left: DataFrame
    right: DataFrame
    keys: tuple[tuple[str, str], ...]
    match: Column | None
    output: tuple[str | Column, ...]
    names: tuple[str, ...]
    decisive: tuple[tuple[str, ...], tuple[str, ...]]
    hashable: tuple[tuple[str, ...], tuple[str, ...]]
    spans: RangeColumns | None = None
    nulls_equal: bool = False
    derived: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sides: SqlSides,
        match: Column | None,
        decisive: tuple[Sequence[str], Sequence[str]],
        spans: RangeColumns | None = None,
        *,
        nulls_equal: bool = False,
    ) -> Pairs:
        """Return the join of two sides, given what decides besides their keys."""
        keys = ([pair[0] for pair in sides.keys], [pair[1] for pair in sides.keys])
        return cls(
            left=sides.left,
            right=sides.right,
            keys=tuple(sides.keys),
            match=match,
            output=tuple(sides.output()),
            names=tuple(column.name for column in sides.join.output),
            decisive=((*keys[0], *decisive[0]), (*keys[1], *decisive[1])),
            hashable=(sides.hashable("left"), sides.hashable("right")),
            spans=spans,
            nulls_equal=nulls_equal,
            derived=sides.derived,
        )

    def key_values(self) -> list[tuple[Column, Column]]:
        """Return the pairs of what has to be equal."""
        return [(self._value(ours), self._value(theirs)) for ours, theirs in self.keys]

    def _value(self, name: str) -> Column:
        return self.derived.get(name, F.col(name))

    def condition(self, *more: Column) -> Column:
        """Return what pairs have to satisfy."""
        keys = self.key_values()
        conditions = [ours.eqNullSafe(theirs) if self.nulls_equal else ours == theirs for ours, theirs in keys]
        conditions += [self.match] if self.match is not None else []
        return reduce(lambda one, other: one & other, [*conditions, *more], F.lit(True))

    def by_marks(self, rows: DataFrame, side: Side, marks: DataFrame, how: str) -> DataFrame:
        """Return those of some rows of a side that have a match (``semi``), or those that have none (``anti``).

        Parameters
        ----------
        rows, side
            The rows.
        marks
            What decides, of rows that have a match: rows that agree with one of them have a match, too.
        how
            Which rows.
        """
        decisive = self.decisive[0 if side == "left" else 1]
        marks = marks.toDF(*(f"mark{i}" for i in range(len(decisive))))
        same = (F.col(name).eqNullSafe(F.col(f"mark{i}")) for i, name in enumerate(decisive))
        return rows.join(marks, reduce(lambda one, other: one & other, same), SPARK_HOW[how])

    def result(self, rows: DataFrame) -> DataFrame:
        """Return the result, given rows that hold the columns of both sides (of the left only where these are all)."""
        texts = [f"{column} AS c{i}" for i, column in enumerate(self.output) if isinstance(column, str)]
        if len(texts) == len(self.output):
            return rows.selectExpr(*texts).toDF(*self.names)
        columns = (F.col(column) if isinstance(column, str) else column for column in self.output)
        return rows.select(*(column.alias(f"c{i}") for i, column in enumerate(columns))).toDF(*self.names)


def join_nested(pairs: Pairs, how: str) -> DataFrame:
    """Return the result of Spark's own join by the condition.

    Notes
    -----
    Spark joins by the keys where there are any, and compares all pairs of rows that share them.
    """
    return pairs.result(pairs.left.join(pairs.right, pairs.condition(), SPARK_HOW[how]))
