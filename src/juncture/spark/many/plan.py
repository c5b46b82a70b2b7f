"""Plans of joins of many tables to one spine on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import is_null_type
from juncture.errors import PlanError, SchemaError, spark_errors
from juncture.inputs.kinds import kind_of
from juncture.local.many.answers import about
from juncture.planner.decision import Decision, Estimate
from juncture.planner.many import ManyPlan, TablePlan
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.asof.plan import check_table_order
from juncture.spark.exchange import SHUFFLE_PARTITIONS, collected
from juncture.spark.frames import union_all
from juncture.spark.input.plain_scan import open_side
from juncture.spark.input.sides import FrameSide, SparkSide, in_jvm
from juncture.spark.many.query import ManyQuery, Placed, Steps, field_of, report_of, steps_of
from juncture.spark.plan import plan_resolved
from juncture.spark.schema import check_times, check_types
from juncture.spark.session.session import check_workers
from juncture.spark.session.session import resources as resources_of
from juncture.spark.sql import computed_sides
from juncture.spark.statistics import Statistics
from juncture.spec.many import ResolvedTable, Right, resolve_table
from juncture.spec.resolved import refuse_orders
from juncture.spec.schema import SIDES, left_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _Inputs:
    spine_columns: list[str]  # values that tables compare in place of columns follow them
    spine_side: SparkSide  # as tasks read it, like the `placed` tables
    spine_stats: SideStats
    rights: Mapping[str, Right]  # as passed
    placed: tuple[Placed, ...]


@spark_errors()
def plan(
    spine: Any,
    rights: Mapping[str, Right],
    *,
    session: SparkSession | None = None,
    resources: Resources | None = None,
) -> ManyPlan:
    """Plan joins of DataFrames, or of Parquet files that Spark's tasks read, to a spine."""
    all_inputs = [spine, *(right.table for right in rights.values())]
    session = session or next(table for table in all_inputs if kind_of(table, "left") == "spark").sparkSession
    check_workers(session, [])
    resources = resources or resources_of(session)
    inputs, jobs = _opened(session, spine, rights, resources)
    shuffle_partitions = int(session.conf.get(SHUFFLE_PARTITIONS) or 1)
    steps = steps_of(inputs.placed, inputs.spine_side, inputs.spine_stats, resources, shuffle_partitions)
    placed = {each.table.name: each for each in steps.tables}
    frame, alone, built = _built(inputs, steps, resources)
    return ManyPlan(
        engine="spark",
        spine=inputs.spine_stats,
        tables={
            each.table.name: TablePlan(
                table=each.table,
                decision=alone.get(each.table.name) or _decided(placed[each.table.name], inputs, resources),
            )
            for each in inputs.placed
        },
        details=tuple(steps.words()),
        jobs=(*jobs, *built),
        _run=lambda _report: frame,
        _count_matches=partial(report_of, list(rights), inputs.spine_side, steps, resources),
    )


def _opened(
    session: SparkSession, spine: Any, rights: Mapping[str, Right], resources: Resources
) -> tuple[_Inputs, list[str]]:
    """Open the inputs: schemas and sizes."""
    spine_input = spine_side = open_side(spine, "left", session, resources.cores)
    taken, placed = set(spine_input.schema.names), list[Placed]()
    for name, right in rights.items():
        with about(name):
            right_side = open_side(right.table, "right", session, resources.cores)
            table = resolve_table(name, right, spine_input.schema, right_side.schema, taken)
            refuse_orders(table.join, "a join of many tables on Spark")
            check_times(spine_input.spark_schema, right_side.spark_schema, session)
            join, spine_side, right_side = computed_sides(table.join, spine_side, right_side)
            table = replace(table, join=join)
            taken.update(spine_side.schema.names)
            check_types(join, spine_side.spark_schema, right_side.spark_schema)
            _check_nulls(table)
            check_table_order(table.join)
            stats = Statistics(spine_input, right_side, None).stats
            placed.append(Placed(table, right_side, stats.right))
    tables = ((each.table.name, each.side, each.stats) for each in placed)
    (spine_stats, *counted), jobs = _counted([("spine", spine_side, stats.left), *tables])
    with_stats = tuple(replace(each, stats=one) for each, one in zip(placed, counted, strict=True))
    return _Inputs(spine_input.schema.names, spine_side, spine_stats, rights, with_stats), jobs


