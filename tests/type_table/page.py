"""The page on types, in Markdown: a table for each library, and what the refusals in it say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from type_table.outcomes import Outcome
from type_table.roles import ROLES

__all__ = ["PAGE", "PREFACE", "page", "section"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"

PREFACE = """\
# Types

What a column of each type can be in a join: ✓ where it works, or else the error that refuses it before any row is read.
What the roles mean is said in [semantics.md](semantics.md).

| role | |
| --- | --- |
| as-of `on` | the order of an as-of join |
| range `on` | the order of a range join |
| interval | the start and the end of an interval in an overlap join |
| `by`, key | `by` of any join, the key of an equality join |
| `l.x = r.x` | in a predicate: `=` and `<=>` |
| `l.x < r.x` | in a predicate: `<`, `<=`, `>` and `>=` |
| `sum` | aggregated by `sum` |
| `min`, `max` | aggregated by them |
| payload | any other column, and aggregated by `count` |
| tie | what decides which of several right rows an as-of join takes, and aggregated by `first` and `last` |

Whatever its role, a column comes back with the type and the values that it had. Both sides are of the same type here;
which types go together is said in [semantics.md](semantics.md#types). A test tries every cell, and compares this page
with what it finds; `make types` writes it anew.
"""

_VARYING = (
    (r"\b(left|right) (?=(\w+ )?column ')", "… "),
    (
        r" of pandas type .* Arrow type: .*\. Convert",
        " of pandas type … has values without a common Arrow type: …. Convert",
    ),
    (r" of Polars type .* has no Arrow type\.", " of Polars type … has no Arrow type."),
    (r" of ordered categories \(.*?\)\. ", " of ordered categories. "),
)

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def page(sections: Sequence[str]) -> str:
    """Return the page that has some sections."""
    return "\n".join([PREFACE, *sections])


def section(name: str, outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Return a library's part of the page.

    Parameters
    ----------
    name
        Of the library.
    outcomes
        What became of each of its types, by their names, in the roles.
    """
    notes: list[str] = []
    rows = [f"| `{name}` | {' | '.join(_cell(each, notes) for each in row)} |" for name, row in outcomes.items()]
    head = [f"| | {' | '.join(role.name for role in ROLES)} |", f"| --- |{' --- |' * len(ROLES)}"]
    marked = [f"{_mark(number)} {note}" for number, note in enumerate(notes, 1)]
    return "\n\n".join([f"## {name}", "\n".join([*head, *rows]), *marked]) + "\n"


def _cell(outcome: Outcome, notes: list[str]) -> str:
    """Return what stands in a cell, and note what the error says where that is new."""
    if outcome.error is None:
        return "✓"
    note = _note(outcome.message)
    if note not in notes:
        notes.append(note)
    return f"{outcome.error}{_mark(notes.index(note) + 1)}"


def _mark(number: int) -> str:
    return str(number).translate(_SUPERSCRIPT)


def _note(message: str) -> str:
    """Return what the first line of a message says whatever the type and the side, and without another library's words.

    Examples
    --------
    >>> _note("The left on column 'x' is of type map<string, int64>, which has no order. Cast it first.")
    "The … on column 'x' is of type …, which has no order. Cast it first."
    """
    line = message.partition("\n")[0]
    for varying, said in _VARYING:
        line = re.sub(varying, said, line)
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
