"""The planning of an equality join on Spark."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from juncture.planner.algorithm import Algorithm, held_side
from juncture.spark.equi.join import Hint, equi_pairs, goes_by_name, joined_by_name
from juncture.spark.equi.salt import (
    EquiStatistics,
    HotKey,
    SampledKeys,
    choose_hot_keys,
    copied_rows,
    join_salted,
    may_be_uneven,
)
from juncture.spark.exchange import SHUFFLE_PARTITIONS, BuiltJoin
from juncture.spark.input.sides import as_frames
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.sql import Pairs
from juncture.spec.schema import SIDES, Side

_HINTS = {
    "broadcast": "broadcast",
    "broadcast_left": "broadcast",
    "shuffle_hash": "shuffle_hash",
    "sort_merge": "merge",
}
"""Spark's hint for each algorithm."""


class EquiPlanning(Planning):
    """The planning of one equality join."""

    statistics: EquiStatistics

    def __init__(self, request: PlanRequest) -> None:
        super().__init__(request)
        self._learners["keys"] = self._sample_keys
        self._frames = as_frames(request.join, request.left, request.right)
        self._sampled: dict[Side, SampledKeys] = {}
        self._hot: tuple[HotKey, ...] = ()
        self.statistics = EquiStatistics(request.left, request.right, request.given)

    @cached_property
    def _pairs(self) -> Pairs:
        return equi_pairs(*self._frames)

    def _sample_keys(self, _: Algorithm) -> bool:
        """Sample the keys of both sides if a hot key could dominate; return whether a job ran."""
        planning = self._input()
        is_uneven = may_be_uneven(planning.left_rows, planning.right_rows, self._resources.constants)
        if self._sampled or not is_uneven:
            return False
        self._sampled = self.statistics.keys(self._pairs, self._join.how, self._resources.cores)
        self._hot = choose_hot_keys(self._sampled["left"], self._sampled["right"], self._resources)
        return True

    def _hinted(self, algorithm: Algorithm) -> BuiltJoin:
        held = held_side(self._input(), algorithm) if algorithm.holds is not None else None
        hint = Hint(_HINTS[algorithm.name], held or "right")
        hot = () if algorithm.sends else self._hot
        if not hot and goes_by_name(*self._frames):
            frame = joined_by_name(*self._frames, hint)
        else:
            frame = join_salted(self._pairs, self._join.how, hot, hint)
        if algorithm.sends:
            return BuiltJoin(frame)
        details = () if held is None else (("build", f"hash tables of the {held} side"),)
        partitions = ("partitions", f"{self._shuffle_partitions:,} ({SHUFFLE_PARTITIONS})")
        return BuiltJoin(frame, details=(partitions, *details, ("hot keys", self._salting())))

    _builders: ClassVar = dict.fromkeys(_HINTS, _hinted)

    def _salting(self) -> str:
        """Return which keys are split, into how many parts, and how many rows are replicated."""
        if not self._sampled:
            return f"not sampled: {'lazy=True forbids jobs' if self._lazy else 'few rows'}"
        if not self._hot:
            return "none"
        parts = [f"{key.divided} rows of one key split into {key.parts} parts" for key in self._hot]
        copies = [f"{copied_rows(self._hot, side, self._sampled[side]):,.0f} copies of {side} rows" for side in SIDES]
        return f"{', '.join(parts)}; about {' and '.join(copies)}"
