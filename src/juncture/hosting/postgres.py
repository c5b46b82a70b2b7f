"""PostgreSQL's changes as a Spark source. Offsets are positions in the log, which Spark's checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from juncture.columnar.conversion import converted
from juncture.errors import SpecError
from juncture.incremental.sources.ranges import RangedSource
from juncture.incremental.state.records import weighted
from juncture.spark.schema import spark_schema, wire_schema

NAME = "juncture.postgres"

_FIRST = "is_first"
_OPTIONS = ("dsn", "table", "slot", "publication", "partitions")
_PARTITIONS = 4


@dataclass
class Pages(InputPartition):
    """A partition with initial rows on some pages of the table."""

    snapshot: str
    first: int
    last: int | None


@dataclass
class Log(InputPartition):
    """A partition with the changes between two positions of the log. ``sign`` is -1 for opposite weights."""

    first: int
    last: int
    sign: int


class PostgresDataSource(DataSource):
    """The format ``juncture.postgres`` of ``spark.readStream``: changes of one table, with a column ``_weight``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table, and the weight."""
        with _opened(self.options) as source:
            return spark_schema(source.schema)

    def streamReader(self, schema: StructType) -> PostgresStream:  # noqa: N802, ARG002 - Spark's name
        """Return the stream reader."""
        return PostgresStream(dict(self.options))


class PostgresStream(DataSourceStreamReader):
    """Reads the initial table by pages in the first micro-batch, and then the changes of transactions."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._exporting: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, without connections."""
        return {"_options": self._options, "_exporting": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the first position of the slot."""
        with _opened(self._options) as source:
            return {**source.begin(), _FIRST: True}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's
        """Return the end of the log."""
        with _opened(self._options) as source:
            return {**source.now(), _FIRST: False}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of a micro-batch."""
        with _opened(self._options) as source:
            first, last = (source.place(_plain(offset)) for offset in (start, end))
            if not start[_FIRST]:
                return [Log(first, last, 1)]
            self.stop()
            self._exporting, slot = source.exported()
            step = max(1, -(-source.pages() // int(self._options.get("partitions", _PARTITIONS))))
            starts = list(range(0, max(1, source.pages()), step))
            ranges = zip(starts, [*starts[1:], None], strict=True)
            return [*(Pages(slot.snapshot, *each) for each in ranges), Log(last, slot.place, -1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        with _opened(self._options) as source:
            wire = wire_schema(source.schema)
            if isinstance(partition, Pages):
                rows = source.rows(partition.snapshot, partition.first, partition.last)
                batches = (weighted(batch, np.ones(batch.num_rows, np.int64)) for batch in rows.to_batches())
            else:
                assert isinstance(partition, Log)
                batches = (_times(batch, partition.sign) for batch in source.changes(partition.first, partition.last))
            for batch in batches:
                columns = [converted(column, field.type) for column, field in zip(batch.columns, wire, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wire)

    def commit(self, end: dict[str, Any]) -> None:
        """Allow the server to discard the log that Spark has processed."""
        self.stop()
        with _opened(self._options) as source:
            source.forget(end)

    def stop(self) -> None:
        """Release the snapshot."""
        if self._exporting is not None:
            self._exporting.finish()
            self._exporting = None


def _opened(options: Mapping[str, str]) -> RangedSource:
    """Connect to the database of the options."""
    lacking = [name for name in ("dsn", "table", "slot") if name not in options]
    more = [name for name in options if name not in _OPTIONS]
    if lacking or more:
        wrong = f"needs the option {lacking[0]!r}" if lacking else f"has no option {more[0]!r}"
        raise SpecError(
            f"Format {NAME!r} {wrong}. Expected dsn, table and slot, and optionally publication and partitions.",
            name="JN-ARGUMENT-UNKNOWN",
        )
    return RangedSource(options["dsn"], options["table"], options["slot"], options.get("publication"))


def _plain(offset: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in offset.items() if name != _FIRST}


def _times(batch: pa.RecordBatch, sign: int) -> pa.RecordBatch:
    """Return changes, with opposite weights if ``sign`` is negative."""
    if sign > 0:
        return batch
    return batch.set_column(batch.num_columns - 1, batch.schema.field(-1), pc.negate(batch.column(-1)))
