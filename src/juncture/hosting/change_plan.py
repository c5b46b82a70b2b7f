"""Plans joins of streaming DataFrames of changes."""

from __future__ import annotations

from typing import Any, Literal

from juncture.hosting.change_hosted import plan_hosted
from juncture.hosting.change_table import plan_with_left_table, plan_with_table
from juncture.hosting.plan import check_sessions
from juncture.incremental.change_batch import ChangeFormat
from juncture.inputs import is_stream
from juncture.planner.plan import Plan


def plan(
    spec: Any,
    left: Any,
    right: Any,
    *,
    output: ChangeFormat,
    unmatched_deletes: Literal["error", "count"],
) -> Plan:
    """Plan a join with at least one streaming DataFrame of changes."""
    if is_stream(left) and is_stream(right):
        check_sessions(left.sparkSession, right.sparkSession)
        return plan_hosted(spec, left, right, output=output, unmatched_deletes=unmatched_deletes)
    if is_stream(right):
        return plan_with_left_table(spec, left, right, output=output)
    return plan_with_table(spec, left, right, output=output)
