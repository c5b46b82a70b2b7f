"""Joins of a stream of rows or of changes with a table: every task has the whole table, and joins each micro-batch.

There is no state and no shuffle. The table is the one that existed at planning: a DataFrame is collected then, and
Parquet files that have changed since raise an error. The matches of a row of the stream depend on the table alone. So
the changes of the result are the matches of changed rows, with the same weights.
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
from juncture.hosting.endless_plan import UNENDING, without_end
from juncture.incremental.changes.change_batch import WEIGHT, ChangeFormat, read_changes, written_schema
from juncture.incremental.state.records import weighted
from juncture.inputs.kinds import is_stream, kind_of
from juncture.planner.plan import Plan
from juncture.planner.statistics import Stats
from juncture.runtime.context import JoinContext
from juncture.spark.exchange import finish, task_output
from juncture.spark.plan import Query
from juncture.spark.plan import plan as plan_of_tables
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALGORITHM = "broadcast"


def plan_with_table(
    spec: Any, left: Any, right: Any, *, algorithm: str = "auto", lazy: bool = False, stats: Stats | None = None
) -> Plan:
    """Plan a join of a stream with a table; the stream must be the left side."""
    if is_stream(right):
        raise PlanError(
            "The right table is a streaming DataFrame, but the left one is not, so each new right row would change "
            "earlier results. Pass the stream as the left table, or join inside foreachBatch, where each micro-batch "
            "is a table.",
            name="JN-STREAM-RIGHT",
        )
    _check(spec, algorithm, lazy=lazy, is_read=kind_of(right, "right") == "spark")
    planned = plan_of_tables(spec, left, right, algorithm=_ALGORITHM, stats=stats)
    return _unending(planned, "left", right)


def _unending(planned: Plan, side: Side, table: Any) -> Plan:
    """Return a plan that says which side is a stream, and refuses methods that need an end."""
    options = tuple(
        replace(option, cost_s=None, remark=UNENDING) if option.algorithm == planned.algorithm else option
        for option in planned.choice.options
    )
    reason = f"the {side} side is a stream, which cannot be shuffled or buffered"
    choice = replace(planned.choice, reason=reason, options=options)
    return without_end(replace(planned, choice=choice, details=(*planned.details, *_words(side, table))))


def _check(spec: Any, algorithm: str, *, lazy: bool, is_read: bool) -> None:
    if spec.how in ("right", "full"):
        kept = "inner" if spec.how == "right" else "left"
        raise PlanError(
            f"how={spec.how!r} returns unmatched right rows, but a stream has no end at which they are known. Pass "
            f"how={kept!r}, and find unmatched right rows with a join of tables.",
            name="JN-STREAM-HOW",
        )
    if algorithm not in ("auto", _ALGORITHM):
        raise PlanError(
            f"algorithm={algorithm!r} needs all left rows, but the left table is a stream. Pass algorithm='auto', "
            "which sends the right table to every task.",
            name="JN-ALGORITHM-UNSUITABLE",
        )
    if lazy and is_read:
        raise PlanError(
            "lazy=True does not allow Juncture to collect the right table, which every task of a stream needs. "
            "Remove lazy=, or pass the right table as a path to Parquet files, which tasks read themselves.",
            name="JN-LAZY-COLLECT",
        )


def _words(side: Side, table: Any) -> tuple[tuple[str, str], ...]:
    if kind_of(table, "left" if side == "right" else "right") == "spark":
        read = "as of planning; plan the join again to see newer rows"
    else:
        read = "read by each task from the files as of planning, which must not change"
    return (
        ("stream", f"the {side} side; each micro-batch is joined on its own, and its rows are final"),
        ("state", "none"),
        ("table", read),
    )


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


def plan_changes_with_table(spec: Any, left: DataFrame, right: Any, *, output: ChangeFormat) -> Plan:
    """Plan a join of a stream of changes with a right table."""
    if spec.how in ("right", "full"):
        raise PlanError(
            f"how={spec.how!r} needs state for right rows, but a right table that is not a stream has none. "
            f"{_read_as_stream('right')}",
            name="JN-CHANGES-TABLE",
        )
    rows = _weighted(left, "left")
    planned = plan_with_table(spec, rows, right)
    return _with_format(planned, "left", output)


def plan_table_with_changes(spec: Any, left: Any, right: DataFrame, *, output: ChangeFormat) -> Plan:
    """Plan a join of a left table with a stream of changes."""
    if spec.needs_all_matches:
        what = "agg=" if spec.agg else f"how={spec.how!r}"
        what = "An as-of join" if spec.ranks_matches else what
        raise PlanError(
            f"{what} needs state for right rows, because the right table is a stream of changes and the left one is "
            f"not. Only how='inner' and 'right' work without state. {_read_as_stream('left')}",
            name="JN-CHANGES-TABLE",
        )
    rows = _weighted(right, "right")
    # With how="inner" and "right", each right row decides alone.
    planned = plan_of_tables(spec, left, rows, algorithm=f"{_ALGORITHM}_left")
    return _with_format(_unending(planned, "right", left), "right", output)


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


def _read_as_stream(side: str) -> str:
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
