"""Whether the output of a join of streams adds up to the join of the rows that came in time."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import juncture as jn
from fuzz.compare import problem
from fuzz.kind import RIGHT, Outcome, outcome_of
from fuzz.streams.cases import StreamCase
from juncture.errors import DataError
from juncture.planner.decision import Engine
from support.kinds import defined_rows
from support.streams import SIDES, heartbeat, in_time, picked
from support.tables import difference, shown_type

__all__ = ["COMPARED_MOST", "Operation", "judge", "operations"]

COMPARED_MOST = "juncture.streams.state.ordered.COMPARED_MOST"

LIMITS = ("64 bits", "64-bit code", "null or NaN in the order", "cannot be compared")
"""What errors of streams say of rows that tables may have."""

Operation = tuple[str, dict[str, Any]]
"""``push`` with the first and the last row of sides, ``advance`` with values, or ``restart``."""


def operations(case: StreamCase) -> Iterator[Operation]:
    """Yield what is done with the join, one after the other."""
    tables = {side: getattr(case.join, side).arrow() for side in SIDES}
    pushed = dict.fromkeys(SIDES, 0)

    def push(rows: dict[str, int]) -> Operation:
        spans = {}
        for side in SIDES:
            end = min(pushed[side] + rows[side], tables[side].num_rows)
            if end > pushed[side]:
                spans[side] = (pushed[side], end)
            pushed[side] = end
        return "push", spans

    for step in case.steps:
        yield push({"left": step.left, "right": step.right})
        if step.restarts:
            yield "restart", {}
        sides = [side for side in step.heartbeats if case.orders(side)]
        if sides:
            rest = {side: tables[side].slice(pushed[side]) for side in sides}
            yield "advance", {side: heartbeat(rest[side], side, case.orders(side)) for side in sides}
    yield push({side: tables[side].num_rows for side in SIDES})


def judge(engine: Engine = "local") -> Callable[[StreamCase, Path], Outcome]:
    """Return what judges cases."""
    return judged


def judged(case: StreamCase, folder: Path) -> Outcome:
    """Run a case."""
    tables = {side: getattr(case.join, side).arrow() for side in SIDES}
    kind = f"streams {case.join.kind}"
    try:
        spec = case.spec()
        resolved = spec.resolve(*(table.schema for table in tables.values()))
        masks = {side: in_time(tables[side], side, case.orders(side)) for side in SIDES}
        timely = {side: picked(tables[side], masks[side]) for side in SIDES}
        late = {side: picked(tables[side], [not each for each in masks[side]]) for side in SIDES}
        with mock.patch(COMPARED_MOST, case.compared) if case.compared is not None else nullcontext():
            join = opened(case, tables)
            answer, join = output_of(case, join, tables, folder)
    except DataError as error:
        if any(limit in " ".join(str(error).split()) for limit in LIMITS):
            return outcome_of(error)
        try:
            defined_rows(spec, *timely.values())
        except DataError:
            return RIGHT
        return Outcome("failed", f"{kind}: an error", str(error))
    except Exception as error:
        return outcome_of(error)
    finally:
        shutil.rmtree(folder / "state", ignore_errors=True)
    try:
        expected = defined_rows(spec, *timely.values())
    except DataError as error:
        return Outcome("failed", f"{kind}: no error", f"It is due: {error}")
    found = problem(resolved, timely["right"], answer, expected, ordered=False, type_of=shown_type)
    if found:
        return Outcome("failed", f"{kind}: wrong {found[0]}", found[1])
    for side in SIDES:
        state = getattr(join.state, side)
        wrong = difference(getattr(join.late, side), late[side], ordered=True)
        if wrong or state.late_rows != late[side].num_rows:
            return Outcome("failed", f"{kind}: wrong late rows", f"{side}: {state.late_rows}\n{wrong}")
        if state.rows:
            return Outcome("failed", f"{kind}: rows are held after the end", f"{side}: {state.rows}")
    return RIGHT


def opened(case: StreamCase, tables: dict[str, pa.Table]) -> jn.StreamJoin:
    orders = {f"{side}_order": list(case.orders(side)) for side in SIDES}
    schemas = [table.schema for table in tables.values()]
    return jn.stream(*schemas, case.spec(), **orders, allow_unbounded=True, late="collect")


def output_of(
    case: StreamCase, join: jn.StreamJoin, tables: dict[str, pa.Table], folder: Path
) -> tuple[pa.Table, jn.StreamJoin]:
    """Run the operations of a case, and return all output and the join, which may have been restored."""
    output: list[pa.RecordBatch] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, sides in operations(case):
            if name == "push":
                slices = {side: tables[side].slice(first, end - first) for side, (first, end) in sides.items()}
                output += join.push(**slices)
            elif name == "advance":
                output += join.advance(**sides)
            else:
                join.save(folder / "state")
                join = jn.StreamJoin.restore(folder / "state", expected=join)
        output += join.close()
    return pa.Table.from_batches(output, join.schema), join
