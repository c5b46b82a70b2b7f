"""The trees that the text of a predicate is read into, and the places in it that errors show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_WIDTH = 100
"""The most characters of a line that an error shows."""


class Tree(NamedTuple):
    """A part of a predicate's text.

    Attributes
    ----------
    kind
        What it is:

        - ``and``, ``or``, ``not``, ``neg``, ``between``, ``in`` (the operand comes first), ``is null``, ``compare``
          (``value`` is the operator) and ``distinct``;
        - ``like`` (``value`` is what ESCAPE says), ``case`` (``value`` is how many operands stand before and after the
          pairs of condition and value);
        - ``sum`` and ``product`` of all operands that stand beside each other (``value`` has the operators);
        - ``list``, of constants that IN names one after another (``value`` has the words: plain numbers and texts);
        - ``call`` (``value`` is the function's name), ``cast`` (``value`` is the type: its name and sizes);
        - ``column`` (``value`` has the names before and after the dots), ``number`` (as it is written), ``text``,
          ``binary``, ``constant`` (``TRUE``, ``FALSE`` or ``NULL``), ``moment`` (``value`` is its type and text) and
          ``interval`` (``value`` is its text and unit).
    start, end
        Where it starts, and where it has ended.
    value
        What it says beside its parts.
    parts
        Its operands.
    """

    kind: str
    start: int
    end: int
    value: Any = None
    parts: tuple[Tree, ...] = ()


def walk_tree(tree: Tree) -> Iterator[Tree]:
    """Yield a tree and all trees in it, from left to right."""
    stack = [tree]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.parts))


def pointer(text: str, start: int, end: int) -> str:
    """Return the line of a text that holds a place, or what is around it, and a line of carets below the place.

    Parameters
    ----------
    text
        All of the text.
    start, end
        Where the place starts, and where it has ended.

    Examples
    --------
    >>> print(pointer("a > b", 2, 3))
        a > b
          ^
    """
    start = max(0, min(start, len(text) - 1))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    shown_first = first if start - first < _WIDTH // 2 and last - first > 0 else start - _WIDTH // 2
    shown_first = first if last - first <= _WIDTH else max(first, shown_first)
    shown_last = min(last, shown_first + _WIDTH)
    before, after = "…" * (shown_first > first), "…" * (shown_last < last)
    carets = max(1, min(end, shown_last) - start)
    line = text[shown_first:shown_last].replace("\t", " ")
    return f"    {before}{line}{after}\n    {' ' * (len(before) + start - shown_first)}{'^' * carets}"
