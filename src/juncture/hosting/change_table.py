"""Joins of a stream of changes with a table that does not change: every task has the whole table, without state.

The matches of a row of the stream depend on the table alone. So the changes of the result are the matches of changed
rows, with the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import LongType, StructField, StructType

from juncture.errors import PlanError
from juncture.hosting.change_frames import ChangeSide, formatted
from juncture.hosting.table import plan_of_left_table, plan_with_table
from juncture.incremental.change_batch import WEIGHT, ChangeFormat, read_changes, written_schema
from juncture.incremental.state.records import weighted
from juncture.planner.plan import Plan
from juncture.runtime.context import JoinContext
from juncture.spark.exchange import finish, task_output
from juncture.spark.plan import Query
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class WeightedRows(OutputStage):
    """Converts changes of any format to rows with weights."""

    feed: Feed
    schema: pa.Schema
    side: Side

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for table in self.feed.chunks(batches):
            for rows, weights in read_changes(table, self.schema, self.side):
                yield pa.Table.from_batches([weighted(rows, weights)])


def plan_with_right_table(spec: Any, left: DataFrame, right: Any, *, output: ChangeFormat) -> Plan:
    """Plan a join of a stream of changes with a right table."""
    if spec.how in ("right", "full"):
        raise PlanError(
            f"how={spec.how!r} needs state for right rows, but a right table that is not a stream has none. "
            f"{read_as_stream('right')}",
            name="JN-CHANGES-TABLE",
        )
    rows = _weighted(left, "left")
    planned = plan_with_table(spec, rows, right)
    return _with_format(planned, "left", output)


def plan_with_left_table(spec: Any, left: Any, right: DataFrame, *, output: ChangeFormat) -> Plan:
    """Plan a join of a left table with a stream of changes."""
    if spec.needs_all_matches:
        what = "agg=" if spec.agg else f"how={spec.how!r}"
        what = "An as-of join" if spec.ranks_matches else what
        raise PlanError(
            f"{what} needs state for right rows, because the right table is a stream of changes and the left one is "
            f"not. Only how='inner' and 'right' work without state. {read_as_stream('left')}",
            name="JN-CHANGES-TABLE",
        )
    rows = _weighted(right, "right")
    return _with_format(plan_of_left_table(spec, left, rows), "right", output)


def _with_format(planned: Plan, side: Side, output: ChangeFormat) -> Plan:
    """Return a plan whose result, with the weights of a side in a column, is in an output format."""
    place = next(place for place, each in enumerate(planned.join.output) if (each.side, each.source) == (side, WEIGHT))
    shown = [field for each, field in enumerate(planned.join.output_schema) if each != place]
    written_schema(pa.schema(shown), output)
    frame = planned.execute()
    names = [*(field.name for field in shown), WEIGHT]
    safe = [f"c{place}" for place in range(len(names))]
    last = [*(each for each in range(len(names)) if each != place), place]
    frame = frame.toDF(*safe).select(*(F.col(safe[each]) for each in last)).toDF(*names)
    emitted = ("emitted", "the changes of each micro-batch, without cancelling an insert against a delete")
    return replace(planned, _run=Query(formatted(frame, output)).execute, details=(*planned.details, emitted))


def read_as_stream(side: str) -> str:
    """Return the remedy for a table that has to be a stream, because the join needs its state."""
    return (
        f"Read the {side} table with spark.readStream. A stream without a column that marks changes inserts all of its "
        "rows."
    )


def _weighted(frame: DataFrame, of: Side) -> DataFrame:
    """Return the changed rows of a side with a column of weights."""
    side = ChangeSide.of(frame, of)
    changes, feed = side.rows(side.schema.names)
    schema = StructType([*side.spark_schema.fields, StructField(WEIGHT, LongType())])
    stage = WeightedRows(feed, side.schema, of, output=task_output(schema), memory_bytes=0)
    return finish(changes, stage, schema)
