"""Words of other libraries, and what is called so here: pandas, Polars, Daft, DuckDB, PyArrow and Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

_TWO_THINGS = (
    "That is what Polars and Daft call two things. Here direction= says which side to look at ('backward', 'forward', "
    "'nearest'), and algorithm= how the join is run ('auto')."
)
_SWAPPED = "Swap the two tables and pass how={!r}: the rows of the right table are then on the left."
_CHOICES: dict[str, dict[str, str]] = {
    "how": {
        "outer": "Rows of both tables without a match are kept by how='full'.",
        "fullouter": "That is how='full'.",
        "leftouter": "That is how='left'.",
        "rightouter": "That is how='right'.",
        "leftsemi": "That is how='semi'.",
        "leftanti": "That is how='anti'.",
        "rightsemi": _SWAPPED.format("semi"),
        "rightanti": _SWAPPED.format("anti"),
        "cross": "All pairs of rows are join_where(left, right, 'TRUE', allow_cross=True).",
        "asof": "That is a kind of join of its own: join_asof(…).",
    },
    "direction": {
        "last": "That is direction='backward'.",
        "previous": "That is direction='backward'.",
        "next": "That is direction='forward'.",
        "closest": "That is direction='nearest'.",
    },
    "closed": {
        "neither": "That is closed='none'.",
        "open": "That is closed='none'.",
        "closed": "That is closed='both'.",
        "inclusive": "That is closed='both'.",
    },
    "ties": {
        "any": "Ties always have one answer here: leave ties= out, or pass ties='last'.",
        "least": "The least by some columns is ties='first', order_by=….",
    },
}

_Hint: TypeAlias = tuple[str, str]
"""What is said where a function has an argument of that name, or has none but others serve: an empty name."""

_ARGUMENTS: dict[str, list[_Hint]] = {
    "strategy": [
        ("direction", _TWO_THINGS),
        ("algorithm", "How a join is run is what algorithm= says; 'auto' lets the planner choose."),
    ],
    "hint hints": [("algorithm", "How a join is run is what algorithm= says; 'auto' lets the planner choose.")],
    "suffixes lsuffix rsuffix left_suffix right_suffix prefix": [
        ("suffix", "Left names stay as they are; suffix= is added to a right name that the left table has too."),
    ],
    "left_index right_index": [("", "An index is no column here: make it one, as by reset_index(), and name that.")],
    "indicator": [
        ("", "To tell where rows come from, give each table a constant column, and see where it is null in the output.")
    ],
    "validate": [
        ("ties", "Keys are not counted; ties='error' refuses right rows of which one would have to be picked."),
        ("", "Keys are not counted: look at how often each occurs before the join."),
    ],
    "maintain_order": [("", "In-process the rows keep the left order. Leave it out.")],
    "check_sortedness sort": [
        ("", "Nothing has to be sorted, and in-process the rows keep the left order. Leave it out."),
    ],
    "use_threads allow_parallel force_parallel copy": [("", "It makes no difference here. Leave it out.")],
    "other": [("", "The tables are the first two arguments, left and right.")],
    "predicate predicates condition where joinExprs": [
        ("where", "A condition beside the key is where=, and join_where(…) joins by a condition alone."),
        ("predicate", "The condition is predicate=, in SQL: 'l.a > r.b'."),
        ("", "A condition is what join_where(left, right, 'l.a > r.b') takes."),
    ],
    "join_type type": [("how", "Which rows are kept is what how= says.")],
    "using keys": [("by", "Columns that have to be equal are by=."), ("on", "The key is on=.")],
    "right_keys": [("by", "They are left_by= and right_by=."), ("on", "They are left_on= and right_on=.")],
    "on left_on right_on": [
        ("left_interval", "Intervals are compared, left_interval=(start, end) and right_interval=. Keys are by=."),
        ("predicate", "Columns that have to be equal are by=, or part of the predicate: 'l.k = r.k'."),
    ],
    "by left_by right_by": [("on", "The key of an equality join is on=, or left_on= and right_on=.")],
    "by_left": [("left_by", "That is left_by=."), ("left_on", "That is left_on=.")],
    "by_right": [("right_by", "That is right_by=."), ("right_on", "That is right_on=.")],
    "leftAsOfColumn": [("left_on", "That is left_on=.")],
    "rightAsOfColumn": [("right_on", "That is right_on=.")],
    "nulls_equal join_nulls": [
        ("nulls_equal", "That is nulls_equal=."),
        ("", "A null in by= equals nothing. In a predicate, l.a <=> r.a takes nulls as equal."),
    ],
    "tolerance": [
        ("lower", "Such a window is made of its ends: lower='-5m', upper='5m'."),
        ("", "A greatest distance is what join_asof(…, tolerance=) and join_range(…, lower=, upper=) take."),
    ],
    "allow_exact_matches allowExactMatches": [
        ("allow_exact_matches", "That is allow_exact_matches=."),
        ("closed", "Whether the ends belong is what closed= says."),
        ("", "Whether equal values match is what the condition says: < or <=."),
    ],
    "coalesce coalesce_keys": [
        ("coalesce", "That is coalesce=."),
        ("", "What has to be equal is shown once, under its left name. Copy the right column first to keep it."),
    ],
}
_HINTS = {name: hints for names, hints in _ARGUMENTS.items() for name in names.split()}


def choice_hint(argument: str, value: str) -> str | None:
    """Return what a choice of another library is here, if it is one.

    Examples
    --------
    >>> choice_hint("how", "left_semi")
    "That is how='semi'."
    """
    word = "".join(letter for letter in value.lower() if letter.isalpha())
    return _CHOICES.get(argument, {}).get(word)


def argument_hint(name: str, known: Collection[str]) -> str | None:
    """Return what an argument of another library is here, among those that a function has.

    Examples
    --------
    >>> argument_hint("by_left", ["by", "left_by", "right_by"])
    'That is left_by=.'
    """
    return next((hint for needed, hint in _HINTS.get(name, []) if not needed or needed in known), None)
