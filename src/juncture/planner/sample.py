"""Estimates from a random sample of a side, with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_DEVIATIONS = 1.96
"""The number of standard deviations that contains 95 of 100 samples."""

_FREQUENT = 50
"""Keys that a sample has more often are taken for known."""


def sampled_from(picked: int, rows: int) -> str:
    """Say how many of the rows have been sampled.

    Examples
    --------
    >>> sampled_from(20_000, 1_000_000), sampled_from(300, 300)
    ('sample of 20,000 rows', 'all 300 rows')
    """
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

        Examples
        --------
        >>> KeySample(np.array([1, 1, 2]), picked=4, rows=40, source="sample of 4 rows").keys()
        (5, 3, 21)
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
