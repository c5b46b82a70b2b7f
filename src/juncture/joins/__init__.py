"""The public functions: joins in one call, plans, streams, change streams and views."""

from __future__ import annotations

from juncture.joins.asof import join_asof
from juncture.joins.changing import changes, plan_changes, view
from juncture.joins.equi import join
from juncture.joins.execution import Execution
from juncture.joins.following import change_files, follow, into_files, into_postgres, postgres, register_postgres
from juncture.joins.inequality import join_overlap, join_range, join_where
from juncture.joins.many import join_many, plan_many
from juncture.joins.planning import plan, prepare
from juncture.joins.spines import grid, interpolate
from juncture.joins.streaming import plan_stream, stream, stream_listener

__all__ = [
    "Execution",
    "change_files",
    "changes",
    "follow",
    "grid",
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
    "stream",
    "stream_listener",
    "view",
]
