"""Hints for arguments and values of pandas, Polars, Daft, DuckDB, PyArrow and Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

_STRATEGY = "Use direction= to choose the match direction, or algorithm= to choose how the join runs."
_ALGORITHM = "Use algorithm= to choose how the join runs; 'auto' lets the planner choose."
_SWAPPED = "Swap the two tables and pass how={!r}."
_CHOICES: dict[str, dict[str, str]] = {
    "how": {
        "outer": "Did you mean 'full'?",
        "fullouter": "Use how='full'.",
        "leftouter": "Use how='left'.",
        "rightouter": "Use how='right'.",
        "leftsemi": "Use how='semi'.",
        "leftanti": "Use how='anti'.",
        "rightsemi": _SWAPPED.format("semi"),
        "rightanti": _SWAPPED.format("anti"),
        "cross": "For all pairs of rows, use join_where(left, right, 'TRUE', allow_cross=True).",
        "asof": "Use join_asof(…).",
    },
    "direction": {
        "last": "Use direction='backward'.",
        "previous": "Use direction='backward'.",
        "next": "Use direction='forward'.",
        "closest": "Use direction='nearest'.",
    },
    "closed": {
        "neither": "Use closed='none'.",
        "open": "Use closed='none'.",
        "closed": "Use closed='both'.",
        "inclusive": "Use closed='both'.",
    },
    "ties": {
        "any": "Results are deterministic: remove ties=, or use ties='last'.",
        "least": "For the least by some columns, use ties='first' with order_by=.",
    },
}

_Hint: TypeAlias = tuple[str, str]
"""An argument, and the hint for functions that have it; an empty name applies to all functions."""

_ARGUMENTS: dict[str, list[_Hint]] = {
    "strategy": [("direction", _STRATEGY), ("algorithm", _ALGORITHM)],
    "hint hints": [("algorithm", _ALGORITHM)],
    "suffixes lsuffix rsuffix left_suffix right_suffix prefix": [
        ("suffix", "Use suffix=, which is added to right names that the left table has too. Left names never change."),
    ],
    "left_index right_index": [("", "Make the index a column first, for example with reset_index(), and name it.")],
    "indicator": [("", "Add a constant column to each table. It is null where the table has no match.")],
    "validate": [
        ("ties", "Keys are not counted. Use ties='error' to reject several equally near right rows."),
        ("", "Keys are not counted. Check for duplicate keys before the join."),
    ],
    "maintain_order": [("", "In-process, rows keep the left order. Remove it.")],
    "check_sortedness sort": [("", "Inputs need not be sorted, and in-process rows keep the left order. Remove it.")],
    "use_threads allow_parallel force_parallel copy": [("", "It has no equivalent. Remove it.")],
    "other": [("", "Pass the tables as the first two arguments, left and right.")],
    "predicate predicates condition where joinExprs": [
        ("where", "For a condition beside the key, use where=. For a condition alone, use join_where(…)."),
        ("predicate", "Use predicate= with SQL, such as 'l.a > r.b'."),
        ("", "Use join_where(left, right, 'l.a > r.b')."),
    ],
    "changes unmatched_deletes": [("", "For streaming DataFrames of changes, use jn.changes(left, right, spec).")],
    "left_order right_order": [("", "For two streaming DataFrames, use jn.stream(left, right, spec, left_order=…).")],
    "join_type type": [("how", "Use how=.")],
    "using keys": [("by", "Use by=."), ("on", "Use on=.")],
    "right_keys": [("by", "Use left_by= and right_by=."), ("on", "Use left_on= and right_on=.")],
    "on left_on right_on": [
        ("left_interval", "Use left_interval=(start, end) and right_interval=(start, end), and by= for keys."),
        ("predicate", "Use by= for keys, or add them to the predicate: 'l.k = r.k'."),
    ],
    "by left_by right_by": [("on", "Use on=, or left_on= and right_on=.")],
    "by_left": [("left_by", "Use left_by=."), ("left_on", "Use left_on=.")],
    "by_right": [("right_by", "Use right_by=."), ("right_on", "Use right_on=.")],
    "leftAsOfColumn": [("left_on", "Use left_on=.")],
    "rightAsOfColumn": [("right_on", "Use right_on=.")],
    "nulls_equal join_nulls": [
        ("nulls_equal", "Use nulls_equal=."),
        ("", "Nulls in by= never match. In a predicate, l.a <=> r.a treats nulls as equal."),
    ],
    "tolerance": [
        ("lower", "Use the two ends of the window: lower='-5m', upper='5m'."),
        ("", "Use join_asof(…, tolerance=) or join_range(…, lower=, upper=)."),
    ],
    "allow_exact_matches allowExactMatches": [
        ("allow_exact_matches", "Use allow_exact_matches=."),
        ("closed", "Use closed= to include or exclude the ends."),
        ("", "Use < or <= in the condition."),
    ],
    "coalesce coalesce_keys": [
        ("coalesce", "Use coalesce=."),
        ("", "Equal columns appear once, under the left name. To keep the right column, copy it first."),
    ],
}
_HINTS = {name: hints for names, hints in _ARGUMENTS.items() for name in names.split()}


def choice_hint(argument: str, value: str) -> str | None:
    """Return the hint for a value of another library, or None."""
    word = "".join(letter for letter in value.lower() if letter.isalpha())
    return _CHOICES.get(argument, {}).get(word)


def argument_hint(name: str, arguments: Collection[str]) -> str | None:
    """Return the hint for an argument of another library, given the arguments that a function has."""
    return next((hint for needed, hint in _HINTS.get(name, []) if not needed or needed in arguments), None)
