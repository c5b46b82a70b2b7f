"""What makes Spark report how far both sides of a join have come, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.streaming.listener import StreamingQueryListener

from juncture.spec.schema import Side
from juncture.streams.progress import OBSERVED, ProgressReader, Scale, StreamProgress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ProgressListener", "observed"]


def observed(rows: DataFrame, join: str, side: Side, steps: Column, scale: Scale) -> DataFrame:
    """Return a side as it is, of which Spark counts the rows and notes how far they come.

    Parameters
    ----------
    rows
        The side.
    join
        What no other join of the query is called.
    side
        Which side it is.
    steps
        The values of the order, in steps that grow.
    scale
        What these stand for, and the watermark.
    """
    return rows.observe(
        OBSERVED.format(join=join, side=side),
        F.count(F.lit(1)).alias("rows"),
        F.max(steps).alias("last"),
        # Metrics are aggregates, the constants by which they are read too.
        *(F.max(F.lit(value)).alias(name) for name, value in asdict(scale).items()),
    )


class ProgressListener(StreamingQueryListener):
    """Hands on the progress of each trigger of each query, while a session has it as a listener."""

    def __init__(self, report: Callable[[StreamProgress], object]) -> None:
        self._report = report
        self._readers: dict[str, ProgressReader] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Hand on the progress of a trigger."""
        reader = self._readers.setdefault(str(event.progress.runId), ProgressReader())
        self._report(reader.read(event.progress))

    def onQueryTerminated(self, event: Any) -> None:
        """Forget a query."""
        self._readers.pop(str(event.runId), None)
