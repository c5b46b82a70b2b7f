"""Pipelines explained as text and as a page: the dataflow, and the plan of each join."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from juncture.joins.many import plan_many
from juncture.joins.planning import plan
from juncture.pipeline.engine import rights
from juncture.pipeline.graph import steps_in_order
from juncture.pipeline.model import Check, Derived, File, JoinStep, ManyStep, SinkSection, SourceSection, SqlStep, Step
from juncture.pipeline.schemas import Schemas
from juncture.pipeline.sinks import sink_format
from juncture.pipeline.sources import format_name, parquet_files
from juncture.planner.explain.html import page, rows_table

NOT_YET = "Rows of steps and of text files are unknown yet and count as none. Joins are planned again when they run."


@dataclass(frozen=True)
class Explained:
    """An explanation of a pipeline. `plan_of` returns the plan of a step, or None. `where` names the engine."""

    file: File
    schemas: Schemas
    plan_of: Callable[[str], Any]
    where: str
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the explanation as text."""
        lines = [f"Pipeline {self.file.pipeline.name} {self.where}"]
        lines += [f"  {note}" for note in self.notes]
        for heading, parts in (("sources", self._sources()), ("steps", self._steps())):
            if parts:
                lines += ["", heading]
            for name, words in parts:
                lines.append(f"  {name:<12}  {words}")
                join_plan = self.plan_of(name) if name in self.file.steps else None
                if join_plan is not None:
                    lines += [f"      {line}" for line in join_plan.explain().splitlines()]
        for heading, parts in (("checks", [_check(each) for each in self.file.checks]), ("sinks", self._sinks())):
            if parts:
                lines += ["", heading, *(f"  {name:<12}  {words}" for name, words in parts)]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the explanation as a self-contained page."""
        title = escape(f"Pipeline {self.file.pipeline.name}")
        parts = [f"<h1>{title}</h1>", f"<p>It runs {escape(self.where)}.</p>"]
        parts += [*(f"<p>{escape(note)}</p>" for note in self.notes), self._drawing()]
        parts += ["<h2>Sources</h2>", rows_table(self._sources()), "<h2>Steps</h2>", rows_table(self._steps())]
        if self.file.checks:
            parts += ["<h2>Checks</h2>", rows_table([_check(each) for each in self.file.checks])]
        parts += ["<h2>Sinks</h2>", rows_table(self._sinks())]
        for name in steps_in_order(self.file):
            join_plan = self.plan_of(name)
            if join_plan is not None:
                inner = re.search(r"<main>\n(.*)\n</main>", join_plan.explain("html"), re.DOTALL)
                parts.append(f'<h2 id="step-{escape(name)}">The join {escape(name)}</h2>')
                parts.append(re.sub(r"<(/?)h[12]>", r"<\1h3>", inner[1] if inner else ""))
        return page(title, parts)

    def _drawing(self) -> str:
        boxes = {name: ("source", format_name(source)) for name, source in self.file.sources.items()}
        boxes |= {name: ("step", _kind(step)) for name, step in self.file.steps.items()}
        edges = [(read, name) for name, step in self.file.steps.items() for read in dict.fromkeys(step.inputs)]
        for name, sink in self.file.sinks.items():
            # A sink may have the name of a step.
            boxes[f"{name} "] = ("sink", sink_format(sink))
            edges.append((sink.from_, f"{name} "))
        drawing = draw_dataflow(boxes, edges)
        return f'<figure aria-label="What flows where">{drawing}<figcaption>What flows where</figcaption></figure>'

    def _sources(self) -> list[tuple[str, str]]:
        return [(name, f"{_description(source)}; {self._columns(name)}") for name, source in self.file.sources.items()]

    def _steps(self) -> list[tuple[str, str]]:
        return [(name, f"{_words(self.file.steps[name])}; {self._columns(name)}") for name in steps_in_order(self.file)]

    def _sinks(self) -> list[tuple[str, str]]:
        return [(name, _sink(sink)) for name, sink in self.file.sinks.items()]

    def _columns(self, name: str) -> str:
        schema = self.schemas.get(name)
        return "columns known to Spark only" if schema is None else f"columns {', '.join(schema.names)}"


def planned_here(file: File, schemas: Schemas, memory: str | int | None = None) -> Callable[[str], Any]:
    """Return a function that plans in-process joins before steps have rows: by Parquet footers, otherwise by types."""

    def side(name: str) -> Any:
        source = file.sources.get(name)
        if source is not None and format_name(source) == "parquet":
            return parquet_files(source)
        schema = schemas[name]
        return None if schema is None else schema.empty_table()

    def plan_of(name: str) -> Any:
        step = file.steps[name]
        if isinstance(step, JoinStep):
            return plan(side(step.left), side(step.right), step.spec, algorithm=step.algorithm, memory=memory)
        if isinstance(step, ManyStep):
            return plan_many(side(step.left), rights(step, side), memory=memory)
        return None

    return plan_of


def _description(source: SourceSection) -> str:
    location = source.table or ", ".join(source.path or ()) or str(source.options.get("dbtable", "a query"))
    order = "" if source.order is None else ", ordered, for streams"
    return f"{source.format or ''} {location}".strip() + order


def _kind(step: Step) -> str:
    if isinstance(step, JoinStep):
        return f"{step.spec.kind} join"
    if isinstance(step, Derived):
        return "grid" if step.grid is not None else "group" if step.agg is not None else "rows"
    if isinstance(step, SqlStep):
        return "SQL"
    return "join of many" if isinstance(step, ManyStep) else "interpolate"


def _words(step: Step) -> str:
    if isinstance(step, JoinStep):
        said = {key: value for key, value in step.spec.to_dict().items() if key != "kind"}
        arguments = ", ".join(f"{key}={value!r}" for key, value in said.items())
        return f"{step.left} {step.spec.kind} join {step.right}: {arguments}"
    if isinstance(step, ManyStep):
        return f"{step.left} with {', '.join(f'{name} ({t.definition.spec.kind})' for name, t in step.tables.items())}"
    if isinstance(step, Derived):
        return f"from {step.from_}: {'; '.join(_clauses(step))}"
    if isinstance(step, SqlStep):
        return f"from {', '.join(step.inputs)}: {' '.join(step.sql.split())}"
    return f"{step.left} interpolated between the rows of {step.right}"


def _clauses(step: Derived) -> Iterator[str]:
    if step.filter is not None:
        yield f"where {step.filter}"
    if step.agg is not None:
        yield f"by {', '.join(step.by) or 'nothing'}: {_named(step.agg)}"
    if isinstance(step.select, dict):
        yield f"select {_named(step.select)}"
    elif step.select is not None:
        yield f"select {', '.join(step.select)}"
    if step.distinct:
        yield "each row once"
    if step.grid is not None:
        yield f"a row every {step.grid.every} of {step.grid.on}"


def _named(expressions: Mapping[str, str]) -> str:
    return ", ".join(f"{text} AS {name}" for name, text in expressions.items())


def _check(check: Check) -> tuple[str, str]:
    said = check.model_dump(exclude_unset=True, exclude={"from_", "on_failure"})
    # A list of one name is written as the name.
    written = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in said.items()}
    words = ", ".join(f"{key}={value!r}" for key, value in written.items())
    return check.from_, f"{words}, or the run {'fails' if check.on_failure == 'error' else 'warns'}"


def _sink(sink: SinkSection) -> str:
    location = sink.table or sink.path or str(sink.options.get("dbtable"))
    by = f", in folders by {', '.join(sink.partition_by)}" if sink.partition_by else ""
    return f"{sink.from_} as {sink_format(sink)} to {location}{by}, mode {sink.mode}"


_WIDTH, _HEIGHT, _ACROSS, _DOWN = 170, 46, 60, 18
_LETTERS = 22
_COLOURS = {"source": "#8d99ae", "step": "#d1495b", "sink": "#2a9d8f"}


def draw_dataflow(boxes: Mapping[str, tuple[str, str]], edges: Sequence[tuple[str, str]]) -> str:
    """Draw boxes (name: kind and text) and their edges. Kinds are ``"source"``, ``"step"`` and ``"sink"``."""
    cells = _cells(boxes, edges)
    columns, rows = (1 + max((cell[axis] for cell in cells.values()), default=0) for axis in (0, 1))
    width, height = columns * (_WIDTH + _ACROSS) - _ACROSS + 4, rows * (_HEIGHT + _DOWN) - _DOWN + 4
    parts = [_edge(cells[read], cells[name]) for read, name in edges]
    parts += [_box(name, *boxes[name], *cells[name]) for name in boxes]
    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif">' + "".join(parts) + "</svg>"
    )


def _cells(boxes: Mapping[str, object], edges: Sequence[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Return the column and row of each box. Its column is to the right of its inputs."""
    column = dict.fromkeys(boxes, 0)
    # Without cycles, the longest path has fewer edges than there are boxes.
    for _ in boxes:
        for read, name in edges:
            column[name] = max(column[name], column[read] + 1)
    for name in boxes:
        # Boxes without inputs are next to their first reader, for short lines.
        readers = [column[reader] for read, reader in edges if read == name]
        if readers and name not in {reader for _, reader in edges}:
            column[name] = min(readers) - 1
    filled: dict[int, int] = {}
    cells = {}
    for name in boxes:
        row = filled.get(column[name], 0)
        filled[column[name]] = row + 1
        cells[name] = column[name], row
    return cells


