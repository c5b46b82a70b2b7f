"""Drawings of a plan as inline SVG. Text takes the colour of the page around it, so that they suit light and dark."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import chain
from typing import Any

from juncture.errors import PlanError
from juncture.runtime.progress import Phase

_CHOSEN, _OTHER = "#d1495b", "#8d99ae"
_WIDTH = 640
_BOX_WIDTH, _BOX_HEIGHT, _GAP = 180, 92, 50
_LINE_LETTERS, _LINE_HEIGHT, _LINES_MAX = 28, 15, 4


def charting() -> tuple[Any, Any]:
    """Return the modules ``altair`` and ``vl_convert``, loaded only here, since they are optional and slow to load.

    Raises
    ------
    PlanError
        If one of them is not installed.
    """
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise PlanError(
            f"charts need {error.name!r}, which is not installed. Install it with: pip install 'juncture[html]'."
        ) from error
    return altair, vl_convert


def draw_flow(left: Sequence[str], right: Sequence[str], step: Sequence[str], result: Sequence[str]) -> str:
    """Draw both sides, what is done with them, and the result, each a box with lines of text."""
    alt, _ = charting()
    middle = (_BOX_HEIGHT + _GAP) / 2
    across = _BOX_WIDTH + _GAP
    boxes = [
        _box(0, 0, left),
        _box(0, _BOX_HEIGHT + _GAP, right),
        _box(across, middle, step, chosen=True),
        _box(2 * across, middle, result),
    ]
    half = _BOX_HEIGHT / 2
    arrows = [
        {"x": _BOX_WIDTH, "y": half, "x2": across - 8, "y2": middle + half - 12},
        {"x": _BOX_WIDTH, "y": 1.5 * _BOX_HEIGHT + _GAP, "x2": across - 8, "y2": middle + half + 12},
        {"x": across + _BOX_WIDTH, "y": middle + half, "x2": 2 * across - 8, "y2": middle + half},
    ]
    width, height = 2 * across + _BOX_WIDTH, 2 * _BOX_HEIGHT + _GAP
    x = alt.X("x:Q", scale=alt.Scale(domain=[-2, width + 2], nice=False, zero=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[-2, height + 2], nice=False, zero=False, reverse=True), axis=None)
    rectangles = _chart(alt, boxes).mark_rect(fillOpacity=0.08, strokeWidth=1.5, cornerRadius=4)
    colour, stroke = _by_chosen(alt, alt.Color), _by_chosen(alt, alt.Stroke)
    rules = _chart(alt, arrows).mark_rule(color=_OTHER, strokeWidth=1.5).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    heads = _chart(alt, arrows).mark_point(shape="triangle-right", size=60, filled=True, opacity=1, color=_OTHER)
    layers = [
        rules,
        heads.encode(x=alt.X("x2:Q", axis=None), y=alt.Y("y2:Q", axis=None)),
        rectangles.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour, stroke=stroke),
        *(_text(alt, x, y, boxes, bold) for bold in (True, False)),
    ]
    return _svg(alt.layer(*layers).properties(width=width, height=height))


def draw_costs(options: Sequence[dict[str, Any]]) -> str:
    """Draw the cost of each algorithm that can serve as a bar: dicts with ``algorithm``, ``cost_s`` and ``chosen``."""
    alt, _ = charting()
    base = _chart(alt, options).encode(
        y=alt.Y("algorithm:N", sort=None, title=None, axis=alt.Axis(labelLimit=200, domain=False, ticks=False))
    )
    bars = base.mark_bar(height={"band": 0.7}).encode(
        x=alt.X("cost_s:Q", title="estimated time, s", axis=alt.Axis(tickCount=6)), color=_by_chosen(alt, alt.Color)
    )
    labels = base.mark_text(align="left", dx=4, color="currentColor").encode(
        x="cost_s:Q", text=alt.Text("cost_s:Q", format=".3~g")
    )
    return _svg((bars + labels).properties(width=_WIDTH, height={"step": 26}))


def draw_timeline(phases: Sequence[Phase]) -> str:
    """Draw what was done when, a line for each kind of phase."""
    alt, _ = charting()
    rows = [{"phase": each.name, "start": each.start_s, "end": each.start_s + each.seconds} for each in phases]
    bars = (
        _chart(alt, rows)
        .mark_bar(color=_CHOSEN, height={"band": 0.6})
        .encode(
            x=alt.X("start:Q", title="seconds since the join began"),
            x2="end:Q",
            y=alt.Y("phase:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False)),
        )
    )
    return _svg(bars.properties(width=_WIDTH, height={"step": 26}))


def draw_distances(points: Sequence[dict[str, Any]]) -> str:
    """Draw quantiles of distances as dots, a line for each table: dicts with ``table``, ``share`` and ``distance``."""
    alt, _ = charting()
    base = _chart(alt, points).encode(y=alt.Y("table:N", sort=None, title=None))
    x = alt.X("distance:Q", title=None, scale=alt.Scale(type="symlog"), axis=alt.Axis(tickCount=6, format="~s"))
    lines = base.mark_line(color=_OTHER).encode(x=x, detail="table:N")
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x, color=alt.Color("share:N", sort=None, title=None, legend=alt.Legend(labelColor="currentColor"))
    )
    return _svg((lines + dots).properties(width=_WIDTH, height={"step": 26}))


def _box(x: float, y: float, lines: Sequence[str], *, chosen: bool = False) -> dict[str, Any]:
    return {"x": x, "y": y, "x2": x + _BOX_WIDTH, "y2": y + _BOX_HEIGHT, "chosen": chosen, "lines": list(lines)}


def _text(alt: Any, x: Any, y: Any, boxes: Sequence[dict[str, Any]], bold: bool) -> Any:
    """Write the first line of each box in bold, or the others as they are."""
    rows = []
    for box in boxes:
        heading, *others = box["lines"]
        wrapped = (textwrap.wrap(each, _LINE_LETTERS, max_lines=_LINES_MAX, placeholder=" …") for each in others)
        lines = [(0, heading)] if bold else enumerate([*chain.from_iterable(wrapped)][:_LINES_MAX], start=1)
        rows += [{"x": box["x"] + 10, "y": box["y"] + 18 + n * _LINE_HEIGHT, "text": text} for n, text in lines]
    size, weight = (13, "bold") if bold else (11, "normal")
    style = {"align": "left", "baseline": "middle", "color": "currentColor"}
    mark = _chart(alt, rows).mark_text(**style, fontSize=size, fontWeight=weight)
    return mark.encode(x=x, y=y, text="text:N")


def _by_chosen(alt: Any, channel: Any) -> Any:
    """Return a channel that tells what was chosen from the rest."""
    return channel("chosen:N", scale=alt.Scale(domain=[True, False], range=[_CHOSEN, _OTHER]), legend=None)


def _chart(alt: Any, rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _svg(chart: Any) -> str:
    """Return a chart without a background, whose text and axes have the colour of the text around it."""
    _, vl_convert = charting()
    axis = {"labelColor": "currentColor", "titleColor": "currentColor", "titleFontWeight": "normal", "gridOpacity": 0.2}
    plain = (
        chart.configure(background="transparent", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(**axis, gridColor="currentColor", tickColor="currentColor", domainColor="currentColor")
    )
    drawn: str = vl_convert.vegalite_to_svg(plain.to_json())
    return drawn
