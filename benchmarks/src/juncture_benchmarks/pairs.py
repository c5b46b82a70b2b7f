"""Matches of an engine, reduced to a few comparable numbers.

Every row has two weights between 1 and ten thousand, and every pair of rows that match the products of them. Sums of
these products no order of rows changes, but a single wrong, missing or repeated pair does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints

__all__ = ["Answer", "check_against", "found_pairs", "ints", "kept_answer", "weights", "weights_sql"]

_CHUNK_ROWS = 1_000_000
_FACTORS = ((1_000_003, 9_973), (7_919, 10_007))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, boiled down.

    Attributes
    ----------
    rows
        Number of rows. For aggregates, number of left rows with a match.
    sums
        Sums over the rows: of products of weights; for aggregates of the left weight with the count, the sum and the
        greatest of its values.
    """

    rows: int
    sums: tuple[int, ...]

    def difference(self, found: Answer) -> str | None:
        """Return the difference of a result from this one, or None."""
        wrong = [name for name in ("rows", "sums") if getattr(self, name) != getattr(found, name)]
        if not wrong:
            return None
        return "; ".join(f"{name}: expected {getattr(self, name)}, found {getattr(found, name)}" for name in wrong)


def kept_answer(path: Path, find: Callable[[], Answer]) -> Answer:
    """Read an answer where an earlier call has left it, or find it and write it there."""
    if path.exists():
        kept = json.loads(path.read_text())
        return Answer(rows=kept["rows"], sums=tuple(kept["sums"]))
    answer = find()
    path.write_text(json.dumps(asdict(answer)) + "\n")
    return answer


def check_against(expected: Answer) -> Callable[[object, dict[str, Any]], str | None]:
    """Return what says how a contestant's answer differs from the expected one, or None."""

    def check(_: object, answer: dict[str, Any]) -> str | None:
        return expected.difference(Answer(rows=answer["rows"], sums=tuple(answer["sums"])))

    return check


def found_pairs(ids: tuple[str, str], result: pa.Table | Iterable[pa.RecordBatch]) -> Answer:
    """Boil down the matches that an engine returned, in any order of columns and rows.

    Parameters
    ----------
    ids
        The columns that number the left and the right row of each.
    result
        The matches.
    """
    rows, sums = 0, [0, 0]
    left_id, right_id = ids
    for batch in result.to_batches(_CHUNK_ROWS) if isinstance(result, pa.Table) else result:
        left, right = ints(batch.column(left_id)), ints(batch.column(right_id))
        rows += len(left)
        for each in range(2):
            sums[each] += int((weights(left, each) * weights(right, each)).sum())
    return Answer(rows=rows, sums=tuple(sums))


def weights_sql(name: str, which: int) -> str:
    """Return the weight of the row that a column numbers, in Spark's SQL."""
    factor, modulus = _FACTORS[which]
    return f"(1 + {name} * {factor}L % {modulus}L)"


def weights(ids: Ints, which: int) -> Ints:
    """Return the weights of the rows that have some numbers."""
    factor, modulus = _FACTORS[which]
    return 1 + ids * factor % modulus


def ints(column: pa.Array) -> Ints:
    """Return the values of a column as integers."""
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
