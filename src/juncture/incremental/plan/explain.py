"""The dataflow of a view as text, and as a live display in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.plan.replacement import Replacement

_WIDTH = 72


def explained(graph: OperatorGraph) -> str:
    """Return the operators as a tree from the result down. Shared operators are expanded once, and numbered."""
    lines = [f"{'':{_WIDTH}} {'rows stored':>12} {'on disk':>12} {'memory':>10} {'rows emitted':>12} {'time':>9}"]
    lines += [f"{_cut(text):{_WIDTH}} {_figures(operator)}".rstrip() for text, operator in _tree(graph)]
    return "\n".join(lines)


def replacement_explained(replacement: Replacement) -> str:
    """Return the operators of a replacement as a tree: the rows that are kept, and what is copied or computed."""
    lines = [f"{'':{_WIDTH}} {'rows kept':>12}"]
    for text, operator in _tree(replacement.new):
        twin = None if operator is None else replacement.kept.get(operator)
        rows = f"{twin.rows:,}" if twin is not None else ""
        state = "" if operator is None else replacement.state(operator)
        lines.append(f"{_cut(text):{_WIDTH}} {rows:>12} {state}".rstrip())
    return "\n".join(lines)


def _tree(graph: OperatorGraph) -> Iterator[tuple[str, ViewOperator | None]]:
    uses: dict[int, int] = {}
    for operator in graph.operators:
        for each in operator.inputs:
            uses[id(each)] = uses.get(id(each), 0) + 1
    numbers: dict[int, int] = {}

    def below(operator: ViewOperator, lead: str, mark: str) -> Iterator[tuple[str, ViewOperator | None]]:
        if id(operator) in numbers:
            yield f"{lead}{mark}as [{numbers[id(operator)]}]: {operator.label}", None
            return
        text = operator.label
        if uses.get(id(operator), 0) > 1:
            numbers[id(operator)] = len(numbers) + 1
            text = f"[{numbers[id(operator)]}] {text}"
        yield f"{lead}{mark}{text}", operator
        inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        for place, each in enumerate(operator.inputs):
            yield from below(each, inner, "└─ " if place == len(operator.inputs) - 1 else "├─ ")

    answers = list(graph.answers.values())
    for answer in answers:
        yield from below(answer, "", "")
    for operator in graph.operators:
        if not uses.get(id(operator)) and operator not in answers:
            yield operator.label, operator


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _figures(operator: ViewOperator | None) -> str:
    if operator is None:
        return ""
    rows = f"{operator.rows:,}" if operator.rows else ""
    on_disk = f"{operator.rows_on_disk:,}" if operator.rows_on_disk else ""
    memory = _bytes(operator.nbytes) if operator.nbytes else ""
    return f"{rows:>12} {on_disk:>12} {memory:>10} {operator.emitted_rows:>12,} {operator.seconds * 1_000:>6,.0f} ms"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def watched(graph: OperatorGraph, epoch: Callable[[], int]) -> AbstractContextManager[Any]:
    """Return a context manager that displays the operators in a terminal."""
    from rich.live import Live
    from rich.text import Text

    def picture() -> Text:
        return Text(f"epoch {epoch():,}\n{explained(graph)}", no_wrap=True, overflow="ellipsis")

    return Live(get_renderable=picture, refresh_per_second=4)
