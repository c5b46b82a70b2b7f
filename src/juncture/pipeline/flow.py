"""A dataflow as inline SVG: sources on the left, sinks on the right, each box to the right of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 170, 46, 60, 18
_LETTERS = 22
_COLOURS = {"source": "#8d99ae", "step": "#d1495b", "sink": "#2a9d8f"}


def draw_dataflow(boxes: Mapping[str, tuple[str, str]], edges: Sequence[tuple[str, str]]) -> str:
    """Draw boxes (name: kind and text) and their edges. Kinds are ``"source"``, ``"step"`` and ``"sink"``.

    Examples
    --------
    >>> drawing = draw_dataflow({"a": ("source", "csv"), "b": ("sink", "parquet")}, [("a", "b")])
    >>> drawing.count("<rect"), drawing.count("<path")
    (2, 1)
    """
    places = _places(boxes, edges)
    columns, rows = (1 + max((place[axis] for place in places.values()), default=0) for axis in (0, 1))
    width, height = columns * (_WIDTH + _ACROSS) - _ACROSS + 4, rows * (_HEIGHT + _DOWN) - _DOWN + 4
    parts = [_edge(places[read], places[name]) for read, name in edges]
    parts += [_box(name, *boxes[name], *places[name]) for name in boxes]
    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif">' + "".join(parts) + "</svg>"
    )


def _places(boxes: Mapping[str, object], edges: Sequence[tuple[str, str]]) -> dict[str, tuple[int, int]]:
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
    places = {}
    for name in boxes:
        row = filled.get(column[name], 0)
        filled[column[name]] = row + 1
        places[name] = column[name], row
    return places


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
