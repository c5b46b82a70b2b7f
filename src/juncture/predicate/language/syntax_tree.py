"""Syntax trees of predicates, and excerpts of the text for errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_WIDTH = 100  # the most characters of a line in an error


class Tree(NamedTuple):
    """A part of a predicate's text, from ``start`` to before ``end``, with its operands in ``parts``.

    The kinds:

    - ``and``, ``or``, ``not``, ``neg``, ``between``, ``in`` (the operand comes first), ``is null``, ``is``, ``compare``
      (``value`` is the operator)
    - ``like`` (``value`` is the ESCAPE), ``case`` (``value`` is the number of operands before and after the pairs of
      condition and value)
    - ``sum`` and ``product`` of adjacent operands (``value`` has the operators)
    - ``list`` of constants in IN (``value`` has the words: plain numbers and texts)
    - ``call`` (``value`` is the name), ``cast`` (``value`` is the name and sizes of the type)
    - ``column`` (``value`` has the names between the dots), ``number`` (as written), ``text``, ``binary``, ``constant``
      (``TRUE``, ``FALSE`` or ``NULL``), ``moment`` (``value`` is its type and text), ``interval`` (``value`` is its
      text and unit)
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
    """Return the line of a text that contains a place, shortened if long, and carets below the place."""
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
