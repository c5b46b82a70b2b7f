"""Why a left row of an in-process join has the matches that it has, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints
from juncture.local.asof.join import find
from juncture.local.asof.report import distances_between
from juncture.local.asof.report import row_report as asof_rows
from juncture.local.kinds import match
from juncture.local.reasons import CodedKeys, RowReport, cells_text, reasons_of
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import REASONS, Candidate, RowExplanation, figure
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.take import select
from juncture.runtime.working_types import working
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.spec.base import OrderedSpec
from juncture.spec.range import ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

_MATCHES_SHOWN = 10
_SIDES = ("backward", "forward")
_SPEC_ARGUMENTS = ("direction", "allow_exact_matches")
_PER_SIDE = 3  # candidates before a left row, and after it


def explain_row(
    join: Resolved, left: Source, right: Source, row: int, algorithm: str, context: JoinContext
) -> RowExplanation:
    """Explain the matches of a left row of a join that has all compared columns; reads the right side a few times."""
    join, left, right = working(join, left, right)
    one = _rows(join, "left", left, np.array([row]), context)
    inner = _asof(join, matches=join.spec.matches) if isinstance(join, ResolvedAsof) else replace(join, how="inner")
    pairs = match(inner, one, right, algorithm, context)
    matches = np.concatenate([np.zeros(0, np.int64), *(right_rows for _, right_rows in pairs)])
    candidates = tuple(_candidates(join, one, right, matches, context))
    keys = CodedKeys.of(join, one, context)
    is_beyond = np.array([any(each.excluded == "beyond_tolerance" for each in candidates)])
    reason = int(reasons_of(join, np.array([len(matches) > 0]), keys, one, right, context, is_beyond=is_beyond)[0])
    return RowExplanation(
        left_row=row,
        values=_values(join, "left", one, 0, context),
        matches=tuple(matches[:_MATCHES_SHOWN].tolist()),
        match_count=len(matches),
        reason=None if reason < 0 else REASONS[reason],
        explanation="" if reason < 0 else explanations_of(join).get(REASONS[reason], ""),
        candidates=candidates,
    )


def row_report(join: Resolved, left: Source, right: Source, algorithm: str, context: JoinContext) -> RowReport:
    """Return what becomes of each left row, whichever of them a join keeps; parameters are as for `explain_row`."""
    if isinstance(join, ResolvedAsof):
        return asof_rows(join, left, right, context)
    join, left, right = working(join, left, right)
    matched = np.zeros(left.num_rows, np.bool_)
    for left_rows, _ in match(replace(join, how="semi"), left, right, algorithm, context):
        matched[left_rows] = True
    context = context.within(MemoryBudget(context.memory.total_bytes))
    reasons = reasons_of(join, matched, CodedKeys.of(join, left, context), left, right, context)
    return RowReport(np.full(len(matched), -1), reasons, np.full(len(matched), np.nan))


def _candidates(join: Resolved, one: Source, right: Source, matches: Ints, context: JoinContext) -> Iterator[Candidate]:
    """Yield right rows of the same key near the only left row that are not its matches, the nearest first."""
    if isinstance(join, ResolvedAsof):
        nearest = _asof(join, direction="nearest", available_at=None, where=None, tolerance=None)
    elif isinstance(join, ResolvedRange) and not len(matches):
        nearest = _by_distance(join)
    else:
        return
    joins = [_asof(nearest, matches=_PER_SIDE, direction=side, allow_exact_matches=True) for side in _SIDES]
    rows = np.setdiff1d(np.concatenate([_matches_of(join, one, right, context) for join in joins]), matches)
    if len(rows) == 0:
        return
    near = _rows(join, "right", right, rows, context)
    distances = distances_between(nearest, one, near, np.zeros(len(rows), np.int64), np.arange(len(rows)), context)
    for index in np.arange(len(rows)) if distances is None else np.argsort(distances, kind="stable"):
        excluded, text = _exclusion(join, one, TableSource(near.table.slice(index, 1)), context)
        distance = None if distances is None else float(distances[index])
        yield Candidate(
            right_row=int(rows[index]),
            values=_values(join, "right", near, int(index), context),
            distance=distance,
            excluded=excluded,
            explanation=text
            if distance is None
            else f"{figure(distance, is_time=nearest.domain.is_time)} away: {text}",
        )


def _asof(join: ResolvedAsof, *, matches: int = 1, **relaxed: Any) -> ResolvedAsof:
    """Return a join that finds rows which the asked one may not: some of its arguments are others."""
    arguments: dict[str, Any] = {name: relaxed.pop(name) for name in _SPEC_ARGUMENTS if name in relaxed}
    if arguments.get("direction", "nearest") != "nearest":
        arguments["prefer"] = "earlier"
    ties = "greatest" if join.spec.ties == "error" else join.spec.ties
    spec = replace(join.spec, how="inner", matches=matches, ties=ties, **arguments)
    return replace(join, how="inner", output=(), spec=spec, **relaxed)


def _by_distance(join: ResolvedRange) -> ResolvedAsof:
    """Return the as-of join of a range join's columns."""
    return ResolvedAsof(
        spec=Asof(on=join.right_on),
        how="inner",
        left_schema=join.left_schema,
        right_schema=join.right_schema,
        left_by=join.left_by,
        right_by=join.right_by,
        output=(),
        left_computed=join.left_computed,
        right_computed=join.right_computed,
        left_on=join.left_on,
        right_on=join.right_on,
        domain=join.domain,
        tolerance=None,
        available_at=None,
        where=None,
    )


