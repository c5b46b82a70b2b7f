"""An HTML page on a streaming query over time: rows, state, watermark and the duration of micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from html import escape
from typing import Any

from juncture.errors import DataError
from juncture.planner.explain.charts import draw_lines
from juncture.planner.explain.html import figure, page
from juncture.streams.progress import StreamProgress

_TITLE = "Streaming query"


def stream_page(micro_batches: Iterable[StreamProgress]) -> str:
    """Return an HTML page that shows how a streaming query ran. The page needs no network.

    It has charts of the rows read and emitted, the rows and bytes of the state, the progress of each side and the
    watermark, and the duration of each micro-batch. A table describes the last micro-batch.

    Parameters
    ----------
    micro_batches
        Progress of one query in the order of time: what `StreamProgress.recent` returns, or what a listener collected.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    DataError
        If there is no progress.
    PlanError
        If the chart library is not installed: ``pip install 'juncture[html]'``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import juncture as jn
    >>> first = jn.StreamProgress(
    ...     batch=0, started=datetime(2026, 1, 1, tzinfo=UTC), duration_s=0.5, sides=(), output_rows=4, state_rows=3,
    ...     state_bytes=120, late_rows=0, watermark=8,
    ... )
    >>> "Rows in the state" in jn.stream_page([first])
    True
    """
    reports = list(micro_batches)
    if not reports:
        raise DataError("The query has made no progress yet. Try again after a micro-batch.", name="JN-PROGRESS-EMPTY")
    first, last = reports[0], reports[-1]
    span = f"Micro-batches {first.batch} to {last.batch}, from {first.started:%Y-%m-%d %H:%M:%S}Z"
    parts = [
        f"<h1>{_TITLE}</h1>",
        f"<p>{escape(span)}.</p>",
        *_figures(reports),
        "<h2>Last micro-batch</h2>",
        last.table(),
    ]
    return page(_TITLE, parts)


def _figures(reports: Sequence[StreamProgress]) -> Iterator[str]:
    rows = [(each, {**{side.name: side.rows for side in each.sides}, "output": each.output_rows}) for each in reports]
    yield figure(draw_lines(_points(rows)), "Input and output rows of each micro-batch")
    state = [(each, {"rows": each.state_rows}) for each in reports]
    yield figure(draw_lines(_points(state)), "Rows in the state")
    yield figure(draw_lines(_points([(each, {"bytes": each.state_bytes}) for each in reports])), "Bytes in the state")
    ends = [(each, {**{side.name: side.last for side in each.sides}, "watermark": each.watermark}) for each in reports]
    positions = _points(ends)
    if positions:
        is_time = any(isinstance(value, date) for _, values in ends for value in values.values())
        yield figure(draw_lines(positions, is_time=is_time), "Positions of the sides and the watermark")
    durations = _points([(each, {"seconds": each.duration_s}) for each in reports])
    yield figure(draw_lines(durations, numbers="~g"), "Duration of each micro-batch in seconds")


def _points(values: Iterable[tuple[StreamProgress, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"at": each.started.isoformat(), "name": name, "value": value.isoformat() if isinstance(value, date) else value}
        for each, named in values
        for name, value in named.items()
        if value is not None
    ]
