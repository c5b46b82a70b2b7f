"""Correct and actual results of as-of joins, reduced to a few comparable numbers.

The right answer is found by NumPy alone, by sorting and searching integers, so that it owes nothing to any contestant.
An answer is boiled down to sums of row hashes, which no order of rows changes: a single wrong, missing or repeated row
changes them.

Several right rows may share an entity and a time. Contestants break such ties as they like, so the time that each
left row was matched with is always compared, but the value only where the match was not a tie. Juncture promises the
greatest value, and is held to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from juncture.kernels.array_types import Floats, Ints
from juncture_benchmarks.datasets import AsofTables

Hashes = npt.NDArray[np.uint64]

_PASS_ROWS = 50_000_000
_CHUNK_ROWS = 1_000_000
_TIME_BITS = 45
_UNMATCHED = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, boiled down.

    Attributes
    ----------
    rows, matched
        Number of rows, and of rows with a match.
    times
        Hash of every row: the left row and the time that it was matched with, or that it was not.
    untied_values
        Hash of the rows whose match was not a tie, with the value that they were matched with.
    values
        The same of all matched rows. It depends on how ties are broken.
    """

    rows: int
    matched: int
    times: str
    untied_values: str
    values: str

    def difference(self, found: Answer, *, ties_decided: bool) -> str | None:
        """Return the difference of a result from this one, or None.

        Parameters
        ----------
        found
            The answer in question.
        ties_decided
            Whether it guarantees the greatest value among tied rows.
        """
        names = ["rows", "matched", "times", "untied_values", *(["values"] if ties_decided else [])]
        wrong = [name for name in names if getattr(self, name) != getattr(found, name)]
        if not wrong:
            return None
        return "; ".join(f"{name}: expected {getattr(self, name)}, found {getattr(found, name)}" for name in wrong)


