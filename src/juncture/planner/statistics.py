"""Statistics of the inputs before a join runs, each figure with its source, and estimates from random samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from juncture.errors import SpecError
from juncture.planner.constants import Constants
from juncture.runtime.threads import SIZES, Sizes
from juncture.spec.schema import Side
from juncture.values import plain

GIVEN = "given"
"""The source of a figure that only the caller states."""


@dataclass(frozen=True, kw_only=True)
class SideStats:
    """What is known of one input. None means that it is not known.

    Attributes
    ----------
    rows
        Number of rows.
    row_bytes
        Bytes of one row, of the columns that take part.
    distinct_keys
        Distinct values of the ``by`` columns, or of the key of an equality join, with what a predicate has equal.
    hottest_key_share
        Share of the rows that have the most frequent key, from 0 to 1.
    null_rows
        Rows that match nothing because a deciding column is null. With several such columns, the rows of the column
        with the most nulls.
    on_range
        The least and the greatest value of the ``on`` column (of intervals, the first start and the last end): a
        number, or whole days, or whole units of a timestamp (of the finer of both sides' units) since 1970.
    key_range
        The least and the greatest value of the only key column of an equality join, if it has integers, dates or times:
        whole numbers of days or units, as in ``on_range``.
    is_sorted
        Whether the rows come sorted by the ``on`` column.
    provenance
        Where each figure comes from, by its name: ``"Parquet footers"``, ``"count"``, ``"sample of 20,000 rows"``
        with its error, ``"given"``, ``"assumed"``.

    Raises
    ------
    SpecError
        If a figure makes no sense.

    Examples
    --------
    >>> SideStats(rows=1_000_000, row_bytes=40).bytes
    40000000
    """

    rows: int | None = None
    row_bytes: int | None = None
    distinct_keys: int | None = None
    hottest_key_share: float | None = None
    null_rows: int | None = None
    on_range: tuple[Any, Any] | None = None
    key_range: tuple[Any, Any] | None = None
    is_sorted: bool | None = None
    provenance: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, figure in vars(self).items():
            if figure is not None and name != "provenance":
                object.__setattr__(self, name, _checked(name, plain(figure)))

    @property
    def bytes(self) -> int | None:
        """Bytes of all rows, of the columns that take part."""
        if self.rows is None or self.row_bytes is None:
            return None
        return self.rows * self.row_bytes

    def is_given(self, name: str) -> bool:
        """Return whether only the caller states a figure."""
        return getattr(self, name) is not None and self.provenance.get(name, GIVEN) == GIVEN


def _checked(name: str, figure: Any) -> Any:
    """Return a figure as Python's own; raise SpecError if it makes no sense."""
    if name == "is_sorted":
        if not isinstance(figure, bool):
            raise _senseless(name, figure, "True or False")
    elif name == "hottest_key_share":
        if not isinstance(figure, Real | Decimal) or not (_is_range((0, figure)) and _is_range((figure, 1))):
            raise _senseless(name, figure, "a share of the rows, from 0 to 1")
        return float(figure)
    elif name in ("on_range", "key_range"):
        if not _is_range(figure):
            raise _senseless(name, figure, "a pair of numbers, the least value and the greatest")
        return tuple(plain(end) for end in figure)
    elif not isinstance(figure, int) or isinstance(figure, bool) or figure < 0:
        raise _senseless(name, figure, "a whole number, 0 or more")
    return figure


def _senseless(name: str, value: object, expected: str) -> SpecError:
    return SpecError(
        f"SideStats({name}={value!r}) is invalid. Pass {expected}, or None if unknown.", name="JN-STATS-VALUE"
    )


def _is_range(ends: object) -> bool:
    """Return whether this is a pair of values in order, of any ordered type."""
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        return False
    try:
        return bool(ends[0] <= ends[1])
    except TypeError:
        return False


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What is known of both inputs.

    Figures that a caller passes are not gathered again. If they are wrong, a join may be slower, but its result is
    right: user-supplied statistics alone never cause a table to be buffered.

    Raises
    ------
    SpecError
        If a side is not a `SideStats`.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> stats = jn.Stats(right=jn.SideStats(distinct_keys=2))
    >>> table = pa.table({"k": [1, 2, 2]})
    >>> jn.plan(table, table, jn.Equi(on="k"), stats=stats).stats.right.provenance["distinct_keys"]
    'given'
    """

    left: SideStats = SideStats()
    right: SideStats = SideStats()

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            side = getattr(self, name)
            if not isinstance(side, SideStats):
                raise SpecError(
                    f"Stats({name}={side!r}) is of type {type(side).__name__}. "
                    f"Pass juncture.SideStats, for example Stats({name}=SideStats(rows=1_000)).",
                    name="JN-STATS-VALUE",
                )

    def of(self, side: Side) -> SideStats:
        """Return what is known of a side."""
        return self.left if side == "left" else self.right


_NO_FIGURES = SideStats()
_FIGURES = tuple(each.name for each in fields(SideStats) if each.name != "provenance")


def combined(user_stats: SideStats, statistics: SideStats) -> SideStats:
    """Return what was found, and what the caller gives where nothing was: a word does not stand against the data."""
    if user_stats == _NO_FIGURES:
        return statistics
    figures: dict[str, Any] = {}
    provenance: dict[str, str] = {}
    for name in _FIGURES:
        measured, declared = getattr(statistics, name), getattr(user_stats, name)
        if measured is None and declared is None:
            continue
        figures[name] = declared if measured is None else measured
        provenance[name] = (
            GIVEN if measured is None else against(statistics.provenance.get(name, ""), measured, declared)
        )
    return SideStats(**figures, provenance=provenance)


def against(source: str, measured: Any, declared: Any) -> str:
    """Return where a figure comes from, and what the caller had declared if that was something else."""
    if declared is None or declared == measured:
        return source
    text = f"{declared:,}" if isinstance(declared, int | float) and not isinstance(declared, bool) else str(declared)
    return f"{source}, given: {text}"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the join may use."""

    cores: int  # tasks or threads that run at once
    memory_bytes: int  # what one task (on Spark) or the process (in-process) may hold
    constants: Constants = field(default_factory=Constants)  # what a row costs in each step, on one of these cores
    in_order: bool = True  # whether the rows of the answer have to come in the order of the left rows
    sizes: Sizes = SIZES  # how finely the work is divided
    broadcast_bytes: int = 64 << 20  # at most collected for all tasks, since it is one message of Spark Connect


_DEVIATIONS = 1.96  # the number of standard deviations that contains 95 of 100 samples
_FREQUENT = 50  # keys that a sample has more often are taken for known


def sampled_from(picked: int, rows: int) -> str:
    """Say how many of the rows have been sampled."""
    return f"all {rows:,} rows" if picked >= rows else f"sample of {picked:,} rows"


@dataclass(frozen=True)
class KeySample:
    """How often each key comes in a sample."""

    counts: npt.NDArray[np.int64]  # of each key that is not null, how many of the picked rows have it
    picked: int  # how many rows were sampled
    rows: int  # how many there are
    source: str  # where the rows come from, in words
    is_even: bool = True  # whether each row had the same chance to be picked, so that the error is known

    def keys(self) -> tuple[int, int, int]:
        """Return about how many distinct keys there are, with the least and the greatest number that is likely.

        The estimate is that of Haas and Stokes ("Estimating the number of classes in a finite population", 1998) which
        PostgreSQL's ANALYZE uses too, for keys that are not frequent; those are all in the sample. The limits are those
        of Charikar and others ("Towards estimation error guarantees for distinct values", 2000): keys seen once stand
        for themselves, or for a key each in all rows.
        """
        distinct, once = len(self.counts), int(np.count_nonzero(self.counts == 1))
        if not once or self.picked >= self.rows:
            return distinct, distinct, distinct
        rare = self.counts[self.counts <= _FREQUENT]
        used, share = int(rare.sum()), self.picked / self.rows
        estimate = distinct - len(rare) + used * len(rare) / (used - once + once * share)
        most = distinct - once + math.ceil(once / share)
        return min(most, round(estimate)), distinct, most

    def figures(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return figures of a side, and the source of each with its error."""
        share = int(self.counts.max(initial=0)) / max(self.picked, 1)
        keys, least, most = self.keys()
        nulls = self.picked - int(self.counts.sum())
        figures = {
            "distinct_keys": keys,
            "hottest_key_share": share,
            "null_rows": round(nulls / max(self.picked, 1) * self.rows),
        }
        if self.picked >= self.rows:
            return figures, dict.fromkeys(figures, self.source)
        if not self.is_even:
            return figures, dict.fromkeys(figures, f"{self.source}, error not known")
        return figures, {
            "distinct_keys": self.source if least == most else f"{self.source}, between {least:,} and {most:,}",
            "hottest_key_share": f"{self.source}, ± {self._error(share):.1%}",
            "null_rows": f"{self.source}, ± {self._error(nulls / max(self.picked, 1)) * self.rows:,.0f}",
        }

    def _error(self, share: float) -> float:
        """Return how far a share of the picked rows may be from that of all rows, in 95 of 100 samples."""
        picked = max(self.picked, 1)
        # A share of 0 or 1 is not known better than to one row of the sample.
        return max(_DEVIATIONS * math.sqrt(share * (1 - share) / picked), 1 / picked)
