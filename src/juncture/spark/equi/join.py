"""Equality joins on Spark, by its own operators: ``broadcast``, ``broadcast_left``, ``shuffle_hash``, ``sort_merge``.

A hint selects the operator, and hot keys are split across tasks (`juncture.spark.equi.salt`).

Source: "Understanding Join Algorithms", and the hints of Spark's SQL reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from juncture.predicate.language.nodes import columns
from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.expressions import expression
from juncture.spark.sql.join import Pairs, SqlSides
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Hint:
    """The name of Spark's hint, and the side to broadcast or to build hash tables of."""

    name: str
    side: Side = "right"

    def give(self, left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return both sides, with the hint on one."""
        return (left.hint(self.name), right) if self.side == "left" else (left, right.hint(self.name))


def equi_pairs(join: ResolvedEqui, left: FrameSide, right: FrameSide) -> Pairs:
    """Return an equality join in SQL; raise `PlanError` if a pair of keys has no common type."""
    sides = SqlSides(join, left, right)
    if join.predicate is None:
        return Pairs.of(sides, None, ((), ()), nulls_equal=join.nulls_equal)
    names = sides.names
    read = columns(join.predicate)
    left_columns, right_columns = (
        [names[side][column.name] for column in read if column.side == side] for side in names
    )
    return Pairs.of(
        sides, expression(join.predicate, names), (left_columns, right_columns), nulls_equal=join.nulls_equal
    )
