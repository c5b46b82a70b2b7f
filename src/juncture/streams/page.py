"""A streaming query over time as a page: rows, state, watermark and how long micro-batches took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from html import escape
from typing import Any

from juncture.errors import DataError
from juncture.planner.explain.charts import draw_lines
from juncture.planner.explain.html import figure, page
from juncture.streams.progress import StreamProgress

_TITLE = "How a stream went"


def stream_page(micro_batches: Iterable[StreamProgress]) -> str:
    """Return a page that shows how a streaming query went, which needs no network.

    It has a chart for each of: rows that came and went, rows and bytes of the state, how far each side and the
    watermark have come, and how long each micro-batch took; and the last micro-batch as a table.

    Parameters
    ----------
    micro_batches
        Of one query, in the order of time: what `StreamProgress.recent` returns, or what a listener has gathered.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    DataError
        If there is no progress.
    PlanError
        If what draws is not installed: ``pip install 'juncture[html]'``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import juncture as jn
    >>> first = jn.StreamProgress(
    ...     batch=0, started=datetime(2026, 1, 1, tzinfo=UTC), duration_s=0.5, sides=(), rows_out=4, state_rows=3,
    ...     state_bytes=120, late_rows=0, watermark=8,
    ... )
    >>> "What the state holds" in jn.stream_page([first])
    True
    """
    told = list(micro_batches)
    if not told:
        raise DataError("The query has made no progress yet. Try again after a micro-batch.", name="JN-PROGRESS-EMPTY")
    first, last = told[0], told[-1]
    span = f"Micro-batches {first.batch} to {last.batch}, from {first.started:%Y-%m-%d %H:%M:%S}Z"
    parts = [f"<h1>{_TITLE}</h1>", f"<p>{escape(span)}.</p>", *_figures(told), "<h2>The last</h2>", last.table()]
    return page(_TITLE, parts)


def _figures(told: Sequence[StreamProgress]) -> Iterator[str]:
    rows = [(each, {**{side.name: side.rows for side in each.sides}, "given": each.rows_out}) for each in told]
    yield figure(draw_lines(_points(rows)), "Rows that each micro-batch read and gave")
    held = [(each, {"rows": each.state_rows}) for each in told]
    yield figure(draw_lines(_points(held)), "What the state holds, rows")
    yield figure(draw_lines(_points([(each, {"bytes": each.state_bytes}) for each in told])), "The same, bytes")
    places = [(each, {**{side.name: side.last for side in each.sides}, "watermark": each.watermark}) for each in told]
    reached = _points(places)
    if reached:
        is_time = any(isinstance(value, date) for _, values in places for value in values.values())
        yield figure(draw_lines(reached, is_time=is_time), "How far the sides and the watermark have come")
    lasted = _points([(each, {"seconds": each.duration_s}) for each in told])
    yield figure(draw_lines(lasted, numbers="~g"), "Seconds for each")


def _points(values: Iterable[tuple[StreamProgress, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"at": each.started.isoformat(), "name": name, "value": _shown(value)}
        for each, named in values
        for name, value in named.items()
        if value is not None
    ]


def _shown(value: Any) -> Any:
    """Return a value as a chart takes it."""
    return value.isoformat() if isinstance(value, date | datetime) else value
