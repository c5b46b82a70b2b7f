"""Statistics of the inputs of an equality join, and the jobs that measure them."""

from __future__ import annotations

from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.equi.salt import SampledKeys, keeps_unmatched
from juncture.spark.sql.expressions import key_hash
from juncture.spark.sql.join import Pairs
from juncture.spark.statistics import SAMPLE_ROWS, Statistics
from juncture.spec.schema import How, Side

_SAMPLE_ROWS_PER_CORE = 200


class EquiStatistics(Statistics):
    """The statistics of two inputs and of their keys."""

    def keys(self, pairs: Pairs, how: How, cores: int) -> dict[Side, SampledKeys]:
        """Sample the keys of both sides in one SQL job, and record the share of the hottest.

        Rows with a null key that matches nothing are excluded, as Spark drops them before the shuffle.
        """
        wanted = max(SAMPLE_ROWS, _SAMPLE_ROWS_PER_CORE * cores)
        table = reduce(DataFrame.unionAll, (self._hashed(name, pairs, how, wanted) for name in self.sides)).toArrow()
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
        frame = pairs.left if name == "left" else pairs.right
        keys = [pair[0 if name == "left" else 1] for pair in pairs.keys]
        key = key_hash(keys)
        if not pairs.nulls_equal and not keeps_unmatched(how, name):
            key = F.when(reduce(Column.__and__, (F.col(each).isNotNull() for each in keys)), key)
        return self.some(name, frame, wanted).select(F.lit(name).alias("side"), key.alias("key"))
