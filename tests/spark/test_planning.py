"""The loop that chooses, and learns what the chosen algorithm needs: without a session, by figures that are made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.planner.algorithm import Algorithm
from juncture.planner.decision import Choice
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.exchange import BuiltJoin
from juncture.spark.planning import Planning, PlanRequest

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
GIVEN = Stats(left=SideStats(rows=1_000_000, row_bytes=16), right=SideStats(rows=500_000, row_bytes=16))
"""What someone says. There are 400 times as many right rows."""


class MadeUp(Planning):
    """A plan of an as-of join whose sides are nothing but figures: one key has all rows."""

    def __init__(self, *, lazy: bool = False) -> None:
        session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "64"))
        side: Any = SimpleNamespace(session=session)
        join = jn.Asof(on="ts", by="k").resolve(SCHEMA, SCHEMA)
        room = Resources(cores=64, memory_bytes=1 << 30)
        super().__init__(PlanRequest(join=join, left=side, right=side, user_stats=None, resources=room, lazy=lazy))
        self.learnt: list[str] = []
        self.statistics: Any = SimpleNamespace(stats=GIVEN, count=self.count, check=self.check_side)
        self._learners |= {"text": lambda _: False, "sample": self.sample}

    def count(self, *_: str) -> None:
        self.learnt.append("counts")

    def check_side(self, name: str) -> bool:
        if name in self.learnt:
            return False
        self.learnt.append(name)
        rows = {"left": 1_000_000, "right": 200_000_000}[name]
        self.statistics.stats = replace(self.statistics.stats, **{name: SideStats(rows=rows, row_bytes=16)})
        return True

    def sample(self, _: Algorithm) -> bool:
        if "sample" in self.learnt:
            return False
        self.learnt.append("sample")
        left, right = (
            replace(side, hottest_key_share=1.0) for side in (self.statistics.stats.left, self.statistics.stats.right)
        )
        self.statistics.stats = Stats(left=left, right=right)
        return True

    def _built(self, algorithm: Algorithm) -> BuiltJoin:
        return BuiltJoin(SimpleNamespace(algorithm=algorithm.name))

    _builders = dict.fromkeys(("broadcast", "broadcast_left", "hash", "range", "window", "native"), _built)


def chosen(planning: MadeUp, named: str = "auto") -> Choice:
    choice, built = planning.run(named)
    assert built.frame.algorithm == choice.algorithm
    return choice


def test_what_is_chosen_after_a_sample_is_counted_before_it_is_sent() -> None:
    planning = MadeUp()
    choice = chosen(planning)
    # Before the sample hash should cost the least, and then broadcast, were the right side as small as was said.
    assert planning.learnt == ["counts", "sample", "right", "left"]
    assert choice.algorithm == "broadcast_left"
    [refusal] = [option.excluded for option in choice.options if option.algorithm == "broadcast"]
    assert refusal is not None
    assert "the limit for a copy in every task" in refusal


@pytest.mark.parametrize(
    ("named", "learnt"),
    [
        pytest.param("hash", ["counts"], id="hash"),
        pytest.param("range", ["counts", "sample"], id="range"),
        pytest.param("broadcast_left", ["left"], id="broadcast_left"),
        pytest.param("window", [], id="window"),
    ],
)
def test_a_named_algorithm_learns_what_it_needs_to_run(named: str, learnt: list[str]) -> None:
    planning = MadeUp()
    assert chosen(planning, named).algorithm == named
    assert planning.learnt == learnt


def test_a_lazy_plan_learns_nothing() -> None:
    planning = MadeUp(lazy=True)
    assert chosen(planning).algorithm == "hash"
    assert planning.learnt == []
