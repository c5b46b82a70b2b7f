"""Joins by bins, entirely in Spark SQL: only rows that share a bin are compared.

Each left row is in one bin of its level, the one where it starts. A right row is in all bins of that level where a
matching left row may start: the bins that it touches, and a few before. Each pair therefore meets in exactly one bin,
left rows are not copied, and Spark's own join types handle unmatched rows. Right rows that are longer than left rows
meet them on the right row's level with the roles swapped. Then left rows are copied too, and unmatched rows are found
by match marks: the values of the deciding columns, since rows that agree in them match alike. No row needs a number.

Source of the idea: bucketing, double joining and filtering ("Efficient Range-Joins With Spark 2.0"), here with levels
instead of one width.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.inequality.bins import Bins, HotBin
from juncture.spark.sql import SPARK_HOW, Pairs, key_hash
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LIMIT = 2.0**62
_TOO_LONG = (
    "juncture.errors.StateError: [JN-INPUT-CHANGED] An interval is longer than all intervals were when the join was "
    "planned. Plan the join again, with inputs that do not change."
)


def join_bins(pairs: Pairs, how: str, bins: Bins) -> DataFrame:
    """Return the result of a join by bins; `pairs` has spans."""
    work = _BinJoin(pairs, bins)
    if how == "inner":
        return pairs.result(work.matches())
    keeps_right = how in ("right", "full")
    if not bins.above:
        rows = work.joined("left" if keeps_right and how == "full" else "inner" if keeps_right else how)
    elif how in ("semi", "anti"):
        return pairs.result(work.by_match("left", how))
    else:
        rows = work.matches()
        if how in ("left", "full"):
            rows = rows.unionByName(work.by_match("left", "anti"), allowMissingColumns=True)
    if keeps_right:
        rows = rows.unionByName(work.by_match("right", "anti"), allowMissingColumns=True)
    return pairs.result(rows)


class _BinJoin:
    """One join by bins."""

    def __init__(self, pairs: Pairs, bins: Bins) -> None:
        self._pairs = pairs
        self._bins = bins
        self._left = _placed(pairs, pairs.left, "l", bins)
        self._right = _placed(pairs, pairs.right, "r", bins)

    def joined(self, how: str) -> DataFrame:
        """Return left rows in one bin each, joined with right rows in all bins where they may match."""
        left, right = self._sides()
        names = ["level", "bin"]
        if self._bins.hot:
            left, right = left.withColumn("lsalt", self._left_salt()), right.withColumn("rsalt", self._right_salts())
            names.append("salt")
        same = [F.col(f"l{name}") == F.col(f"r{name}") for name in names]
        return self._shuffled(left).join(right, self._pairs.condition(*same), SPARK_HOW[how])

    def matches(self) -> DataFrame:
        """Return all matching pairs."""
        rows = self.joined("inner")
        return rows.unionByName(self._swapped(), allowMissingColumns=True) if self._bins.above else rows

    def by_match(self, side: Side, how: str) -> DataFrame:
        """Return the rows of a side with a match (``semi``) or without one (``anti``)."""
        rows = self._pairs.left if side == "left" else self._pairs.right
        return self._pairs.by_marks(rows, side, self._marks(side), how)

    def _marks(self, side: Side) -> DataFrame:
        """Return match marks of a side, with duplicates."""
        decisive = self._pairs.decisive[0 if side == "left" else 1]
        inputs = [self._sides(), *([self._swapped_sides()] if self._bins.above else [])]
        marks = []
        for left, right in inputs:
            rows, others = (left, right) if side == "left" else (right, left)
            marks.append(rows.join(others, self._same_bin(), "left_semi").select(*decisive))
        return reduce(lambda one, other: one.unionAll(other), marks)

    def _swapped(self) -> DataFrame:
        """Return the pairs of right rows with left rows of lower levels."""
        left, right = self._swapped_sides()
        return self._shuffled(left).join(right, self._same_bin(), "inner")

    def _shuffled(self, rows: DataFrame) -> DataFrame:
        """Repartition a side if the join compares many pairs, so that Spark also shuffles the other."""
        return rows.hint("merge") if self._bins.is_spread else rows

    def _sides(self) -> tuple[DataFrame, DataFrame]:
        """Return left rows in one bin each, and right rows in all bins where they may match."""
        left = self._left.withColumns({"llevel": F.col("lown"), "lbin": self._bin("lfrom", F.col("lown"))})
        return left, self._replicated(self._right, "r", self._bins.left, lowest=F.col("rown"))

    def _swapped_sides(self) -> tuple[DataFrame, DataFrame]:
        """Return left rows in all bins where they may match right rows of higher levels, which are in one bin each."""
        above = F.when(F.col("rown").isin(*self._bins.above), F.col("rown"))
        right = self._right.withColumns({"rlevel": above, "rbin": self._bin("rfrom", above)}).where(
            "rlevel IS NOT NULL"
        )
        return self._replicated(self._left, "l", self._bins.above, lowest=F.col("lown") + 1), right

    def _same_bin(self) -> Column:
        return self._pairs.condition(F.col("llevel") == F.col("rlevel"), F.col("lbin") == F.col("rbin"))

    def _bin(self, code: str, level: Column) -> Column:
        """Return the number of a code's bin on a level."""
        return _number(F.col(code), level, self._bins)

    def _replicated(self, rows: DataFrame, side: str, levels: tuple[int, ...], *, lowest: Column) -> DataFrame:
        """Copy each row of a side into all bins where a matching row of the other may start."""
        is_point = side == "r" and not self._bins.right
        bins = []
        for level in levels:
            first, last = (self._bin(f"{side}{end}", F.lit(level)) for end in ("from", "to"))
            before = (F.try_subtract(first, F.lit(back).cast("long")) for back in range(self._bins.reach, 0, -1))
            bins += [(level, number) for number in (*before, first)]
            for on in range(1, 1 if is_point else self._bins.reach + 1):
                further = F.try_add(first, F.lit(on).cast("long"))
                bins.append((level, F.when(further <= last, further)))
        structs = [
            F.struct(
                F.lit(level).alias("level"), (number if is_point else F.when(lowest <= level, number)).alias("bin")
            )
            for level, number in bins
        ]
        rows = rows.where(F.col(f"{side}from").isNotNull()).withColumn("place", F.explode(F.array(*structs)))
        names = {f"{side}level": F.col("place.level"), f"{side}bin": F.col("place.bin")}
        return rows.withColumns(names).drop("place").where(F.col(f"{side}bin").isNotNull())

    def _left_salt(self) -> Column:
        """Return a left row's part of a hot bin, from the row's content, so that retries agree."""
        content = F.xxhash64(*self._pairs.hashable[0], "lfrom", "lto")
        salt = F.lit(0)
        for hot in self._bins.hot:
            salt = F.when(self._is_in(hot, "l"), F.pmod(content, F.lit(hot.parts)).cast("int")).otherwise(salt)
        return salt

    def _right_salts(self) -> Column:
        """Return all parts of a right row's bin."""
        parts = F.lit(1)
        for hot in self._bins.hot:
            parts = F.when(self._is_in(hot, "r"), F.lit(hot.parts)).otherwise(parts)
        return F.explode(F.sequence(F.lit(0), parts - 1))

    def _is_in(self, hot: HotBin, side: str) -> Column:
        keys = [pair[0 if side == "l" else 1] for pair in self._pairs.keys]
        here = (F.col(f"{side}bin") == F.lit(hot.number)) & (F.col(f"{side}level") == F.lit(hot.level))
        return here & (key_hash(keys) == F.lit(hot.key)) if keys else here