def _matches_of(join: ResolvedAsof, one: Source, right: Source, context: JoinContext) -> Ints:
    """Return the matches of the only left row."""
    context = context.within(MemoryBudget(context.memory.total_bytes))
    pointers: Ints = find(join, one, right, context).pointers.ravel()
    return pointers[pointers >= 0]


def _exclusion(join: Resolved, one: Source, other: Source, context: JoinContext) -> tuple[str, str]:
    """Return why a right row is not among the matches of a left row, as a name and as a text."""
    if not isinstance(join, ResolvedAsof):
        return "window", "outside the window"
    spec, tolerance = join.spec, join.tolerance
    limits: dict[str, Any] = {"direction": spec.direction, "allow_exact_matches": True}
    limits |= {"available_at": None, "where": None, "tolerance": None}
    limit = "" if tolerance is None else tolerance.column or join.domain.distance_text(tolerance.constant or 0)
    for name, argument, text in (
        ("side", "direction", f"not on the side of direction={spec.direction!r}"),
        ("exact", "allow_exact_matches", "at the same value, and allow_exact_matches=False"),
        ("not_available", "available_at", "not available yet"),
        ("where", "where", "where= is not true"),
        ("beyond_tolerance", "tolerance", f"farther than the tolerance of {limit}"),
    ):
        limits[argument] = getattr(spec if argument in _SPEC_ARGUMENTS else join, argument)
        if not len(_matches_of(_asof(join, **limits), one, other, context)):
            return name, text
    return "not_best", "another row is preferred"


def _rows(join: Resolved, side: Side, source: Source, rows: Ints, context: JoinContext) -> TableSource:
    """Return rows of a side with all columns that decide about matches, or that texts show."""
    ties = join.tie_columns if side == "right" else ()
    names = (
        list(dict.fromkeys((*join.compared(side), *ties, *_text_columns(join, side).values())))
        or source.schema.names[:1]
    )
    return TableSource(pa.table(select(source, names, rows, context), names=names))


def _text_columns(join: Resolved, side: Side) -> dict[str, str]:
    """Return the columns that texts show, by what the spec calls them."""
    spec, index = join.spec, SIDES.index(side)
    pairs = [*spec.key_pairs(), *(spec.on_pairs() if isinstance(spec, OrderedSpec) else ())]
    names = {str(pair[index]): join.name_of(side, pair[index]) for pair in pairs}
    return {text: name for text, name in names.items() if name} or {name: name for name in join.compared(side)}


def _values(join: Resolved, side: Side, source: Source, row: int, context: JoinContext) -> str:
    return cells_text(source, _text_columns(join, side), row, context)