def _box(name: str, kind: str, words: str, column: int, row: int) -> str:
    x, y = 2 + column * (_WIDTH + _ACROSS), 2 + row * (_HEIGHT + _DOWN)
    middle, colour = x + _WIDTH / 2, _COLOURS[kind]
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="{colour}" fill-opacity="0.08" '
        f'stroke="{colour}" stroke-width="1.5"/>'
        f'<text x="{middle}" y="{y + 20}" text-anchor="middle" font-size="14" font-weight="600" fill="currentColor">'
        f"{_cut(name.strip())}</text>"
        f'<text x="{middle}" y="{y + 37}" text-anchor="middle" font-size="12" fill="currentColor">{_cut(words)}</text>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = 2 + start[0] * (_WIDTH + _ACROSS) + _WIDTH, 2 + start[1] * (_HEIGHT + _DOWN) + _HEIGHT / 2
    to_x, to_y = 2 + end[0] * (_WIDTH + _ACROSS), 2 + end[1] * (_HEIGHT + _DOWN) + _HEIGHT / 2
    bend = x + _ACROSS / 2, to_x - _ACROSS / 2
    return (
        f'<path d="M{x} {y} C{bend[0]} {y} {bend[1]} {to_y} {to_x - 6} {to_y} m-5 -4 l6 4 l-6 4" fill="none" '
        'stroke="#8d99ae" stroke-width="1.5"/>'
    )


def _cut(text: str) -> str:
    return escape(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")
