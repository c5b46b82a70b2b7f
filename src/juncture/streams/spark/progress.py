"""What makes Spark report how far both sides of a join have come, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.streaming.listener import StreamingQueryListener

from juncture.spec.schema import Side
from juncture.streams.progress import OBSERVED, ProgressReader, Scale, StreamProgress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def observed(rows: DataFrame, join: str, side: Side, metrics: Mapping[str, Column], scale: Scale) -> DataFrame:
    """Return rows as they are, of which Spark reports how far a side has come.

    Parameters
    ----------
    rows
        The rows.
    join
        What no other join of the query is called.
    side
        Which side it is.
    metrics
        Aggregates of the rows, by the names of `OBSERVED`.
    scale
        What the last of its orders stands for.
    """
    # Metrics are aggregates, the constants by which they are read too.
    told = {name: F.max(F.lit(value)) for name, value in asdict(scale).items() if value is not None}
    return rows.observe(
        OBSERVED.format(join=join, side=side),
        *(value.alias(name) for name, value in {**metrics, **told}.items()),
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
