"""Joins by key in which hot keys are split: salting.

A shuffle brings all rows of a key to one task. Rows of a hot key get a number, the salt, on the side with more rows.
The other side's rows of that key are replicated, once per salt, so each pair still occurs once. A replicated row sees
only some of its matches in each partition. Where the join keeps rows by whether they match, replicated rows are
therefore joined separately, once each.

Keys are identified by hash. Equal keys have equal hashes, so correctness does not depend on the sample.

Source of the idea: the answers to skew in Spark's tuning guide, and to hot keys in "Understanding Join Algorithms".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.kernels.array_types import Floats
from juncture.planner.constants import Constants
from juncture.planner.statistics import Resources
from juncture.spark.frames import to_arrow, union_all
from juncture.spark.sql import SPARK_HOW, Pairs, key_hash, salt_of
from juncture.spark.statistics import SAMPLE_ROWS, Statistics, hot_groups
from juncture.spec.schema import SIDES, How, Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_SAMPLE_ROWS_PER_CORE = 200


@dataclass(frozen=True)
class Hint:
    """The name of Spark's hint, and the side to broadcast or to build hash tables of."""

    name: str
    side: Side = "right"

    def give(self, left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return both sides, with the hint on one."""
        return (left.hint(self.name), right) if self.side == "left" else (left, right.hint(self.name))


@dataclass(frozen=True)
class HotKey:
    """The hash of a key that would dominate one task, the side whose rows are split, and the number of parts."""

    key: int
    divided: Side
    parts: int


@dataclass(frozen=True)
class SampledKeys:
    """Key hashes of sampled rows, and the number of rows that the sample stands for."""

    hashes: npt.NDArray[np.int64]
    rows: float

    def rows_of(self, keys: npt.NDArray[np.int64]) -> Floats:
        """Return the approximate number of rows of each key."""
        distinct, counts = np.unique(self.hashes, return_counts=True)
        if not len(distinct):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        return np.where(distinct[at] == keys, counts[at], 0) * (self.rows / len(self.hashes))


def keeps_unmatched(how: How, side: Side) -> bool:
    """Return whether the join keeps or drops a side's rows by whether they match."""
    return how in (("left", "full", "semi", "anti") if side == "left" else ("right", "full"))


def _cost_s(left: Floats, right: Floats, c: Constants) -> Floats:
    """Return one task's seconds for keys with these numbers of rows."""
    return ((left + right) * (c.shuffle_ns + c.key_sort_ns) + left * right * c.output_row_ns) / 1e9


def may_be_uneven(left_rows: int, right_rows: int, constants: Constants) -> bool:
    """Return whether it would matter if all rows had one key: small inputs take less than starting a stage."""
    cost = _cost_s(np.array(float(left_rows)), np.array(float(right_rows)), constants)
    return bool(cost > constants.stage_s)


def choose_hot_keys(left: SampledKeys, right: SampledKeys, resources: Resources) -> tuple[HotKey, ...]:
    """Return the keys that would keep one task running after all others have ended."""
    keys, counts = np.unique(np.concatenate([left.hashes, right.hashes]), return_counts=True)
    left_counts, right_counts = left.rows_of(keys), right.rows_of(keys)
    cost = _cost_s(left_counts, right_counts, resources.constants)
    fair = cost.sum() / (2 * resources.cores)
    return tuple(
        HotKey(int(keys[i]), "left" if left_counts[i] >= right_counts[i] else "right", parts)
        for i, parts in hot_groups(cost, counts, fair, least=resources.constants.stage_s)
    )


def copied_rows(hot: tuple[HotKey, ...], side: Side, sampled: SampledKeys) -> float:
    """Return the approximate number of replicated rows of a side."""
    repeated = [key for key in hot if key.divided != side]
    rows = sampled.rows_of(np.array([key.key for key in repeated], np.int64))
    return float(sum(count * (key.parts - 1) for count, key in zip(rows, repeated, strict=True)))


def join_salted(pairs: Pairs, how: How, hot: tuple[HotKey, ...], hint: Hint) -> DataFrame:
    """Return the result of a join by key with hot keys split; `hot` may be empty."""
    if not hot:
        return pairs.result(_joined(pairs, pairs.sides["left"].rows, pairs.sides["right"].rows, how, hint))
    salted = _Salted(pairs, hot, hint)
    if how in ("semi", "anti"):
        return pairs.result(salted.left_by_match(how))
    rows = salted.joined(how)
    for side in SIDES:
        if keeps_unmatched(how, side) and any(key.divided != side for key in hot):
            rows = salted.without_unmatched_copies(rows, side)
            rows = rows.unionByName(salted.repeated_by_match(side, "anti"), allowMissingColumns=True)
    return pairs.result(rows)


def _joined(pairs: Pairs, left: DataFrame, right: DataFrame, how: str, hint: Hint, *more: Column) -> DataFrame:
    left, right = hint.give(left, right)
    return left.join(right, pairs.condition(*more), SPARK_HOW[how])


class _Salted:
    """Both sides with their salts: ``lhash``, ``lcopied`` (whether a row is replicated), ``lsalt``, ``rhash`` etc."""

    def __init__(self, pairs: Pairs, hot: tuple[HotKey, ...], hint: Hint) -> None:
        self._pairs, self._hot, self._hint = pairs, hot, hint
        self._rows: dict[Side, DataFrame] = {"left": self._flagged("left"), "right": self._flagged("right")}
        self._parts: dict[Side, DataFrame] = {side: self._salted(side) for side in self._rows}

    def joined(self, how: str) -> DataFrame:
        """Return all matching pairs and unmatched rows; unmatched replicated rows are wrong."""
        return _joined(self._pairs, self._parts["left"], self._parts["right"], how, self._hint, self._same_salt())

    def without_unmatched_copies(self, rows: DataFrame, side: Side) -> DataFrame:
        """Drop copies of a side's rows that have no match in their partition."""
        other = "r" if side == "left" else "l"
        unmatched = F.col(f"{other}salt").isNull() & F.coalesce(F.col(f"{side[0]}copied"), F.lit(False))
        return rows.where(~unmatched)

    def left_by_match(self, how: str) -> DataFrame:
        """Return the left rows with a match (``semi``) or without one (``anti``)."""
        once = self._parts["left"].where(~F.col("lcopied"))
        rows = _joined(self._pairs, once, self._parts["right"], how, self._hint, self._same_salt())
        if not self._divided("right"):
            return rows
        return rows.unionByName(self.repeated_by_match("left", how), allowMissingColumns=True)

    def repeated_by_match(self, side: Side, how: str) -> DataFrame:
        """Return the replicated rows of a side with a match (``semi``) or without one (``anti``).

        One row per key decides; with a residual condition, one of those that agree in the deciding columns.
        """
        pairs, other = self._pairs, _other(side)
        rows = self._rows[side].where(F.col(f"{side[0]}copied"))
        others = self._parts[other].where(F.col(f"{other[0]}hash").isin([key.key for key in self._divided(other)]))
        if pairs.match is None:
            keys = others.select(*pairs.sides[other].keys).distinct()
            return rows.join(keys, pairs.condition(), SPARK_HOW[how])
        copies = self._parts[side].where(F.col(f"{side[0]}copied"))
        matched = copies.join(others, pairs.condition(self._same_salt()), "left_semi")
        return pairs.by_marks(rows, side, matched.select(*pairs.sides[side].decisive).distinct(), how)

    def _flagged(self, side: Side) -> DataFrame:
        """Add to each row of a side whether it is replicated; rows that cannot match never are."""
        keys = self._pairs.sides[side].keys
        rows = self._pairs.sides[side].rows.withColumn(f"{side[0]}hash", key_hash(keys))
        copied = F.col(f"{side[0]}hash").isin([key.key for key in self._divided(_other(side))])
        if not self._pairs.nulls_equal:
            copied = reduce(lambda one, two: one & two, (F.col(key).isNotNull() for key in keys), copied)
        return rows.withColumn(f"{side[0]}copied", copied)

    def _salted(self, side: Side) -> DataFrame:
        """Give each row of a side its salt, or replicate it with all salts."""
        name, key = f"{side[0]}salt", F.col(f"{side[0]}hash")
        # By content alone, equal rows would share a salt.
        content = F.xxhash64(*self._pairs.sides[side].hashable, F.spark_partition_id())
        salt = salt_of(content, ((key == hot.key, hot.parts) for hot in self._divided(side)))
        rows = self._rows[side].withColumn(name, salt)
        if not self._divided(_other(side)):
            return rows
        every = F.array(F.col(name))
        for hot in self._divided(_other(side)):
            all_salts = F.sequence(F.lit(0), F.lit(hot.parts - 1))
            every = F.when(F.col(f"{side[0]}copied") & (key == hot.key), all_salts).otherwise(every)
        return rows.withColumn(name, F.explode(every))

    def _divided(self, side: Side) -> list[HotKey]:
        return [key for key in self._hot if key.divided == side]

    def _same_salt(self) -> Column:
        return F.col("lsalt") == F.col("rsalt")


def _other(side: Side) -> Side:
    return "right" if side == "left" else "left"


class EquiStatistics(Statistics):
    """The statistics of two inputs and of their keys."""

    def keys(self, pairs: Pairs, how: How, cores: int) -> dict[Side, SampledKeys]:
        """Sample the keys that can match of both sides in one SQL job, and record the share of the hottest."""
        wanted = max(SAMPLE_ROWS, _SAMPLE_ROWS_PER_CORE * cores)
        table = to_arrow(union_all(self._hashed(name, pairs, how, wanted) for name in self.sides))
        sampled: dict[Side, SampledKeys] = {}
        for name in self.sides:
            mine = table.filter(pc.equal(table["side"], name))["key"]
            hashes = mine.drop_null().to_numpy()
            sampled[name] = SampledKeys(hashes, (self.of(name).rows or 0) * len(hashes) / max(len(mine), 1))
            self.learn_keys(name, hashes, len(mine))
        self.jobs.append(f"sampled {table.num_rows:,} keys of both sides")
        return sampled

    def _hashed(self, name: Side, pairs: Pairs, how: How, wanted: int) -> DataFrame:
        """Return the key hashes of sampled rows, null for rows that cannot match."""
        keys = pairs.sides[name].keys
        key = key_hash(keys)
        if not pairs.nulls_equal and not keeps_unmatched(how, name):
            key = F.when(reduce(Column.__and__, (F.col(each).isNotNull() for each in keys)), key)
        return self.some(name, pairs.sides[name].rows, wanted).select(F.lit(name).alias("side"), key.alias("key"))
