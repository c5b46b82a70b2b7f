"""A hosted join without Spark: its tasks run one after the other, with dictionaries for the state store."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from juncture.hosting.hosted import ToBuckets
from juncture.hosting.hosted_join import HostedJoin
from juncture.hosting.processor import JoinProcessor
from juncture.hosting.stored_rows import ValueSizes
from juncture.hosting.streams import HostedStreams
from juncture.spark.tasks.feed import BatchFeed
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content, Packet, read_packets, write_packets
from juncture.streams.plan import Setup

__all__ = ["Host"]

SIDES = ("left", "right")
MARKS = ("_weight", "_change_type")


class Value:
    """A value state."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


class Map:
    """A map state."""

    def __init__(self) -> None:
        self.values: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.bytes_written = 0
        self.reads = 0

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 - Spark's name
        self.reads += 1
        return self.values.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        self.values[key] = value
        self.bytes_written += len(value[0])

    @property
    def nbytes(self) -> int:
        """How many bytes its values have."""
        return sum(len(value[0]) for value in self.values.values())

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        del self.values[key]


class Handle:
    """What names the state of one bucket."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}

    def getValueState(self, name: str, _schema: str) -> Value:  # noqa: N802 - Spark's name
        return self.states.setdefault(name, Value())

    def getMapState(self, name: str, _key: str, _value: str) -> Map:  # noqa: N802 - Spark's name
        return self.states.setdefault(name, Map())


class Host:
    """Runs the tasks of a hosted join.

    Parameters
    ----------
    setup
        What it is made of.
    buckets
        How many there are.
    chance
        Decides how rows are cut into tasks, and in which order packets come.
    sizes
        Sizes of values in the state store.
    local
        The local folder of an executor. If it has one, tasks fail and are repeated, and files in it are damaged.
    """

    def __init__(
        self,
        setup: Setup,
        buckets: int,
        chance: random.Random,
        sizes: ValueSizes | None = None,
        local: Path | None = None,
    ) -> None:
        self.setup, self.buckets, self.chance, self.sizes, self.local = setup, buckets, chance, sizes, local
        self.hosted: HostedJoin = HostedStreams(setup)
        self.states: dict[int, Handle] = {}
        self.metrics: list[dict[str, int]] = []

    def step(self, **rows: pa.Table) -> Iterator[pa.Table]:
        """Yield what follows from a micro-batch."""
        sent: dict[int, list[Packet]] = {}
        for side in SIDES:
            for batch in self._scattered(side, rows[side]):
                for packet in read_packets([batch]):
                    sent.setdefault(packet.target, []).append(packet)
        for target, packets in sent.items():
            self.chance.shuffle(packets)
            if self.local is None:
                yield from self._joined(target, packets)
            else:
                yield from self._joined_with_faults(target, packets, self.local)

    def _scattered(self, side: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = rows.select([*self.hosted.columns(side), *(name for name in rows.column_names if name in MARKS)])
        cut = self.chance.randint(0, rows.num_rows)
        for part in (rows.slice(0, cut), rows.slice(cut)):
            feed = BatchFeed(rows.schema, chunk_rows=self.chance.choice([1, 3, 1000]))
            task = ToBuckets(feed, self.hosted, side, self.buckets, memory_bytes=1 << 26)
            yield from pickle.loads(pickle.dumps(task))(part.to_batches())

    def _processor(self, target: int) -> JoinProcessor:
        processor: JoinProcessor = pickle.loads(pickle.dumps(JoinProcessor(self.hosted, self.buckets, self.sizes)))
        processor.init(self.states.setdefault(target, Handle()))
        return processor

    def _joined(self, target: int, packets: Sequence[Packet]) -> Iterator[pa.Table]:
        frames = (batch.to_pandas()[PACKET_SCHEMA.names[1:]] for batch in write_packets(packets))
        for frame in self._processor(target).handleInputRows((target,), frames, None):
            assert len(frame) > 0, "Spark fails to convert frames without rows"
            for packet in read_packets([_sent_on(frame)]):
                if packet.content is Content.OUTPUT:
                    yield packet.rows
            if (frame["content"] == Content.EMPTY).any():
                self.metrics += frame.drop(columns=["content", "rows"]).to_dict("records")

    def _joined_with_faults(self, target: int, packets: Sequence[Packet], local: Path) -> list[pa.Table]:
        """Return the results of a task that has failed before, or is repeated after it succeeded, or neither."""
        before, metrics = copy.deepcopy(self.states.get(target, Handle())), [*self.metrics]
        if self.chance.random() < 0.3:
            # The attempt is not committed.
            list(self._joined(target, packets))
            self.states[target], self.metrics = copy.deepcopy(before), metrics
        found = list(self._joined(target, packets))
        if self.chance.random() < 0.2:
            committed, metrics = self.states[target], [*self.metrics]
            self.states[target] = before
            list(self._joined(target, packets))
            self.states[target], self.metrics = committed, metrics
        damage(local, self.chance)
        return found

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield what would follow if nothing more came."""
        for target in self.states:
            join, *_ = self._processor(target).restored()
            yield from join.close()


def _sent_on(frame: Any) -> pa.RecordBatch:
    """Return what a bucket gives as the last tasks get it."""
    columns = {"target": [0] * len(frame), "side": [None] * len(frame)}
    columns |= {name: frame[name].tolist() for name in ("content", "rows")}
    return pa.record_batch([pa.array(columns[each.name], each.type) for each in PACKET_SCHEMA], schema=PACKET_SCHEMA)


def damage(folder: Path, chance: random.Random) -> None:
    """Remove, shorten or change some files of a folder, or none."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        choice = chance.choice(["keep"] * 12 + ["remove", "shorten", "change", "replace"])
        content, before = path.read_bytes(), path.stat()
        if choice == "remove":
            path.unlink()
        elif choice == "shorten":
            path.write_bytes(content[: len(content) // 2])
        elif choice == "change":
            # Times of files have steps of some milliseconds.
            while path.stat().st_ctime_ns == before.st_ctime_ns:
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        elif choice == "replace":
            path.unlink()
            path.write_bytes(bytes(len(content)))
