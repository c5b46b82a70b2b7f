"""What a resolved join means: in a sentence, and as the conditions that a pair of rows has to satisfy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from juncture.predicate.language.sql import describe
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.spec.equi import Equi, ResolvedEqui
from juncture.spec.overlap import KeyInterval, Overlap, ResolvedOverlap
from juncture.spec.range import Bound, Range, ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.where import ResolvedWhere, Where

Condition = tuple[str, str]
"""What part of a join a condition is, such as ``key``, ``band`` or ``residual``, and the condition itself."""


def title_of(spec: Any) -> str:
    """Return what a kind of join is called at the start of a sentence."""
    title: str = spec.title
    return title.partition(" ")[2].capitalize()


def meaning_of(join: Resolved) -> str:
    """Say in a sentence what a join means."""
    return f"each left row gets {_KINDS[join.spec.joined_as][0](join)} ({join.how} join)"


def conditions_of(join: Resolved) -> tuple[Condition, ...]:
    """Return what a pair of rows has to satisfy: the equality of each pair of ``by`` columns, and more."""
    keys = (("key", f"left {left} = right {right}") for left, right in join.spec.key_pairs())
    return (*keys, *_KINDS[join.spec.joined_as][1](join))


def _equal_names(join: Resolved) -> str:
    """Return the ``by`` columns that have to be equal, as in ``venue, symbol = ticker``."""
    pairs = join.spec.key_pairs()
    return ", ".join(str(left) if left == right else f"{left} = {right}" for left, right in pairs)


def _of_equal_keys(join: Resolved, *, nulls_equal: bool = False) -> str:
    nulls = ", nulls included" if nulls_equal else ""
    return f", of equal {_equal_names(join)}{nulls}" if join.left_by else ""


def _right_rows(join: Resolved) -> str:
    return f"{'aggregates of ' if join.aggregates else ''}the right rows"


def _asof(join: ResolvedAsof) -> str:
    spec = join.spec
    at = "at or " if spec.allow_exact_matches else "strictly "
    side = {
        "backward": f"the latest right row {at}before it",
        "forward": f"the first right row {at}after it",
        "nearest": f"the nearest {'' if spec.allow_exact_matches else 'other '}right row"
        + (" (the later of two)" if spec.prefer == "later" else ""),
    }[spec.direction]
    if spec.matches > 1:
        side = f"up to {spec.matches} rows of " + side.replace("row", "rows", 1)
    left, right = spec.on_names()
    on = left if left == right else f"{left} against {right}"
    within = ""
    if join.tolerance is not None and join.tolerance.column is not None:
        within = f", within the row's own {join.tolerance.column}"
    elif join.tolerance is not None:
        within = f", within {join.domain.distance_text(join.tolerance.constant or 0)}"
    keys = _of_equal_keys(join, nulls_equal=join.nulls_equal)
    available_at = spec.available_at_pair()
    since = "" if available_at is None else f", of those available by its {available_at[0]} (right {available_at[1]})"
    condition = "" if join.where is None else f", of those for which {describe(join.where)}"
    return f"{side}{keys}, by {on}{within}{since}{condition}{_in_ties(join)}"


def _in_ties(join: ResolvedAsof) -> str:
    """Say which of right rows at the same ``on`` is taken, where that is not the greatest."""
    if join.spec.ties in ("greatest", "error"):
        return ""
    order = "the right table" if join.goes_by_table_order else ", ".join(join.spec.order_columns())
    return f", the {join.spec.ties} of several at one {join.spec.on_names()[1]} in the order of {order}"


def _equi(join: ResolvedEqui) -> str:
    nulls = ", nulls included" if join.nulls_equal else ""
    condition = "" if join.predicate is None else f" for which {describe(join.predicate)}"
    return f"the right rows of equal {_equal_names(join)}{nulls}{condition}"


def _equi_conditions(join: ResolvedEqui) -> tuple[Condition, ...]:
    return () if join.predicate is None else (("residual", describe(join.predicate)),)


def _range(join: ResolvedRange) -> str:
    if join.windows:
        named = "; ".join(f"{name}: {_range(join.in_window(name))}" for name in join.windows)
        return f"for each of {len(join.windows)} windows {_right_rows(join)} in it ({named})"
    left, right = join.spec.on_names()
    lower, upper = (_end(join, bound, left) for bound in (join.lower, join.upper))
    on = right if right != left else f"right {right}"
    if join.lower is None:
        window = f"{_word(join.upper, 'at most', 'less than')} {upper}"
    elif join.upper is None:
        window = f"{_word(join.lower, 'at least', 'more than')} {lower}"
    else:
        window = f"{_word(join.lower, 'from', 'after')} {lower} {_word(join.upper, 'to', 'to before')} {upper}"
    return f"{_right_rows(join)} whose {on} is {window}{_of_equal_keys(join)}"


def _range_conditions(join: ResolvedRange) -> tuple[Condition, ...]:
    left, right = join.spec.on_names()
    lower, upper = (_end(join, bound, f"left {left}") for bound in (join.lower, join.upper))
    above = lower + _word(join.lower, " <= ", " < ") if join.lower is not None else ""
    below = _word(join.upper, " <= ", " < ") + upper if join.upper is not None else ""
    return (("band" if above and below else "inequality", f"{above}right {right}{below}"),)


def _word(bound: Bound | None, closed: str, strict: str) -> str:
    return closed if bound is None or bound.closed else strict


def _end(join: ResolvedRange, bound: Bound | None, on: str) -> str:
    if bound is None:
        return ""
    if bound.column is not None:
        return f"{on} + {bound.column}"
    constant = bound.constant or 0
    return f"{on} {'-' if constant < 0 else '+'} {join.domain.distance_text(abs(constant))}" if constant else on


def _overlap(join: ResolvedOverlap) -> str:
    left, right = (f"{start or '-∞'} to {end or '∞'}" for start, end in _intervals(join))
    return f"{_right_rows(join)} whose {right} overlaps its {left}{_of_equal_keys(join)}"


def _intervals(join: ResolvedOverlap) -> tuple[KeyInterval, KeyInterval]:
    return join.spec.left_interval, join.spec.right_interval


def _overlap_conditions(join: ResolvedOverlap) -> tuple[Condition, ...]:
    sign = "<=" if join.closed == "both" else "<"
    (left, left_end), (right, right_end) = _intervals(join)
    limits = [("left", left, "right", right_end), ("right", right, "left", left_end)]
    shared = [f"{a} {start} {sign} {b} {end}" for a, start, b, end in limits if start is not None and end is not None]
    return (("overlap", " AND ".join(shared)),) if shared else ()


def _where(join: ResolvedWhere) -> str:
    keys = _of_equal_keys(join, nulls_equal=join.nulls_equal)
    if keys and not join.shape.parts():
        return f"{_right_rows(join)}{keys}".replace(", of equal", " of equal", 1)
    return f"{_right_rows(join)} for which {describe(join.predicate)}{keys}"


_KINDS: Mapping[type, tuple[Callable[[Any], str], Callable[[Any], tuple[Condition, ...]]]] = {
    Asof: (_asof, lambda _: ()),
    Equi: (_equi, _equi_conditions),
    Range: (_range, _range_conditions),
    Overlap: (_overlap, _overlap_conditions),
    Where: (_where, lambda join: join.shape.parts()),
}
"""What a left row gets, and the conditions besides equal keys."""


def explanations_of(join: Any) -> dict[str, str]:
    """Say what each count of a match report means, by its name, of those that are not 0 in every such join."""
    keys = ", ".join(join.left_by)
    texts: dict[str, str] = {}
    if join.domain is not None:
        texts["null_on"] = f"{' or '.join(ordering_columns(join))} is {join.domain.missing_text}"
    if keys and not join.nulls_equal:
        texts["null_key"] = f"{keys} is null"
    if keys:
        texts["unknown_key"] = f"no right row has this {keys}"
    if join.spec.ranks_matches:
        return texts | _asof_explanations(join)
    if join.domain is not None or join.predicate is not None:
        texts["no_candidate"] = "no right row of this key satisfies the condition" if keys else "no right row matches"
    return texts


def ordering_columns(join: Resolved) -> list[str]:
    """Return the left columns that must have a value, beside the keys."""
    return [name for name in join.position("left") if name is not None]


def _asof_explanations(join: ResolvedAsof) -> dict[str, str]:
    side = {"backward": "before or at", "forward": "after or at", "nearest": "near"}[join.spec.direction]
    if not join.spec.allow_exact_matches:
        side = side.removesuffix(" or at")
    available = "" if join.available_at is None else f" was available by its {join.available_at.left}"
    condition = "" if join.where is None else f"{' and' if available else ''} satisfies where="
    texts = {"no_candidate": f"no right row {side} this {join.left_on}{available}{condition}"}
    if join.tolerance is not None and join.tolerance.column is not None:
        texts["beyond_tolerance"] = f"farther away than its {join.tolerance.column}"
    elif join.tolerance is not None:
        texts["beyond_tolerance"] = f"more than {join.domain.distance_text(join.tolerance.constant or 0)} away"
    return texts | {"ties": f"several right rows at the best {join.right_on}"}
