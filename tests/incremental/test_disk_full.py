"""Joins, views and pipelines on a disk that runs full: errors, and then nothing is lost or doubled.

The system itself refuses writes: in the log of the state, in its sorted files, or in the files of the sink.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from incremental.test_retries import Followed
from juncture.errors import StateError
from support.disk import filling_disk
from support.faults import Faults

_CALLS = 15
"""About as many calls of stages as an epoch makes."""


class FillsAtACall(Faults):
    """At one of the next calls, the disk is full."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.fill: Callable[[], None] = lambda: None

    def meet(self, _name: str, _when: str) -> None:
        self.calls -= 1
        if not self.calls:
            self.fill()


class FullAtTimes:
    """A follower with files on a disk that is full at times, which is opened again if it does not go on in place."""

    def __init__(self, folder: Path, kind: str, chance: random.Random) -> None:
        self._faults = FillsAtACall()
        self.followed = Followed(folder, kind, "files", has_folder=True, faults=self._faults)
        self._chance = chance
        self.events: Counter[str] = Counter()

    def change(self) -> None:
        """Have rows come and go, and follow them, perhaps through errors."""
        self.followed.change()
        for _ in range(self._chance.randint(0, 3)):
            with filling_disk() as fill:
                self._faults.calls, size_bytes = self._chance.randint(1, _CALLS), self._size_bytes()
                self._faults.fill = lambda size_bytes=size_bytes: fill(size_bytes)
                self._catch_up()
            self._faults.calls = 0
        if self._catch_up():
            # The state refuses all writes after a failed one.
            self.followed.close()
            self.events["opened again"] += 1
            assert not self._catch_up()

    def _size_bytes(self) -> int:
        """Return where files are cut: often within one that the epoch writes to."""
        files = [path for path in self.followed.folder.rglob("*") if path.is_file()]
        longest = max((path.stat().st_size for path in files), default=0)
        return self._chance.choice([0, 0, self._chance.randint(0, 2_000), self._chance.randint(0, longest + 2_000)])

    def _catch_up(self) -> str | None:
        """Follow until nothing is left or a write fails; return the name of the error."""
        try:
            self.followed.catch_up_once()
        except StateError as error:
            assert error.name in ("JN-STATE-WRITE", "JN-SINK-WRITE", "JN-STATE-INCOMPLETE"), error
            self.events[error.name] += 1
            if error.name == "JN-STATE-INCOMPLETE" or self._chance.random() < 0.3:
                self.followed.close()
            return error.name
        return None


OTHERS = [pytest.param(kind, marks=pytest.mark.nightly) for kind in ("join", "view on disk")]


@pytest.mark.parametrize("kind", ["join on disk", "view", "pipeline of two sinks", *OTHERS])
def test_nothing_is_lost_or_doubled_on_a_full_disk(kind, tmp_path, request):
    full = FullAtTimes(tmp_path, kind, random.Random(f"disk full, {kind}"))
    try:
        for _ in range(60 if request.config.getoption("--all") else 15):
            full.change()
            assert full.followed.written() == full.followed.expected()
    finally:
        full.followed.close()
    assert {"JN-STATE-WRITE", "opened again"} <= set(full.events)
