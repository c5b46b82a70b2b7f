"""Tables that come to Spark as streams: one file after the other, each a micro-batch."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "PARTITIONS",
    "ROCKS",
    "STORE",
    "Ran",
    "cut",
    "read_stream",
    "run",
    "take_back",
    "without_end",
    "write_files",
]

# Spark's settings of state, and the store that can host operators.
PARTITIONS = "spark.sql.shuffle.partitions"
STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_FIRST = 1_700_000_000


def cut(table: pa.Table, chance: random.Random, batches: int) -> list[pa.Table]:
    """Return a table in so many pieces of random length."""
    ends = sorted(chance.randint(0, table.num_rows) for _ in range(batches - 1))
    return [table.slice(a, b - a) for a, b in zip([0, *ends], [*ends, table.num_rows], strict=True)]


def write_files(pieces: Sequence[pa.Table], folder: Path) -> None:
    """Write pieces as files, which a stream reads in turn, after those that are there."""
    folder.mkdir(exist_ok=True)
    there = len(list(folder.glob("*.parquet")))
    for number, piece in enumerate(pieces, there):
        path = folder / f"{number:03}.parquet"
        pq.write_table(piece, path)
        # Files are read in the order of their times, which may be the same.
        os.utime(path, (_FIRST + number, _FIRST + number))


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the stream of a folder's files, one in each micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


@dataclass(frozen=True)
class Ran:
    """What came of a stream: all that it has ever given, and how many rows its state still holds."""

    answer: pa.Table
    state_rows: int


def run(frame: DataFrame, folder: Path) -> Ran:
    """Run a stream over all that is there, going on where it was left."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "answer"))
    )
    query.awaitTermination()
    answer = frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "answer")).toArrow()
    return Ran(answer, sum(each["numRowsTotal"] for each in query.lastProgress["stateOperators"]))


def take_back(folder: Path) -> None:
    """Have the last micro-batch of a stream that was run be one that all was killed in before it was committed."""
    for log in (folder / "checkpoint" / "commits", folder / "answer" / "_spark_metadata"):
        last = max(int(path.name) for path in log.iterdir() if path.name.isdecimal())
        for path in (log / str(last), log / f".{last}.crc"):
            path.unlink(missing_ok=True)


def without_end(answer: pa.Table) -> pa.Table:
    """Return an answer without the rows that came last, numbered -1, which nothing comes after to let them go."""
    numbers = [answer.column(name).to_pylist() for name in ("n", "n_right") if name in answer.column_names]
    return answer.filter(pa.array([-1 not in row for row in zip(*numbers, strict=True)], pa.bool_()))
