"""Makes Spark report the progress of both sides of a join, and passes it to listeners."""

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
    """Return the rows unchanged, with metrics of a side that Spark reports. ``join`` is unique in the query."""
    # All metrics have to be aggregates, including constants.
    constants = {name: F.max(F.lit(value)) for name, value in asdict(scale).items() if value is not None}
    return rows.observe(
        OBSERVED.format(join=join, side=side), *(value.alias(name) for name, value in {**metrics, **constants}.items())
    )


class ProgressListener(StreamingQueryListener):
    """Passes the progress of each micro-batch of each query to a function."""

    def __init__(self, report: Callable[[StreamProgress], object]) -> None:
        self._report = report
        self._readers: dict[str, ProgressReader] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:
        """Report the progress of a micro-batch."""
        reader = self._readers.setdefault(str(event.progress.runId), ProgressReader())
        self._report(reader.read(event.progress))

    def onQueryTerminated(self, event: Any) -> None:
        """Remove the reader of a query."""
        self._readers.pop(str(event.runId), None)
