"""The page on types, in Markdown: a table for each library, where equal types share a row, and their errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from type_table.outcomes import Outcome
from type_table.roles import ROLES

__all__ = ["ERRORS", "PAGE", "PREFACE", "page", "section"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"

PREFACE = """\
# Types

The tables list what a column of each type can be in a join. ✓ means that the type works in this role.
A number stands for an [error](#errors), which is raised before any row is read.

| role | meaning |
| --- | --- |
| as-of `on` | orders an as-of join |
| range `on` | orders a range join |
| interval | start and end of an interval in an overlap join |
| `by`, key | `by` of any join, key of an equality join |
| `=` | compared by `=` or `<=>` in a predicate |
| `<` | compared by `<`, `<=`, `>` or `>=` in a predicate |
| `sum` | aggregated by `sum` |
| `min` | aggregated by `min` or `max` |
| payload | any other column, or aggregated by `count` |
| tie | breaks ties of an as-of join, or aggregated by `first` and `last` |

In every role, the result has the column with its type and values unchanged.
Both sides have the same type here. [Semantics](semantics.md#types) lists which different types can be compared.
A test tries every cell. `make types` writes this page.
"""

ERRORS = "## Errors\n\nPlaceholders (…) stand for the side and the type of a column.\n\n"
"""The start of the last section."""

_VARYING = (
    (r"\b(left|right) (?=(\w+ )?column ')", "… "),
    (
        r" of pandas type .* Arrow type: .*\. Convert",
        " of pandas type … has values without a common Arrow type: …. Convert",
    ),
    (r" of Polars type .* has no Arrow type\.", " of Polars type … has no Arrow type."),
    (r" of ordered categories \(.*?\)\. ", " of ordered categories. "),
)

_HEADINGS = {"`l.x = r.x`": "`=`", "`l.x < r.x`": "`<`", "`min`, `max`": "`min`"}
"""Short headings of roles, so that the table fits a page."""


def page(sections: Sequence[str], notes: Sequence[str]) -> str:
    """Return the page with these sections, and the errors that their cells refer to."""
    numbered = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    return "\n".join([PREFACE, *sections, ERRORS + numbered])


def section(name: str, outcomes: Mapping[str, Sequence[Outcome]], notes: list[str]) -> str:
    """Return a library's part of the page, and add its new errors to the notes.

    Types with the same outcome in each role share a row.
    """
    rows: dict[str, list[str]] = {}
    for type_name, row in outcomes.items():
        rows.setdefault(" | ".join(_cell(each, notes) for each in row), []).append(f"`{type_name}`")
    lines = [f"| {', '.join(types)} | {cells} |" for cells, types in rows.items()]
    head = [f"| types | {' | '.join(_HEADINGS.get(role.name, role.name) for role in ROLES)} |"]
    head.append(f"| --- |{' --- |' * len(ROLES)}")
    return "\n\n".join([f"## {name}", "\n".join([*head, *lines])]) + "\n"


def _cell(outcome: Outcome, notes: list[str]) -> str:
    """Return the text of a cell, and add the error to the notes if it is new."""
    if outcome.error is None:
        return "✓"
    note = f"`{outcome.error}`: {_note(outcome.message)}"
    if note not in notes:
        notes.append(note)
    return str(notes.index(note) + 1)


def _note(message: str) -> str:
    """Return the first line of a message without type, side and texts of other libraries.

    Examples
    --------
    >>> _note("The left on column 'x' is of type map<string, int64>, which has no order. Cast it first.")
    "The … on column 'x' is of type …, which has no order. Cast it first."
    """
    line = message.partition("\n")[0]
    for varying, fixed in _VARYING:
        line = re.sub(varying, fixed, line)
    of_type = re.search(r" of (\w+'s? )?type ", line)
    if of_type is None:
        return line
    before, after = line[: of_type.end()], line[of_type.end() :]
    depth = 0
    for place, character in enumerate(after):
        depth += (character in "<([{") - (character in ">)]}")
        if depth == 0 and character in ",:.;" and after[place + 1 : place + 2] == " ":
            return f"{before}…{after[place:]}"
    return line
