"""A workload of the planner's benchmark: two generated tables, and a join of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.spec.kinds import Spec
from juncture_benchmarks.benchmark import Engine
from juncture_benchmarks.datasets.equi import key_texts
from juncture_benchmarks.datasets.folders import TablePair
from juncture_benchmarks.datasets.numbered import Ints, Layout, Random, write_numbered

__all__ = ["Rows", "Workload", "write_rows"]

_TINY_ROWS = 2_000
_ROWS_PER_FILE = 5_000_000
_ROW_GROUP_ROWS = 250_000


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How the rows of a table are made. Each has ``id``, its number, and ``val``, a float below 1.

    Attributes
    ----------
    count
        Number of rows.
    keys
        Number of values of ``key``, equally likely; 0 for no such column.
    first_key
        The least of them.
    is_unique
        Whether keys are unique. There must be at least as many keys as rows.
    is_text
        Whether keys are text of ten characters rather than integers.
    hot_share
        Which share of the rows have the least key.
    span
        ``at`` is an integer from 0 up to this; 0 for no such column.
    is_sorted
        Whether rows are sorted by ``at``.
    length
        Mean distance of ``stop`` from ``at``; 0 for no such column.
    """

    count: int
    keys: int = 0
    first_key: int = 0
    is_unique: bool = False
    is_text: bool = False
    hot_share: float = 0.0
    span: int = 0
    is_sorted: bool = False
    length: int = 0

    def schema(self) -> pa.Schema:
        """Return the columns."""
        fields = [("id", pa.int64())]
        if self.keys:
            fields.append(("key", pa.string() if self.is_text else pa.int64()))
        if self.span:
            fields.append(("at", pa.int64()))
        if self.length:
            fields.append(("stop", pa.int64()))
        return pa.schema([*fields, ("val", pa.float64())])

    def columns(self, random: Random, numbers: Ints) -> list[Any]:
        """Return the values of all columns of some rows."""
        made: list[Any] = [numbers]
        if self.keys:
            keys = self._keys(random, numbers) + self.first_key
            made.append(key_texts(keys) if self.is_text else keys)
        if self.span:
            made.append(self._places(random, numbers))
        if self.length:
            made.append(made[-1] + random.integers(1, 2 * self.length, len(numbers)))
        return [*made, random.random(len(numbers))]

    def _keys(self, random: Random, numbers: Ints) -> Ints:
        if self.is_unique:
            # An odd number that has no divisor in common with a power of ten takes each to another.
            return numbers * 618_033_989 % self.keys
        keys = random.integers(0, self.keys, len(numbers))
        return np.where(random.random(len(numbers)) < self.hot_share, 0, keys)

    def _places(self, random: Random, numbers: Ints) -> Ints:
        if not self.is_sorted:
            return random.integers(0, self.span, len(numbers))
        step = max(self.span // max(self.count, 1), 1)
        return numbers * step + random.integers(0, step, len(numbers))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Two tables and a join of them, which several algorithms can do.

    Attributes
    ----------
    name
        Its name, which begins with the engine.
    title
        Its special property, in words.
    left, right
        The tables.
    spec
        The join.
    shown
        Two integer columns of its output that identify rows.
    memory
        Memory limit of an in-process join, or None.
    as_frames
        On Spark, whether it is given DataFrames that have been filtered, rather than paths.
    """

    name: str
    title: str
    left: Rows
    right: Rows
    spec: Spec
    shown: tuple[str, str] = ("id", "id_right")
    memory: str | None = None
    as_frames: bool = True

    @property
    def engine(self) -> Engine:
        """The engine."""
        return "local" if self.name.startswith("local-") else "spark"

    def tiny(self) -> Workload:
        """Return the same with few rows."""
        left, right = (replace(side, count=min(side.count, _TINY_ROWS)) for side in (self.left, self.right))
        return replace(self, left=left, right=right)


def write_rows(workload: Workload, folder: Path) -> TablePair:
    """Write the tables of a workload."""
    sides = (workload.left, workload.right)
    tables = TablePair(folder=folder, left_rows=sides[0].count, right_rows=sides[1].count, seed=0)
    layout = Layout(
        schemas=(sides[0].schema(), sides[1].schema()), rows_per_file=_ROWS_PER_FILE, row_group_rows=_ROW_GROUP_ROWS
    )
    write_numbered(tables, {"workload": workload.name}, layout, partial(_columns, sides), maker=__name__, threads=None)
    return tables


def _columns(sides: tuple[Rows, Rows], side: Literal[0, 1], random: Random, numbers: Ints) -> list[Any]:
    return sides[side].columns(random, numbers)
