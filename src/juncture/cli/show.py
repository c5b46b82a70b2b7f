"""Rows and reports, laid out for the width of the console."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.types as pat
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from juncture.cli.console import WIDTH_OF_PIPES
from juncture.planner.report import MatchReport
from juncture.spec.resolved import Resolved

_CELL_WIDTH_MAX = 28
_GAP = 2


def heading(text: str) -> RenderableType:
    """Return a heading."""
    return Padding(Text(text, style="bold"), (1, 0, 0, 0), expand=False)


def table_view(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> Table:
    """Return rows of texts as a table, in which columns of numbers are right-aligned."""
    table = Table(box=None, pad_edge=False)
    for each in headings:
        table.add_column(each, justify="right" if each in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def count(rows: int, noun: str = "row") -> str:
    """Return a number with its noun, such as "1 row" or "336,776 rows"."""
    return f"{rows:,} {noun}{'' if rows == 1 else 's'}"


def rows_view(head: pa.Table, console: Console, *, total: int | None, first: Sequence[str] = ()) -> RenderableType:
    """Return the first rows of a table with as many columns as fit, those in `first` preferred. Pipes are not cut."""
    cut = None if console.width >= WIDTH_OF_PIPES else _CELL_WIDTH_MAX
    cells = {name: [_cell(value, cut) for value in _plain_text(head[name])] for name in head.column_names}
    visible = _fitting(cells, console.width, first)
    # The box adds one blank between columns, and the padding another.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
    for name in head.column_names:
        if name in visible:
            table.add_column(Text(name), justify="right" if _is_number(head[name].type) else "left", no_wrap=True)
    for row in zip(*(cells[name] for name in head.column_names if name in visible), strict=True):
        table.add_row(*row)
    hidden = [name for name in head.column_names if name not in visible]
    notes = []
    if total is None or total > head.num_rows:
        notes.append(f"the first {count(head.num_rows)}" + (f" of {total:,}" if total is not None else ""))
    if hidden:
        notes.append(f"{count(len(hidden), 'column')} more: {', '.join(hidden)}")
    if not notes:
        notes.append(count(head.num_rows))
    return Group(table, Text("; ".join(notes), style="dim"))


def leading_columns(join: Resolved) -> list[str]:
    """Return the most informative columns of an output: compared columns, keys and matches."""
    ordering = [name for name in join.position("left") if name is not None]
    leading = [part.name for name in ordering for part in join.value("left", name).parts]
    matched = [column.name for column in join.output if column.side == "right"]
    return [*leading, *join.left_by, *matched, *(each.name for each in join.aggregates)]


def print_plan(text: str, console: Console) -> None:
    """Print a plan's explanation; on a terminal, long lines are wrapped with an indent."""
    for line in text.splitlines():
        if console.is_terminal:
            label = re.match(r"\s*\S.*?\s{2,}(?=\S)", line)
            indent = " " * (label.end() if label else 0)
            line = textwrap.fill(line, max(console.width, len(indent) + 20), subsequent_indent=indent)
        console.print(Text(line), soft_wrap=True)


def _fitting(cells: dict[str, list[Text]], width: int, first: Sequence[str]) -> set[str]:
    visible: set[str] = set()
    for name in [*(name for name in first if name in cells), *(name for name in cells if name not in first)]:
        needed = max([len(name), *(cell.cell_len for cell in cells[name])]) + _GAP
        if visible and needed > width:
            break
        visible.add(name)
        width -= needed
    return visible


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))


def _plain_text(column: pa.ChunkedArray) -> list[object]:
    """Return values, with dates and times as short text, since Python's types end in 9999."""
    if not pat.is_timestamp(column.type) and not pat.is_date(column.type):
        return list(column.to_pylist())
    texts = column.cast(pa.string()).to_pylist()
    return [None if text is None else _short_time(text) for text in texts]


def _short_time(text: str) -> str:
    zone = "Z" if text.endswith("Z") else ""
    clock = text.removesuffix("Z")
    if "." in clock:
        clock = clock.rstrip("0").removesuffix(".")
    return clock + zone


def _cell(value: object, cut: int | None) -> Text:
    if value is None:
        return Text("null", style="dim")
    text = f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
    text = " ".join(text.split())
    return Text(text if cut is None or len(text) <= cut else text[: cut - 1] + "…")


def report_view(report: MatchReport) -> RenderableType:
    """Return a match report as a table."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for label, rows, share, why in report.lines():
        table.add_row(Text(label), rows, share, Text(why), style="dim" if rows == "0" else "")
    return Group(table, *(Text(f"{name}  {words}") for name, words in report.distance()))
