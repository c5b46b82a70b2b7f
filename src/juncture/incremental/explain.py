"""The dataflow of a view as text, JSON or a page, with the expected work per change, and as a live display."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from html import escape
from typing import Any, Literal

from juncture.errors import optional_packages
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.replacement import Replacement
from juncture.planner.explain.html import page
from juncture.spec.arguments import check_choice
from juncture.spec.size import format_size

ExplainFormat = Literal["text", "json", "html"]

_WIDTH = 72
_FIGURES = {"rows stored": 12, "on disk": 12, "memory": 10, "rows emitted": 12, "time": 9}
"""The figures of an operator, with their widths."""


def explained(graph: OperatorGraph, sources: Sequence[str], form: ExplainFormat) -> str:
    """Return the operators, and the rows that operators are expected to emit for a changed row of some sources."""
    check_choice("format", form, ("text", "json", "html"))
    expected = {source: _expected(graph, source) for source in sources if source in graph.inputs}
    if form == "json":
        return json.dumps({"operators": _facts(graph), "expected": expected}, indent=2)
    changes = [
        f"one changed row of {source}: about {each['emitted_rows']:,.0f} rows emitted by all operators, "
        f"{each['answer_rows']:,.0f} of them by the result"
        for source, each in expected.items()
    ]
    if form == "html":
        return _page(graph, changes)
    return "\n".join([operators_text(graph), *changes])


def operators_text(graph: OperatorGraph) -> str:
    """Return the operators as a tree from the result down. Shared operators are expanded once, and numbered."""
    lines = [" ".join([f"{'':{_WIDTH}}", *(f"{name:>{width}}" for name, width in _FIGURES.items())])]
    for text, operator in _tree(graph):
        figures = (f"{each:>{width}}" for each, width in zip(_figures(operator), _FIGURES.values(), strict=True))
        lines.append(" ".join([f"{_cut(text):{_WIDTH}}", *figures]).rstrip() if operator else text)
    return "\n".join(lines)


def _page(graph: OperatorGraph, changes: Sequence[str]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in _FIGURES)
    rows = "".join(
        f'<tr><th scope="row" style="white-space: pre-wrap">{escape(text)}</th>'
        f"{''.join(f'<td>{each}</td>' for each in _figures(operator))}</tr>"
        for text, operator in _tree(graph)
    )
    table = f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    parts = ["<h1>Dataflow of a view</h1>", table, "<h2>Expected work</h2>", *(f"<p>{escape(e)}</p>" for e in changes)]
    return page("Dataflow of a view", parts)


def _facts(graph: OperatorGraph) -> list[dict[str, Any]]:
    numbers = {id(operator): number for number, operator in enumerate(graph.operators)}
    return [
        {
            "operator": operator.label,
            "inputs": [numbers[id(each)] for each in operator.inputs],
            "retention": operator.retention,
            "rows": operator.rows,
            "rows_on_disk": operator.rows_on_disk,
            "memory_bytes": operator.nbytes,
            "emitted_rows": operator.emitted_rows,
            "duration_s": operator.seconds,
        }
        for operator in graph.operators
    ]


def _expected(graph: OperatorGraph, source: str) -> dict[str, float]:
    """Return about how many rows all operators and the answers emit for one changed row of a source."""
    rows: dict[int, float] = {}
    for operator in graph.operators:
        if operator.inputs:
            rows[id(operator)] = operator.expected_rows([rows[id(each)] for each in operator.inputs])
        else:
            rows[id(operator)] = float(operator is graph.inputs[source])
    answers = sum(rows[id(each)] for each in graph.answers.values())
    return {"emitted_rows": sum(rows.values()), "answer_rows": answers}


def replacement_explained(replacement: Replacement) -> str:
    """Return the operators of a replacement as a tree: the rows that are kept, and what is copied or computed."""
    lines = [f"{'':{_WIDTH}} {'rows kept':>12}"]
    for text, operator in _tree(replacement.new):
        twin = None if operator is None else replacement.stored_twins.get(operator)
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
        if operator.retention:
            yield f"{inner}{'│  ' if operator.inputs else '   '}{operator.retention}", None
        for number, each in enumerate(operator.inputs):
            yield from below(each, inner, "└─ " if number == len(operator.inputs) - 1 else "├─ ")

    answers = list(graph.answers.values())
    for answer in answers:
        yield from below(answer, "", "")
    for operator in graph.operators:
        if not uses.get(id(operator)) and operator not in answers:
            yield operator.label, operator
            if operator.retention:
                yield f"   {operator.retention}", None


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _figures(operator: ViewOperator | None) -> list[str]:
    if operator is None:
        return [""] * len(_FIGURES)
    counts = [f"{count:,}" if count else "" for count in (operator.rows, operator.rows_on_disk)]
    memory = format_size(operator.nbytes) if operator.nbytes else ""
    return [*counts, memory, f"{operator.emitted_rows:,}", f"{operator.seconds * 1_000:,.0f} ms"]


def watched(graph: OperatorGraph, epoch: Callable[[], int]) -> AbstractContextManager[Any]:
    """Return a context manager that displays the operators in a terminal."""
    with optional_packages("A display in the terminal"):
        from rich.live import Live
        from rich.text import Text

    def picture() -> Text:
        return Text(f"epoch {epoch():,}\n{operators_text(graph)}", no_wrap=True, overflow="ellipsis")

    return Live(get_renderable=picture, refresh_per_second=4)
