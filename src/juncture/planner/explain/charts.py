"""Charts as inline SVG. Text takes the colour of the page around it, so that they suit light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from juncture.errors import optional_packages

_LINE = "#8d99ae"
_WIDTH = 640
_LETTER_WIDTH = 8
# Legends are laid out with the font of this process. The page may have wider letters, so leave space at the right.
_ROOM = {"left": 5, "top": 5, "bottom": 5, "right": 5 + 4 * _LETTER_WIDTH}


def charting() -> tuple[Any, Any]:
    """Return the modules ``altair`` and ``vl_convert``, loaded only here, since they are optional and slow to load."""
    with optional_packages("A chart"):
        import altair
        import vl_convert
    return altair, vl_convert


def draw_distances(points: Sequence[dict[str, Any]]) -> str:
    """Draw quantiles of distances as dots, a line for each table: dicts with ``table``, ``share`` and ``distance``."""
    alt, _ = charting()
    base = _chart(alt, points).encode(y=alt.Y("table:N", sort=None, title=None))
    x = alt.X("distance:Q", title=None, scale=alt.Scale(type="symlog"), axis=alt.Axis(tickCount=6, format="~s"))
    lines = base.mark_line(color=_LINE).encode(x=x, detail="table:N")
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x, color=alt.Color("share:N", sort=None, title=None, legend=_legend(alt))
    )
    return _svg((lines + dots).properties(width=_WIDTH, height={"step": 26}, padding=_ROOM))


def draw_lines(points: Sequence[dict[str, Any]], *, is_time: bool = False, numbers: str = "~s") -> str:
    """Draw a line for each ``name``, of ``value`` over ``at``, a time as ISO 8601 text.

    If `is_time`, ``value`` is such a time too. Otherwise it is a number, and `numbers` is the d3-format of the axis.
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
