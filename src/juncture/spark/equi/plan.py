"""Equality joins on Spark, by its own operators: ``broadcast``, ``broadcast_left``, ``shuffle_hash``, ``sort_merge``.

A hint selects the operator, and hot keys are split across tasks (`juncture.spark.equi.salt`). In general the columns of
a join are numbered (`juncture.spark.sql`). That costs a JVM call per column and several DataFrame operations that each
analyze the whole plan. In a pipeline of joins of wide tables, planning would take longer than the joins, so joins by
keys only are written in SQL text with the columns' own names.

Source: "Understanding Join Algorithms", and the hints of Spark's SQL reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.planner.algorithm import Algorithm, held_side
from juncture.predicate.language.nodes import columns
from juncture.spark.equi.salt import (
    EquiStatistics,
    Hint,
    HotKey,
    SampledKeys,
    choose_hot_keys,
    copied_rows,
    join_salted,
    may_be_uneven,
)
from juncture.spark.exchange import SHUFFLE_PARTITIONS, BuiltJoin
from juncture.spark.input.sides import FrameSide, as_frames
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.sql import SPARK_HOW, Pairs, SqlSides, common_type, expression
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import SIDES, OutputColumn, Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def equi_pairs(join: ResolvedEqui, left: FrameSide, right: FrameSide) -> Pairs:
    """Return an equality join in SQL; raise `PlanError` if a pair of keys has no common type."""
    sides = SqlSides(join, left, right)
    read = [] if join.predicate is None else columns(join.predicate)
    decisive = {side: [names[each.name] for each in read if each.side == side] for side, names in sides.names.items()}
    match = None if join.predicate is None else expression(join.predicate, sides.names)
    return Pairs.of(sides, match, decisive, nulls_equal=join.nulls_equal)


_NAMELESS = st.ArrayType | st.StructType | st.MapType
"""Key types with nested types, whose names may contain anything."""


def goes_by_name(join: ResolvedEqui, left: FrameSide, right: FrameSide) -> bool:
    """Return whether a join can be written by name: keys only, of types with a name in SQL."""
    sides = ((left, join.left_by), (right, join.right_by))
    types = (side.spark_schema[key].dataType for side, keys in sides for key in keys)
    return join.predicate is None and not any(isinstance(each, _NAMELESS) for each in types)


def joined_by_name(join: ResolvedEqui, left: FrameSide, right: FrameSide, hint: Hint) -> DataFrame:
    """Return the result of a join for which `goes_by_name` is true, with Spark's operator chosen by `hint`."""
    left_input, right_input = _Named(left, "left"), _Named(right, "right")
    equals = "<=>" if join.nulls_equal else "="
    keys = []
    for one, other in zip(join.left_by, join.right_by, strict=True):
        shared = common_type(left_input.types[one], right_input.types[other])
        keys.append(f"{left_input.cast(one, shared)} {equals} {right_input.cast(other, shared)}")
    left_rows, right_rows = hint.give(left_input.frame, right_input.frame)
    rows = left_rows.join(right_rows, F.expr(" AND ".join(keys)), SPARK_HOW[join.how])
    return rows.selectExpr(*_output_expressions(join.output, left_input, right_input))


class _Named:
    """An input and its column names in SQL: numbered if names differ only in case."""

    def __init__(self, given_side: FrameSide, side: Side) -> None:
        user_names = given_side.schema.names
        self.side = side
        self.types = {field.name: field.dataType for field in given_side.spark_schema.fields}
        self.has_own_names = len({name.lower() for name in user_names}) == len(user_names)
        inside = user_names if self.has_own_names else [f"c{i}" for i in range(len(user_names))]
        frame = given_side.frame if self.has_own_names else given_side.frame.toDF(*inside)
        self.frame = frame.alias(side[0])
        self.names = {name: f"{side[0]}.{_quoted(each)}" for name, each in zip(user_names, inside, strict=True)}

    def cast(self, name: str, wanted: st.DataType) -> str:
        """Return a column cast to a type."""
        column = self.names[name]
        return column if self.types[name] == wanted else f"CAST({column} AS {wanted.simpleString()})"


