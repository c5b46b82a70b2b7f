"""The join of a run, as plain data for a process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from juncture_benchmarks.datasets import RangeTables

if TYPE_CHECKING:
    from juncture.spec.overlap import Overlap
    from juncture.spec.range import Range

__all__ = ["Task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A range or an overlap join of two folders of Parquet files.

    Attributes
    ----------
    left, right
        The folders.
    shape
        What the tables are, as in `juncture_benchmarks.datasets.RangeTables`: events and points are joined by a
        window, intervals by overlap, half-open.
    lower, upper
        The ends of the window, in microseconds for events.
    closed
        Which of them belong to it.
    """

    left: str
    right: str
    shape: Literal["events", "points", "intervals"]
    lower: int = 0
    upper: int = 0
    closed: Literal["both", "right"] = "both"

    @staticmethod
    def of(tables: RangeTables, **window: Any) -> Task:
        """Return the join of a generated pair of tables."""
        return Task(left=str(tables.left), right=str(tables.right), shape=tables.shape, **window)

    @property
    def on(self) -> tuple[str, str]:
        """The columns that a window is about."""
        return ("eventTime", "measurementTime") if self.shape == "events" else ("ts", "ts")

    @property
    def ids(self) -> tuple[str, str]:
        """The columns that number the rows of the inputs."""
        return ("eid", "mid") if self.shape == "events" else ("id", "id")

    @property
    def joined_ids(self) -> tuple[str, str]:
        """The same in the output."""
        return ("eid", "mid") if self.shape == "events" else ("id", "id_right")

    @property
    def value(self) -> str:
        """The right column that is aggregated."""
        return "value" if self.shape == "events" else "val"

    @property
    def right_columns(self) -> tuple[str, ...]:
        """The right columns."""
        return {
            "events": ("mid", "measurementTime", "value"),
            "points": ("ts", "id", "val"),
            "intervals": ("start", "stop", "id", "val"),
        }[self.shape]

    def spec(self, agg: dict[str, list[str]] | None = None) -> Range | Overlap:
        """Return what Juncture calls this join."""
        import juncture as jn

        if self.shape == "intervals":
            return jn.Overlap(left_interval=("start", "stop"), right_interval=("start", "stop"), agg=agg)
        lower: Any = self.lower
        upper: Any = self.upper
        if self.shape == "events":
            lower, upper = timedelta(microseconds=lower), timedelta(microseconds=upper)
        left_on, right_on = self.on
        return jn.Range(left_on=left_on, right_on=right_on, lower=lower, upper=upper, closed=self.closed, agg=agg)

    def condition(self) -> str:
        """Return what of ``l`` and ``r`` has to hold, in the SQL of both Spark and DuckDB."""
        if self.shape == "intervals":
            return "l.start < r.stop AND r.start < l.stop"
        left_on, right_on = self.on
        least = ">" if self.closed == "right" else ">="
        lower, upper = (f"l.{left_on}{self._offset(each)}" for each in (self.lower, self.upper))
        return f"r.{right_on} {least} {lower} AND r.{right_on} <= {upper}"

    def _offset(self, distance: int) -> str:
        if distance == 0:
            return ""
        if self.shape == "events":
            return f" + INTERVAL '{distance // 1_000_000}' SECOND"
        return f" {'+' if distance > 0 else '-'} {abs(distance)}"

    def shown(self) -> str:
        """Return the columns of the output, in SQL."""
        taken = () if self.shape == "events" else self.right_columns
        right = (f"r.{name}" + (f" AS {name}_right" if name in taken else "") for name in self.right_columns)
        return f"l.*, {', '.join(right)}"
