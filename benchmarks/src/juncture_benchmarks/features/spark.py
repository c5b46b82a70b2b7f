"""Ten joins to one spine on Spark: by Juncture in one pass and one after the other, and as Spark users write them.

Every run has a session of its own, which has joined tiny tables before the clock starts. The result goes to Spark's
``noop`` sink, and on its way there it is observed: its rows are counted, and the values of each
column counted and summed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.features.local import names_of, spec_of, tables_of
from juncture_benchmarks.features.task import TABLES, WINDOW, Table, Task
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.session import bench_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NAMES", "SparkTrial", "contestant", "joined", "observed"]

_TITLES = {
    "juncture": "Juncture, one pass",
    "juncture-chain": "Juncture, one join after the other",
    "union-and-window": "Spark, union and window for each table",
}

NAMES = tuple(_TITLES)
"""The contestants."""

_UNION = """
    SELECT {spine}, {shown}
    FROM (
        SELECT *, {figures} FROM (
            SELECT {spine}, true AS is_left, CAST(NULL AS STRUCT<value: BIGINT>) AS candidate FROM {{left}}
            UNION ALL
            SELECT {nulls}, false, struct(value) FROM {{right}}
        ) WINDOW over_key AS ({window})
    )
    WHERE is_left
"""
"""Union the spine and a table, and look back over both in the order of time within each key."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe a contestant that does the joins, having warmed up on tiny tables."""
    return Contestant(
        name=name,
        title=_TITLES[name],
        package="pyspark",
        ours=name.startswith("juncture"),
        trial=f"{__name__}:SparkTrial",
        arguments={"name": name, "task": asdict(task), "tiny": asdict(tiny)},
    )


class SparkTrial:
    """One run on Spark."""

    def __init__(self, name: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._name, self._task, self._tiny = name, Task(**task), Task(**tiny)
        self._session = bench_session()

    def warm_up(self) -> None:
        """Join the tiny tables."""
        observed(joined(self._name, self._tiny, self._session))

    def run(self) -> Answer:
        """Join the tables, what it takes to plan it included, and throw the rows away one by one."""
        return observed(joined(self._name, self._task, self._session))

    def answer(self, result: Answer) -> dict[str, Any]:
        """Return the observed values, and end the session."""
        self._session.stop()
        return asdict(result)


def joined(name: str, task: Task, session: SparkSession) -> DataFrame:
    """Return the query of a contestant."""
    import juncture as jn

    frame: DataFrame
    if name == "juncture":
        frame = jn.join_many(task.path("spine"), tables_of(task), spark=session)
        return frame
    frame = session.read.parquet(task.path("spine"))
    for each in TABLES:
        right = session.read.parquet(task.path(each.name))
        if name == "union-and-window":
            frame = _union_and_window(frame, right, each, session)
            continue
        frame = jn.plan(frame, right, spec_of(each)).execute().withColumnsRenamed(names_of(each))
    return frame


def _union_and_window(left: DataFrame, right: DataFrame, table: Table, session: SparkSession) -> DataFrame:
    """Return a table's join as it is written in Spark's SQL."""
    name, key = table.name, table.key
    if table.kind == "lookup":
        return left.join(right.withColumnRenamed("value", name), key, "left").select(*left.columns, name)
    by_time = f"PARTITION BY {key} ORDER BY ts"
    if table.kind == "asof":
        figures, shown = ["last(candidate, true)"], [f"found0.value AS {name}"]
        window = f"{by_time}, is_left ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    else:
        figures, shown = (
            ["count(candidate)", "sum(candidate.value)"],
            [f"found0 AS {name}_count", f"found1 AS {name}_sum"],
        )
        window = f"{by_time} RANGE BETWEEN {WINDOW} PRECEDING AND CURRENT ROW"
    query = _UNION.format(
        spine=", ".join(left.columns),
        nulls=", ".join(column if column in (key, "ts") else "NULL" for column in left.columns),
        figures=", ".join(f"{figure} OVER over_key AS found{number}" for number, figure in enumerate(figures)),
        shown=", ".join(shown),
        window=window,
    )
    return session.sql(query, left=left, right=right)


def observed(frame: DataFrame) -> Answer:
    """Run a query to its end, discard the rows, and return a checksum of them."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    names = sorted(name for each in TABLES for name in names_of(each).values())
    figures = [F.count(F.lit(1)).alias("rows")]
    for place, name in enumerate(names):
        figures += [F.count(name).alias(f"n{place}"), F.sum(name).alias(f"s{place}")]
    observation = Observation()
    frame.observe(observation, *figures).write.format("noop").mode("overwrite").save()
    found = observation.get
    sums = [found[f"{figure}{place}"] or 0 for place in range(len(names)) for figure in ("n", "s")]
    return Answer(rows=found["rows"], sums=tuple(sums))