def _check_nulls(table: ResolvedTable) -> None:
    """Raise `SchemaError` for compared columns of the null type."""
    for side in SIDES:
        for name in table.join.compared(side):
            if is_null_type(table.join.schema(side).field(name).type):
                raise SchemaError(
                    f"The {side} column {name!r} is of type void. Cast it to the type of the column that it is "
                    "compared with.",
                    name="JN-TYPE-UNSUPPORTED",
                )


def _counted(inputs: Sequence[tuple[str, SparkSide, SideStats]]) -> tuple[list[SideStats], list[str]]:
    """Return the statistics of inputs, which have names for people, with the rows of DataFrames counted in one job."""
    stats, names = [side_stats for _, _, side_stats in inputs], list[str]()
    frames: list[DataFrame] = []
    for index, (name, side, side_stats) in enumerate(inputs):
        if side_stats.rows is None:
            assert isinstance(side, FrameSide)
            rows = side.frame.agg(F.count(F.lit(1)).alias("rows"))
            frames.append(rows.select(F.lit(index).alias("place"), "rows"))
            names.append(name)
    if not frames:
        return stats, []
    for row in collected(union_all(frames)).to_pylist():
        side_stats = stats[row["place"]]
        stats[row["place"]] = replace(
            side_stats, rows=row["rows"], provenance={**side_stats.provenance, "rows": "count"}
        )
    return stats, [f"counted {', '.join(names)}"]


def _built(inputs: _Inputs, steps: Steps, resources: Resources) -> tuple[DataFrame, dict[str, Decision], list[str]]:
    """Return the result, the decisions for tables that are joined alone, and the jobs that ran."""
    side, decisions, jobs = inputs.spine_side, dict[str, Decision](), list[str]()
    fields = list(side.spark_schema.fields)
    for each in steps.alone:
        with about(each.table.name):
            join = each.table.right_output.over(side.schema, each.table.join.right_schema)
            join = replace(join, output=(*left_columns(side.schema), *each.table.columns))
            single = plan_resolved(join, side, each.side, resources)
        decisions[each.table.name] = single
        jobs += single.jobs
        side = FrameSide.of(single.execute(), "left")
        fields += [field_of(each, name) for name in each.table.names]
    if not (steps.shuffles or steps.sent):
        frame = in_jvm(side, "left").frame
    else:
        query = ManyQuery(side, steps, resources.memory_bytes)
        for each in (*(one for shuffle in steps.shuffles for one in shuffle.tables), *steps.sent):
            fields += [field_of(each, name) for name in each.table.names]
        frame = query.frame(st.StructType(fields))
        jobs += query.jobs
    names = [*inputs.spine_columns, *(name for each in inputs.placed for name in each.table.names)]
    return _in_order(frame, [field.name for field in fields], names, fields), decisions, jobs


def _in_order(frame: DataFrame, have: list[str], want: list[str], fields: list[st.StructField]) -> DataFrame:
    """Return columns in the order of the tables, with their metadata."""
    index_of = {name: number for number, name in enumerate(have)}
    if have == want and not any(field.metadata for field in fields):
        return frame
    numbered = frame.toDF(*(f"c{i}" for i in range(len(have))))
    columns = [
        F.col(f"c{index_of[name]}").alias(f"d{number}", metadata=fields[index_of[name]].metadata)
        for number, name in enumerate(want)
    ]
    return numbered.select(*columns).toDF(*want)


def _decided(placed: Placed, inputs: _Inputs, resources: Resources) -> Decision:
    assert placed.choice is not None
    if inputs.rights[placed.table.name].algorithm not in ("auto", placed.choice.algorithm):
        raise PlanError(
            f"In table {placed.table.name!r}: algorithm={inputs.rights[placed.table.name].algorithm!r} applies to "
            "in-process joins only. On Spark, tables share shuffles of the spine. Remove algorithm=.",
            name="JN-ALGORITHM-UNSUITABLE",
        )
    rows = Estimate(value=inputs.spine_stats.rows, source="one row for each row of the spine")
    return Decision(
        join=placed.table.join,
        engine="spark",
        choice=replace(placed.choice, output_rows=rows),
        stats=Stats(left=inputs.spine_stats, right=placed.stats),
        resources=resources,
    )
