"""Charts as inline SVG. Text takes the colour of the page around it, so that they suit light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from juncture.errors import PlanError
from juncture.runtime.progress import Phase

_CHOSEN, _OTHER = "#d1495b", "#8d99ae"
_WIDTH = 640
_LETTER_WIDTH = 8
# Legends are laid out with the font of this process. The page may have wider letters, so leave space at the right.
_ROOM = {"left": 5, "top": 5, "bottom": 5, "right": 5 + 4 * _LETTER_WIDTH}
_LEAST_S = 0.001
"""Smaller costs are drawn with this length, because a logarithmic axis cannot show zero."""


def charting() -> tuple[Any, Any]:
    """Return the modules ``altair`` and ``vl_convert``, loaded only here, since they are optional and slow to load."""
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise PlanError(
            f"Charts need {error.name!r}, which is not installed. Install it: pip install 'juncture[html]'.",
            name="JN-PACKAGE-MISSING",
        ) from error
    return altair, vl_convert


def draw_costs(options: Sequence[dict[str, Any]]) -> str:
    """Draw the cost of each algorithm that can run: dicts with ``algorithm``, ``cost_s``, ``label`` and ``chosen``.

    The axis is logarithmic, because costs are rough estimates that differ by orders of magnitude.
    """
    alt, _ = charting()
    costs = [max(option["cost_s"], _LEAST_S) for option in options]
    ends = [10.0 ** math.floor(math.log10(min(costs)) - 0.3), 10.0 ** math.ceil(math.log10(max(costs)) + 0.3)]
    rows = [{**option, "from_s": ends[0], "cost_s": cost} for option, cost in zip(options, costs, strict=True)]
    base = _chart(alt, rows).encode(y=_names(alt, "algorithm", [option["algorithm"] for option in options]))
    scale = alt.Scale(type="log", domain=ends, nice=False)
    x = {"title": "estimated time, s", "scale": scale, "axis": alt.Axis(tickCount=6, format="~r")}
    bars = base.mark_rule(strokeWidth=8).encode(
        x=alt.X("from_s:Q", **x), x2="cost_s:Q", color=_by_chosen(alt, alt.Color)
    )
    labels = base.mark_text(align="left", dx=6, color="currentColor").encode(x=alt.X("cost_s:Q", **x), text="label:N")
    return _svg((bars + labels).properties(width=_WIDTH, height={"step": 26}))


def draw_timeline(phases: Sequence[Phase]) -> str:
    """Draw what was done when, a line for each kind of phase."""
    alt, _ = charting()
    rows = [{"phase": each.name, "start": each.start_s, "end": each.start_s + each.duration_s} for each in phases]
    bars = (
        _chart(alt, rows)
        .mark_bar(color=_CHOSEN, height={"band": 0.6})
        .encode(
            x=alt.X("start:Q", title="seconds since the join began", axis=alt.Axis(tickCount=6)),
            x2="end:Q",
            y=_names(alt, "phase", [each.name for each in phases]),
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
        x=x, color=alt.Color("share:N", sort=None, title=None, legend=_legend(alt))
    )
    return _svg((lines + dots).properties(width=_WIDTH, height={"step": 26}, padding=_ROOM))


def draw_lines(points: Sequence[dict[str, Any]], *, is_time: bool = False, numbers: str = "~s") -> str:
    """Draw values over time, a line for each name: dicts with ``at``, ``name`` and ``value``.

    ``at`` is a time as ISO 8601 text. If `is_time`, ``value`` is one too. Otherwise ``value`` is a number, and
    `numbers` is the d3-format of the axis.
    """
    alt, _ = charting()
    names = list(dict.fromkeys(point["name"] for point in points))
    scale = alt.Scale(zero=not is_time)
    axis = alt.Axis(tickCount=4) if is_time else alt.Axis(tickCount=4, format=numbers)
    color = alt.Color("name:N", sort=names, title=None, legend=_legend(alt))
    lines = (
        _chart(alt, points)
        .mark_line(point={"size": 12}, interpolate="step-after")
        .encode(
            x=alt.X("at:T", title=None, axis=alt.Axis(tickCount=6)),
            y=alt.Y(f"value:{'T' if is_time else 'Q'}", title=None, axis=axis, scale=scale),
            color=color,
        )
    )
    return _svg(lines.properties(width=_WIDTH, height=120, padding=_ROOM))


def _legend(alt: Any) -> Any:
    return alt.Legend(labelColor="currentColor")


def _names(alt: Any, field: str, names: Iterable[str]) -> Any:
    """Return an axis of names, with room for the longest in whatever font the page has."""
    room = _LETTER_WIDTH * max((len(name) for name in names), default=0)
    axis = alt.Axis(labelLimit=room, minExtent=room, domain=False, ticks=False)
    return alt.Y(f"{field}:N", sort=None, title=None, axis=axis)


def _by_chosen(alt: Any, channel: Any) -> Any:
    """Return a channel that highlights the chosen algorithm."""
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