def _placed(pairs: Pairs, rows: DataFrame, side: str, bins: Bins) -> DataFrame:
    """Add the numbers of the smallest bins that a row spans, and its level, as columns."""
    assert pairs.spans is not None
    ends = {f"{side}from": F.col(f"{side}first"), f"{side}to": F.col(f"{side}last")}
    if pairs.spans.is_real:
        # Rounding and clipping keep the order.
        for name, end in ends.items():
            scaled = end.cast("double") * F.lit(2.0**-bins.unit)
            ends[name] = F.floor(F.least(F.greatest(scaled, F.lit(-_LIMIT)), F.lit(_LIMIT))).cast("long")
    rows = rows.withColumns(ends)
    levels = bins.left if side == "l" else bins.right
    if not levels:
        return rows.withColumn(f"{side}own", F.lit(None).cast("int"))
    own = F.raise_error(F.lit(_TOO_LONG)).cast("int")
    for level in reversed(levels):
        first, last = (_number(F.col(f"{side}{end}"), F.lit(level), bins) for end in ("from", "to"))
        own = F.when(F.try_subtract(last, first) <= bins.reach, F.lit(level)).otherwise(own)
    return rows.withColumn(f"{side}own", F.when(F.col(f"{side}from").isNotNull(), own))


def _number(code: Column, level: Column, bins: Bins) -> Column:
    """Return the number of a code's bin on a level."""
    return F.call_function("shiftright", code, level - F.lit(bins.unit))