def _output_expressions(output: tuple[OutputColumn, ...], left_input: _Named, right_input: _Named) -> Iterator[str]:
    """Yield the result's columns; all columns of a side in their order are one ``*``."""
    for named, of_side in ((named, [c for c in output if c.side == named.side]) for named in (left_input, right_input)):
        left_out = [name for name in named.names if name not in {column.source for column in of_side}]
        as_they_are = [OutputColumn(name, named.side, name) for name in named.names if name not in left_out]
        if named.has_own_names and of_side == as_they_are and of_side:
            yield f"{named.side[0]}.*" + (f" EXCEPT ({', '.join(map(_quoted, left_out))})" if left_out else "")
            continue
        for column in of_side:
            value = named.names[column.source]
            if column.filled_from is not None:
                value = f"coalesce({value}, {right_input.cast(column.filled_from, left_input.types[column.source])})"
            yield f"{value} AS {_quoted(column.name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_HINTS = {
    "broadcast": "broadcast",
    "broadcast_left": "broadcast",
    "shuffle_hash": "shuffle_hash",
    "sort_merge": "merge",
}
"""Spark's hint for each algorithm."""


class EquiPlanning(Planning):
    """The planning of one equality join."""

    statistics: EquiStatistics

    def __init__(self, request: PlanRequest) -> None:
        super().__init__(request)
        self._learners["keys"] = self._sample_keys
        self._frames = as_frames(request.join, request.left, request.right)
        self._sampled: dict[Side, SampledKeys] = {}
        self._hot: tuple[HotKey, ...] = ()
        self.statistics = EquiStatistics(request.left, request.right, request.user_stats)

    @cached_property
    def _pairs(self) -> Pairs:
        return equi_pairs(*self._frames)

    def _sample_keys(self, _: Algorithm) -> bool:
        """Sample the keys of both sides if a hot key could dominate; return whether a job ran."""
        planning = self._input()
        is_uneven = may_be_uneven(planning.left_rows, planning.right_rows, self._resources.constants)
        if self._sampled or not is_uneven:
            return False
        self._sampled = self.statistics.keys(self._pairs, self._join.how, self._resources.cores)
        self._hot = choose_hot_keys(self._sampled["left"], self._sampled["right"], self._resources)
        return True

    def _hinted(self, algorithm: Algorithm) -> BuiltJoin:
        build_side = held_side(self._input(), algorithm) if algorithm.holds is not None else None
        hint = Hint(_HINTS[algorithm.name], build_side or "right")
        hot = () if algorithm.sends else self._hot
        if not hot and goes_by_name(*self._frames):
            frame = joined_by_name(*self._frames, hint)
        else:
            frame = join_salted(self._pairs, self._join.how, hot, hint)
        if algorithm.sends:
            return BuiltJoin(frame)
        details = () if build_side is None else (("build", f"hash tables of the {build_side} side"),)
        partitions = ("partitions", f"{self._shuffle_partitions:,} ({SHUFFLE_PARTITIONS})")
        return BuiltJoin(frame, details=(partitions, *details, ("hot keys", self._salting())))

    _builders: ClassVar = dict.fromkeys(_HINTS, _hinted)

    def _salting(self) -> str:
        """Return which keys are split, into how many parts, and how many rows are replicated."""
        if not self._sampled:
            return f"not sampled: {'lazy=True forbids jobs' if self._lazy else 'few rows'}"
        if not self._hot:
            return "none"
        parts = [f"{key.divided} rows of one key split into {key.parts} parts" for key in self._hot]
        copies = [f"{copied_rows(self._hot, side, self._sampled[side]):,.0f} copies of {side} rows" for side in SIDES]
        return f"{', '.join(parts)}; about {' and '.join(copies)}"