def expected_answer(tables: AsofTables) -> tuple[Answer, Path]:
    """Find the right answer for generated tables, or read it where an earlier call has left it.

    Parameters
    ----------
    tables
        The tables. Two files are written into their folder.

    Returns
    -------
    tuple
        The answer with ties broken by the greatest value; and the file with the tied (entity, time) pairs of the
        right table, which `found_answer` needs.

    Notes
    -----
    Goes over the files once for every 50 million right rows, each time for some of the entities. Memory is some 50
    bytes for each row of such a pass.
    """
    answer_path, ties_path = tables.folder / "answer.json", tables.folder / "ties.npy"
    if answer_path.exists():
        return Answer(**json.loads(answer_path.read_text())), ties_path
    passes = max(1, -(-tables.right_rows // _PASS_ROWS))
    total = _Sums()
    all_ties = []
    for number in range(passes):
        keys, values, tied = _distinct(_rows_of_pass(tables.right, tables.by, number, passes))
        all_ties.append(keys[tied])
        for packed, left_values in _rows_of_pass(tables.left, tables.by, number, passes):
            # Searches in order stay close to each other in memory, which makes them several times faster.
            order = np.argsort(packed)
            packed, left_values = packed[order], left_values[order]
            position = np.searchsorted(keys, packed, side="right") - 1
            matched = (position >= 0) & (keys[position] >> _TIME_BITS == packed >> _TIME_BITS)
            total.add(packed, left_values, keys[position], values[position], matched, matched & ~tied[position])
    np.save(ties_path, np.sort(np.concatenate(all_ties)))
    answer = total.answer()
    answer_path.write_text(json.dumps(asdict(answer), indent=1) + "\n")
    return answer, ties_path


def found_answer(result: pa.Table | Iterable[pa.RecordBatch], by: str | None, ties_path: Path) -> Answer:
    """Boil down what an engine returned.

    Parameters
    ----------
    result
        The columns ``ts``, ``entity`` (if there is a key), ``val``, ``ts_right`` and ``val_right``, in any order of
        columns and rows.
    by
        The key's column, if there is one.
    ties_path
        As `expected_answer` returns it.
    """
    ties = np.load(ties_path)
    total = _Sums()
    for batch in result.to_batches(_CHUNK_ROWS) if isinstance(result, pa.Table) else result:
        codes = _codes(batch.column(by)) if by else np.int64(0)
        times = batch.column("ts_right")
        matched = times.is_valid().to_numpy(zero_copy_only=False)
        packed = _pack(codes, _ints(batch.column("ts")))
        match = _pack(codes, _ints(pc.fill_null(times, 0)))
        place = np.minimum(np.searchsorted(ties, match), max(len(ties) - 1, 0))
        tied = ties[place] == match if len(ties) else np.zeros(len(match), dtype=bool)
        values = _floats(pc.fill_null(batch.column("val_right"), 0.0))
        total.add(packed, _floats(batch.column("val")), match, values, matched, matched & ~tied)
    return total.answer()


class _Sums:
    """Counts and sums of row hashes, added up chunk by chunk."""

    def __init__(self) -> None:
        self._rows = self._matched = 0
        self._times = self._untied = self._values = 0

    def add(self, left: Ints, values: Floats, match: Ints, match_values: Floats, matched: Any, untied: Any) -> None:
        """Add rows: what the left row was, what it was matched with, whether at all and whether without a tie."""
        row = _mix(_mix(left.view(np.uint64)) ^ values.view(np.uint64))
        time = _mix(row ^ np.where(matched, _mix(match.view(np.uint64)), _UNMATCHED))
        value = _mix(time ^ match_values.view(np.uint64))
        self._rows += len(left)
        self._matched += int(np.count_nonzero(matched))
        self._times += int(time.sum())
        self._untied += int(value[untied].sum())
        self._values += int(value[matched].sum())

    def answer(self) -> Answer:
        """Return the sums, modulo 2 ** 64."""
        times, untied, values = (f"{total % 2**64:016x}" for total in (self._times, self._untied, self._values))
        return Answer(rows=self._rows, matched=self._matched, times=times, untied_values=untied, values=values)


def _distinct(chunks: Iterable[tuple[Ints, Floats]]) -> tuple[Ints, Floats, npt.NDArray[np.bool_]]:
    """Return the distinct keys in order, the greatest value of each, and whether several rows have it."""
    parts = list(chunks)
    keys = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
    values = np.concatenate([np.empty(0, np.float64), *(part[1] for part in parts)])
    parts.clear()
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    if len(keys) == 0:
        # One key that is less than all others stands for no match, so that a search always has a place to point to.
        return np.array([-1]), np.zeros(1), np.zeros(1, dtype=bool)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(starts, append=len(keys))
    return keys[starts], np.maximum.reduceat(values, starts), counts > 1


def _rows_of_pass(folder: Path, by: str | None, number: int, passes: int) -> Iterator[tuple[Ints, Floats]]:
    """Read the packed (entity, time) and the values of those entities that are the pass's own."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path, read_dictionary=[by] if by else []) as file:
            for batch in file.iter_batches(_CHUNK_ROWS):
                codes = _codes(batch.column(by)) if by else np.zeros(batch.num_rows, dtype=np.int64)
                packed = _pack(codes, _ints(batch.column("ts")))
                own = codes % passes == number
                yield packed[own], _floats(batch.column("val"))[own]


def _codes(column: pa.Array) -> Ints:
    """Return the numbers of entities: 7 for ``e00007``."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    numbers = np.array([int(name[1:]) for name in coded.dictionary.to_pylist()], dtype=np.int64)
    return numbers[coded.indices.to_numpy()] if len(numbers) else np.empty(0, dtype=np.int64)


def _pack(codes: Ints | np.int64, times: Ints) -> Ints:
    """Put entity and time into one integer that sorts as they do."""
    return (codes << _TIME_BITS) + times


def _ints(column: pa.Array) -> Ints:
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _floats(column: pa.Array) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _mix(x: Hashes) -> Hashes:
    """Scramble 64-bit integers so that sums of them differ for different sets of rows.

    The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
