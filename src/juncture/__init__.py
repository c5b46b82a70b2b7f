"""Joins of large tables and streams by time or order, on Apache Spark and in-process over Arrow.

The names below are the whole public face. Each is imported when it is first used, so that ``import juncture`` costs
next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from juncture.errors import (
        DataError,
        JunctureError,
        PlanError,
        SchemaError,
        SpecError,
        StateError,
        error_from_spark,
        spark_errors,
    )
    from juncture.incremental.changes.source import Source
    from juncture.incremental.follow import Follower
    from juncture.incremental.join import ChangeJoin
    from juncture.incremental.many import ManyChangeJoin
    from juncture.incremental.sources.source import Snapshot, SourceEpoch
    from juncture.incremental.view import View
    from juncture.inputs.files import Files
    from juncture.joins.asof import join_asof
    from juncture.joins.changing import changes, changes_many, plan_changes, view
    from juncture.joins.equi import join
    from juncture.joins.execution import Execution
    from juncture.joins.following import change_files, follow, into_files, into_postgres, postgres, register_postgres
    from juncture.joins.histories import align, history
    from juncture.joins.inequality import join_overlap, join_range, join_where
    from juncture.joins.many import join_many, plan_many
    from juncture.joins.planning import plan, prepare
    from juncture.joins.spines import grid, interpolate
    from juncture.joins.streaming import plan_stream, stream, stream_listener, stream_many
    from juncture.matching.order import Order
    from juncture.pipeline.connector import Connector, ConnectorTable
    from juncture.pipeline.pipeline import Pipeline
    from juncture.pipeline.problems import PipelineError
    from juncture.pipeline.run import RunReport
    from juncture.pipeline.verify import StepVerification, VerifyReport
    from juncture.planner.many import ManyPlan, ManyReport
    from juncture.planner.plan import Analysis, Plan
    from juncture.planner.report import MatchReport, RowExplanation
    from juncture.planner.statistics import SideStats, Stats
    from juncture.predicate.intervals.bounds import bounds
    from juncture.spec.asof import Asof
    from juncture.spec.equi import Equi
    from juncture.spec.expression import Expr, expr
    from juncture.spec.many import Right
    from juncture.spec.overlap import Overlap
    from juncture.spec.range import Range
    from juncture.spec.where import Where
    from juncture.streams.join import StreamJoin
    from juncture.streams.many import ManyStreamJoin
    from juncture.streams.page import stream_page
    from juncture.streams.progress import StreamProgress

# Applications configure a handler to see the log.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.2.0"

__all__ = [
    "Analysis",
    "Asof",
    "ChangeJoin",
    "Connector",
    "ConnectorTable",
    "DataError",
    "Equi",
    "Execution",
    "Expr",
    "Files",
    "Follower",
    "JunctureError",
    "ManyChangeJoin",
    "ManyPlan",
    "ManyReport",
    "ManyStreamJoin",
    "MatchReport",
    "Order",
    "Overlap",
    "Pipeline",
    "PipelineError",
    "Plan",
    "PlanError",
    "Range",
    "Right",
    "RowExplanation",
    "RunReport",
    "SchemaError",
    "SideStats",
    "Snapshot",
    "Source",
    "SourceEpoch",
    "SpecError",
    "StateError",
    "Stats",
    "StepVerification",
    "StreamJoin",
    "StreamProgress",
    "VerifyReport",
    "View",
    "Where",
    "__version__",
    "align",
    "bounds",
    "change_files",
    "changes",
    "changes_many",
    "error_from_spark",
    "expr",
    "follow",
    "grid",
    "history",
    "interpolate",
    "into_files",
    "into_postgres",
    "join",
    "join_asof",
    "join_many",
    "join_overlap",
    "join_range",
    "join_where",
    "plan",
    "plan_changes",
    "plan_many",
    "plan_stream",
    "postgres",
    "prepare",
    "register_postgres",
    "spark_errors",
    "stream",
    "stream_listener",
    "stream_many",
    "stream_page",
    "view",
]

_HOME = {
    "Analysis": "juncture.planner.plan",
    "Asof": "juncture.spec.asof",
    "ChangeJoin": "juncture.incremental.join",
    "Connector": "juncture.pipeline.connector",
    "ConnectorTable": "juncture.pipeline.connector",
    "DataError": "juncture.errors",
    "Equi": "juncture.spec.equi",
    "Execution": "juncture.joins.execution",
    "Expr": "juncture.spec.expression",
    "Files": "juncture.inputs.files",
    "Follower": "juncture.incremental.follow",
    "JunctureError": "juncture.errors",
    "ManyChangeJoin": "juncture.incremental.many",
    "ManyPlan": "juncture.planner.many",
    "ManyReport": "juncture.planner.many",
    "ManyStreamJoin": "juncture.streams.many",
    "MatchReport": "juncture.planner.report",
    "Order": "juncture.matching.order",
    "Overlap": "juncture.spec.overlap",
    "Pipeline": "juncture.pipeline.pipeline",
    "PipelineError": "juncture.pipeline.problems",
    "Plan": "juncture.planner.plan",
    "PlanError": "juncture.errors",
    "Range": "juncture.spec.range",
    "Right": "juncture.spec.many",
    "RowExplanation": "juncture.planner.report",
    "RunReport": "juncture.pipeline.run",
    "SchemaError": "juncture.errors",
    "SideStats": "juncture.planner.statistics",
    "Snapshot": "juncture.incremental.sources.source",
    "Source": "juncture.incremental.changes.source",
    "SourceEpoch": "juncture.incremental.sources.source",
    "SpecError": "juncture.errors",
    "StateError": "juncture.errors",
    "Stats": "juncture.planner.statistics",
    "StepVerification": "juncture.pipeline.verify",
    "StreamJoin": "juncture.streams.join",
    "StreamProgress": "juncture.streams.progress",
    "VerifyReport": "juncture.pipeline.verify",
    "View": "juncture.incremental.view",
    "Where": "juncture.spec.where",
    "align": "juncture.joins.histories",
    "bounds": "juncture.predicate.intervals.bounds",
    "change_files": "juncture.joins.following",
    "changes": "juncture.joins.changing",
    "changes_many": "juncture.joins.changing",
    "error_from_spark": "juncture.errors",
    "expr": "juncture.spec.expression",
    "follow": "juncture.joins.following",
    "grid": "juncture.joins.spines",
    "history": "juncture.joins.histories",
    "interpolate": "juncture.joins.spines",
    "into_files": "juncture.joins.following",
    "into_postgres": "juncture.joins.following",
    "join": "juncture.joins.equi",
    "join_asof": "juncture.joins.asof",
    "join_many": "juncture.joins.many",
    "join_overlap": "juncture.joins.inequality",
    "join_range": "juncture.joins.inequality",
    "join_where": "juncture.joins.inequality",
    "plan": "juncture.joins.planning",
    "plan_changes": "juncture.joins.changing",
    "plan_many": "juncture.joins.many",
    "plan_stream": "juncture.joins.streaming",
    "prepare": "juncture.joins.planning",
    "postgres": "juncture.joins.following",
    "register_postgres": "juncture.joins.following",
    "spark_errors": "juncture.errors",
    "stream": "juncture.joins.streaming",
    "stream_listener": "juncture.joins.streaming",
    "stream_many": "juncture.joins.streaming",
    "stream_page": "juncture.streams.page",
    "view": "juncture.joins.changing",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'juncture' has no attribute {name!r}")
    from juncture.errors import optional_packages

    with optional_packages(f"juncture.{name}"):
        # Python finds it from now on without calling this function.
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
