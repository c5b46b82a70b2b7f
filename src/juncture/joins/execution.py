"""The keyword arguments of each join function, for type checkers and editors.

At run time the functions also accept unknown arguments, to answer names of other libraries with the name used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, TypeVar

from juncture.planner.statistics import Stats
from juncture.spec.aggregate import Agg
from juncture.spec.asof import Direction, Prefer, Ties
from juncture.spec.computed import Key, Keys
from juncture.spec.distance import Distance
from juncture.spec.overlap import KeyInterval
from juncture.spec.schema import Closed, How
from juncture.spec.window import Windows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyspark.sql

Frame = TypeVar("Frame", "pd.DataFrame", "pl.DataFrame", "pl.LazyFrame", "pyspark.sql.DataFrame")
"""Left tables whose type the result has."""


class _Execution(TypedDict, total=False):
    """Where a join runs, and which resources it may use."""

    suffix: str
    algorithm: str
    spark: Any
    lazy: bool
    memory: str | int | None
    maintain_order: Literal["left"] | None
    stats: Stats | None


class _By(_Execution, total=False):
    by: Keys | None
    left_by: Keys | None
    right_by: Keys | None


class AsofArguments(_By, total=False):
    """Arguments of `juncture.join_asof`."""

    on: Keys | None
    left_on: Keys | None
    right_on: Keys | None
    direction: Direction
    tolerance: Distance | None
    allow_exact_matches: bool
    how: How
    matches: int
    order_by: str | Sequence[str]
    ties: Ties
    prefer: Prefer
    nulls_equal: bool
    available_at: str | Sequence[str] | None
    where: str | None
    coalesce: bool


class RangeArguments(_By, total=False):
    """Arguments of `juncture.join_range`."""

    on: Key | None
    left_on: Key | None
    right_on: Key | None
    lower: Distance | None
    upper: Distance | None
    windows: Windows | None
    closed: Closed
    how: How | None
    agg: Agg | None


class OverlapArguments(_By, total=False):
    """Arguments of `juncture.join_overlap`."""

    left_interval: Required[KeyInterval]
    right_interval: Required[KeyInterval]
    closed: Closed
    how: How | None
    agg: Agg | None


class WhereArguments(_By, total=False):
    """Arguments of `juncture.join_where`."""

    how: How | None
    agg: Agg | None
    allow_cross: bool
    names: tuple[str, str]


class EquiArguments(_Execution, total=False):
    """Arguments of `juncture.join`."""

    on: Keys | None
    left_on: Keys | None
    right_on: Keys | None
    how: How | None
    agg: Agg | None
    where: str | None
    nulls_equal: bool
    coalesce: bool
