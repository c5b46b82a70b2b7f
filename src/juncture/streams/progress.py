"""The progress of a streaming query as plain values, read from Spark's report on each micro-batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Any

from juncture.ordered.duration import format_duration
from juncture.spec.size import format_size

Place = int | float | date | datetime
"""A value of an order."""

OBSERVED = "juncture_{join}_{side}"
"""Name of the metrics of a side in Spark's reports: `rows`, `last`, `state_rows`, `state_bytes`, `late_rows` and the
fields of a `Scale`. For the result, the side is ``out``, with `rows`."""

_OBSERVED = re.compile(OBSERVED.format(join=r"(?P<join>\w+)", side="(?P<side>left|right|out)"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Scale:
    """What the reported numbers of a side mean in its order."""

    kind: str  # type of the order: integer, decimal, float, date or timestamp
    zoned: bool  # whether a timestamp is an instant
    step: float  # one step in numbers or seconds; negative in a descending order
    delay: float  # how many steps a row may be behind

    @property
    def is_time(self) -> bool:
        """Whether values are dates or timestamps."""
        return self.kind in ("date", "timestamp")

    def reached(self, steps: float) -> Place | None:
        """Return the value of a number of steps; None beyond the calendar."""
        # Large integers are not exact as floats.
        is_exact = self.kind == "integer" and isinstance(steps, int)
        value = steps * int(self.step) if is_exact else steps * self.step
        if not self.is_time:
            return int(value) if self.kind == "integer" else value
        try:
            moment = _EPOCH + timedelta(microseconds=round(value * 1e6))
        except OverflowError:
            return None
        if self.kind == "date":
            return moment.date()
        return moment if self.zoned else moment.replace(tzinfo=None)


@dataclass(frozen=True, kw_only=True)
class SideProgress:
    """Progress of one side of a join.

    Attributes
    ----------
    name
        ``"left"`` or ``"right"``; the name of a source if Spark reports no sides of a join.
    rows
        Rows that the micro-batch read.
    last
        The farthest value of the side's order so far; None before the first row, and for sources.
    lag
        How far ``last`` is behind the other side: a number, or a ``timedelta``. None if one side has had no row.
    """

    name: str
    rows: int
    last: Place | None
    lag: float | timedelta | None


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamProgress:
    """Progress of a streaming query in one micro-batch.

    Attributes
    ----------
    batch
        Number of the micro-batch.
    started
        Start time.
    duration_s
        Duration in seconds.
    sides
        Progress of each side.
    output_rows
        Rows emitted; None where the sink does not report it.
    state_rows, state_bytes
        Size of the state in all partitions.
    late_rows
        Rows that were behind the watermark and therefore excluded.
    watermark
        The least position of both sides minus their delays, as a value of the orders. Spark's watermark if Spark
        reports no sides of a join. None before the first one.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import juncture as jn
    >>> jn.StreamProgress(
    ...     batch=3, started=datetime(2026, 1, 1, tzinfo=UTC), duration_s=0.5, sides=(), output_rows=4, state_rows=3,
    ...     state_bytes=120, late_rows=0, watermark=8,
    ... )
    batch 3    0.50 s, from 2026-01-01 00:00:00Z
    watermark  8
    state      3 rows, 120 B
    output     4 rows
    """

    batch: int
    started: datetime
    duration_s: float
    sides: tuple[SideProgress, ...]
    output_rows: int | None
    state_rows: int
    state_bytes: int
    late_rows: int
    watermark: Place | None

    @staticmethod
    def of(query: Any) -> StreamProgress | None:
        """Return the last micro-batch of a ``StreamingQuery`` of classic Spark or Spark Connect; None without one."""
        return next(reversed(StreamProgress.recent(query)), None)

    @staticmethod
    def recent(query: Any) -> tuple[StreamProgress, ...]:
        """Return the progress of the last micro-batches of a streaming query that Spark still has."""
        reader = ProgressReader()
        return tuple(reader.read(each) for each in query.recentProgress)

    def __repr__(self) -> str:
        lines = list(self._lines())
        width = max(len(label) for label, _ in lines)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)

    def _repr_html_(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the progress as an HTML table."""
        rows = (f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>" for label, text in self._lines())
        return f"<table>{''.join(rows)}</table>"

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield f"batch {self.batch}", f"{self.duration_s:.2f} s, from {self.started:%Y-%m-%d %H:%M:%S}Z"
        for side in self.sides:
            reached = "" if side.last is None else f", up to {_shown(side.last)}"
            behind = f", {_length(side.lag)} behind the other side" if side.lag else ""
            yield side.name, f"{_rows(side.rows)}{reached}{behind}"
        yield "watermark", "none yet" if self.watermark is None else _shown(self.watermark)
        yield "state", f"{_rows(self.state_rows)}, {format_size(self.state_bytes)}"
        if self.late_rows:
            yield "late", f"{_rows(self.late_rows)}, excluded"
        yield "output", "not reported by this sink" if self.output_rows is None else _rows(self.output_rows)


@dataclass
class _SideReports:
    """What Spark has reported of a side: numbers of rows in the last micro-batch, and the state and position since."""

    rows: int = 0
    late_rows: int = 0
    state: tuple[int, int] | None = None  # rows and bytes
    last: float | None = None
    scale: Scale | None = None

    def add(self, values: Mapping[str, Any]) -> None:
        """Add the metrics of a micro-batch; metrics of no rows are null, and missing in JSON."""
        self.rows, self.late_rows = values.get("rows") or 0, values.get("late_rows") or 0
        if values.get("last") is not None:
            scale: dict[str, Any] = {each.name: values.get(each.name) for each in fields(Scale)}
            self.scale = Scale(**scale)
            self.last = values["last"] if self.last is None else max(self.last, values["last"])
        if values.get("state_rows") is not None:
            self.state = values["state_rows"], values["state_bytes"]

    def lag(self, other: _SideReports | None) -> float | timedelta | None:
        """Return how far the side is behind the other; None if one of them has had no row."""
        if other is None or other.last is None or self.last is None or self.scale is None:
            return None
        behind = max(0, other.last - self.last) * abs(self.scale.step)
        return timedelta(microseconds=round(behind * 1e6)) if self.scale.is_time else behind


class ProgressReader:
    """Reads Spark's reports on one query, micro-batch by micro-batch, and remembers the position of each side."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, str], _SideReports] = {}  # by join and side

    def read(self, reported: Mapping[str, Any]) -> StreamProgress:
        """Read a ``StreamingQueryProgress``, or its JSON."""
        out = self._observe(reported.get("observedMetrics") or {})
        sides, operators = self._sides.values(), reported.get("stateOperators") or ()
        # Spark Connect may report names of metrics without values.
        is_join = any(side.scale is not None for side in sides)
        state_sizes = [side.state for side in sides if side.state is not None] or [
            (each["numRowsTotal"], each["memoryUsedBytes"]) for each in operators
        ]
        late_rows = sum(side.late_rows for side in sides)
        sink_rows = (reported.get("sink") or {}).get("numOutputRows", -1)
        return StreamProgress(
            batch=reported["batchId"],
            started=datetime.fromisoformat(reported["timestamp"]),
            duration_s=(reported.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
            sides=tuple(self._progress() if is_join else _sources(reported.get("sources") or ())),
            output_rows=out if out is not None else None if sink_rows < 0 else sink_rows,
            state_rows=sum(rows for rows, _ in state_sizes),
            state_bytes=sum(size for _, size in state_sizes),
            late_rows=late_rows + sum(each["numRowsDroppedByWatermark"] for each in operators),
            watermark=self._watermark() if is_join else _instant((reported.get("eventTime") or {}).get("watermark")),
        )

    def _observe(self, metrics: Mapping[str, Any]) -> int | None:
        """Add the metrics of each side, and return the number of emitted rows; None if it is not reported."""
        for side in self._sides.values():
            side.rows = side.late_rows = 0
        out = None
        for name, row in metrics.items():
            found = _OBSERVED.fullmatch(name)
            if found is None:
                continue
            values: dict[str, Any] = row.asDict() if hasattr(row, "asDict") else dict(row)
            if found["side"] == "out":
                out = values.get("rows") or 0
            else:
                self._sides.setdefault((found["join"], found["side"]), _SideReports()).add(values)
        return out

    def _progress(self) -> Iterator[SideProgress]:
        joins = list(dict.fromkeys(join for join, _ in self._sides))
        for join, name in sorted(self._sides, key=lambda each: (joins.index(each[0]), each[1])):
            side = self._sides[join, name]
            yield SideProgress(
                name=name if len(joins) == 1 else f"{name} of join {joins.index(join) + 1}",
                rows=side.rows,
                last=None if side.last is None or side.scale is None else side.scale.reached(side.last),
                lag=side.lag(self._sides.get((join, "right" if name == "left" else "left"))),
            )

    def _watermark(self) -> Place | None:
        """Return the least position of both sides minus their delays; None if one has had no row."""
        passed = []
        for side in self._sides.values():
            if side.last is None or side.scale is None:
                return None
            steps = side.last - side.scale.delay
            passed.append((steps * abs(side.scale.step), side.scale.reached(steps)))
        return min(passed, key=lambda each: each[0])[1]


def _instant(text: str | None) -> datetime | None:
    """Return Spark's watermark; None before the first one, which Spark reports as the epoch."""
    moment = None if text is None else datetime.fromisoformat(text)
    return None if moment == _EPOCH else moment


def _sources(sources: Iterable[Mapping[str, Any]]) -> Iterator[SideProgress]:
    """Yield the rows of each source, where no join reports its sides."""
    for each in sources:
        yield SideProgress(name=each["description"], rows=each["numInputRows"], last=None, lag=None)


def _rows(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _shown(place: Place) -> str:
    if isinstance(place, datetime):
        text = place.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
        return text + ("Z" if place.tzinfo is not None else "")
    return place.isoformat() if isinstance(place, date) else f"{place:,.12g}"


def _length(lag: float | timedelta) -> str:
    if isinstance(lag, timedelta):
        return format_duration(lag // timedelta(microseconds=1) * 1_000)
    return f"{lag:,.12g}"
