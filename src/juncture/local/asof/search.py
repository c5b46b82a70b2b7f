"""The search for matches: read the left, choose what of the right to read, run an algorithm, choose the matches."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.tie_order import UndecidedError, code_columns
from juncture.errors import DataError
from juncture.kernels import asof as kernels
from juncture.kernels.array_types import Ints, Words
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof.available import search_available
from juncture.local.asof.condition import Condition, search_where
from juncture.local.asof.merge import merge
from juncture.local.asof.probe import TieFloodError, probe
from juncture.local.asof.sides import Left, RightRows, count_matches, no_matches, read_left, sorted_left
from juncture.local.keys import Keys
from juncture.local.prune import useful_parts
from juncture.local.reasons import row_text
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Coder, RankCoder
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST
from juncture.runtime.sources import Source
from juncture.runtime.threads import grouped
from juncture.spec.asof import ResolvedAsof

_log = logging.getLogger(__name__)

Prepared = Callable[[], Left]
"""Returns the left side, read and sorted before."""

_LEFT_ROW_BYTES = 56
_CANDIDATE_BYTES = 16
_WORD_BYTES = 8


@dataclass(frozen=True)
class MatchPointers:
    """The matches of left rows."""

    pointers: Ints  # right row numbers for each left row, best first, -1 where there are no more; one for semi and anti
    codes: Ints | None  # the codes of the matches' ``on``, if they were computed and determine the values
    nearest: Ints | None  # the best right rows at any distance, -1 without one; None unless requested
    # By name: left rows ``"tied"`` after the last match; ``"right_rows_read"``, by all pieces; ``"parts_skipped"``.
    counts: dict[str, int]


class Search:
    """One search, which starts again with other codes if the first ones do not suffice.

    With `count_ties`, ties are counted instead of broken. With `seek_nearest`, the best right rows at any distance are
    returned, too, so no row groups are skipped. With `keep_codes`, the codes of the matches' ``on`` are returned.
    `prepared` returns the left side if it is joined in one piece; by default it is read.
    """

    def __init__(
        self,
        join: ResolvedAsof,
        left: Source,
        right: Source,
        context: JoinContext,
        *,
        merges: bool = False,
        count_ties: bool = False,
        seek_nearest: bool = False,
        keep_codes: bool = False,
        prepared: Prepared | None = None,
    ) -> None:
        self._join = join
        self._left = left
        self._right = right
        self._is_merge = merges
        self._context = context
        self._prepared = prepared
        spec = join.spec
        any_match = spec.how in ("semi", "anti") and spec.ties != "error" and not count_ties
        self._wanted = 1 if any_match else max(1, min(spec.matches, right.num_rows))
        # What comes after the best match decides whether a tie has to be decided, and nothing else.
        self._pointer_count = 1 if spec.how in ("semi", "anti") else self._wanted
        self._seeks_nearest = seek_nearest
        self._refuses_ties = spec.ties == "error" and not count_ties
        # One candidate more than wanted shows whether a tie has to be decided.
        self._candidate_count = self._wanted + (self._refuses_ties or count_ties)
        self._ties: Literal["break", "order", "ignore"] = "break"
        if any_match or not join.tie_columns or (self._candidate_count > self._wanted and self._wanted == 1):
            self._ties = "ignore"
        elif self._candidate_count > self._wanted:
            self._ties = "order"
        self._coder: Coder = join.domain
        self._time_coder: Coder | None = None
        if join.available_at is not None:
            self._time_coder = join.available_at.domain
        self._condition = None if join.where is None else Condition.of(join.where)
        self._merges = self._is_merge and prepared is None and self._condition is None and join.available_at is None
        restores = join.domain.restores(right.schema.field(join.right_on).type)
        self._keep_codes = keep_codes and restores and not self._merges
        # Without columns to decide, tied rows are equal or the order of the table decides: the last of them wins.
        self._coded: tuple[tuple[str, ...], bool] = (), not join.tie_columns and not any_match
        self._trusts_codes = True

    @property
    def row_bytes(self) -> int:
        """The bytes that a left row takes while the right side goes by."""
        row, candidate = _LEFT_ROW_BYTES, _CANDIDATE_BYTES
        if self._join.available_at is not None or self._condition is not None:
            # Twice, since those of a batch of right rows come beside those so far.
            row, candidate = row + _WORD_BYTES, 2 * (candidate + _WORD_BYTES)
        if self._condition is not None:
            row += self._condition.row_bytes(self._left, "left")
        return row + candidate * self._candidate_count * len(self._join.directions)

    def run(self, room_bytes: int) -> MatchPointers:
        """Find the matches of all left rows, piece by piece if they do not fit in `room_bytes`."""
        parts = [each for _, each in self.pieces(room_bytes)]
        if len(parts) == 1:
            return parts[0]
        pointers, codes, nearest = (
            None if pieces[0] is None else np.concatenate(pieces)
            for pieces in zip(*((each.pointers, each.codes, each.nearest) for each in parts), strict=True)
        )
        assert pointers is not None
        return MatchPointers(pointers, codes, nearest, sum((Counter(each.counts) for each in parts), Counter[str]()))

    def pieces(self, room_bytes: int) -> Iterator[tuple[int, MatchPointers]]:
        """Yield the matches of as many left rows at a time as fit in `room_bytes`, with the number of the first one."""
        most, sizes = min(ROWS_MOST, room_bytes // self.row_bytes), self._left.part_rows
        pieces = [range(parts[0], parts[-1] + 1) for parts in grouped(range(len(sizes)), most, sizes.__getitem__)]
        first = 0
        for piece in pieces or [range(0)]:
            rows = sum(sizes[piece.start : piece.stop])
            pointers = self._context.array((rows, self._wanted), np.int64)
            codes = np.empty((len(pointers) * self._keep_codes, self._wanted), np.int64)
            nearest = np.full((len(pointers) * self._seeks_nearest, 1), kernels.NOWHERE, np.int64)
            counts = self._persist(piece, pointers, codes, nearest)
            yield (
                first,
                MatchPointers(
                    pointers[:, : self._pointer_count],
                    codes if self._keep_codes else None,
                    nearest[:, 0] if self._seeks_nearest else None,
                    counts,
                ),
            )
            first += rows

    def _persist(self, piece: range, pointers: Ints, codes: Ints, nearest: Ints) -> dict[str, int]:
        """Try, and try again with what was learnt."""
        left: Left | None = None
        while True:
            try:
                if self._merges:
                    return self._merge(piece, pointers)
                left = left or self._read_left(piece)
                return self._attempt(piece, left, pointers, codes, nearest)
            except TooWideError:
                _log.debug("Starting again: values do not fit 64 bits, so that their ranks are compared")
                self._rank()
                left = None
            except TieFloodError:
                _log.debug("Starting again with tie-breaking codes: many right rows tie")
                self._coded = code_columns(self._right.schema, self._join.tie_columns)
            except UndecidedError:
                _log.debug("Starting again: codes do not decide all ties")
                self._trusts_codes = False

    def _rank(self) -> None:
        """Let ranks be the codes, where codes of their own do not fit. Those of floats alone do."""
        join, available_at = self._join, self._join.available_at
        names = join.left_on, join.right_on
        is_first = self._coder is join.domain
        self._coder = join.domain.ranked(lambda: self._values(*names))
        if isinstance(self._coder, RankCoder):
            # Distances of ranks are calculated by Python, which needs the candidates of `probe`.
            self._keep_codes = False
            self._merges = self._merges and not join.domain.has_distances
        if is_first and not join.domain.has_distances:
            # Codes of their own may do for the others.
            return
        if available_at is not None:
            self._time_coder = available_at.domain.ranked(lambda: self._values(available_at.left, available_at.right))

    def _read_left(self, piece: range) -> Left:
        with self._context.progress.during("left"):
            join, time_coder = self._join, self._time_coder
            if (
                self._prepared is not None
                and time_coder is None
                and self._coder is join.domain
                and len(piece) == len(self._left.part_rows)
            ):
                return self._prepared()
            codes = read_left(join, self._left, piece, self._coder, self._context, time_coder)
            return sorted_left(codes, self._context)

    def _merge(self, piece: range, pointers: Ints) -> dict[str, int]:
        """Find the matches of a piece of the left side by `merge`."""
        with self._context.progress.during("left"):
            left = read_left(self._join, self._left, piece, self._coder, self._context, None)
        with self._context.progress.during("right"):
            keys, on = left.codes.keys, left.codes.on
            right = self._prepare(left.keys, lambda: on[keys != EMPTY] if len(keys) else on, left.limits)
            later = self._join.spec.prefer == "later"
            counts = merge(
                left, right, self._join.directions, self._wanted, self._candidate_count, later, pointers, self._context
            )
        self._check_ties(piece, counts)
        return {"tied": int(counts[kernels.TIED])}

    def _values(self, left: str, right: str) -> Iterator[pa.Array]:
        for source, column in ((self._left, left), (self._right, right)):
            for part in range(len(source.part_rows)):
                for batch in source.read(part, [column]):
                    yield batch.column(0)

    def _attempt(self, piece: range, left: Left, pointers: Ints, codes: Ints, nearest: Ints) -> dict[str, int]:
        """Find the matches of a piece of the left side, and count what became of its rows."""
        with self._context.progress.during("right"):
            right = self._prepare(left.keys, lambda: left.slots.on[: len(left.slots)], left.limits)
            arguments = self._join.directions, self._candidate_count, self._context
            at_once = self._is_merge
            if self._condition is not None:
                first_row = int(self._left.bounds[piece.start])
                best = search_where(
                    self._condition, self._join, left, self._left, first_row, right, *arguments, at_once=at_once,
                    within_tolerance=not self._seeks_nearest,
                )  # fmt: skip
            elif right.time is None:
                best = probe(left.slots, right, *arguments)
            else:
                best = search_available(left.slots, left.asof_codes, right, *arguments, at_once=at_once)
        counts = self._choose(left, best, pointers, codes)
        if self._seeks_nearest:
            limits = self._coder.limit(None)
            self._choose(replace(left, limits=limits, barred=None), best, nearest, codes[:0])
        self._check_ties(piece, counts)
        return {
            "tied": int(counts[kernels.TIED]),
            "right_rows_read": right.rows,
            "parts_skipped": len(self._right.part_rows) - len(right.parts),
        }

    def _check_ties(self, piece: range, counts: Ints) -> None:
        """Refuse a tie that has to be decided under ``ties="error"``."""
        if self._refuses_ties and counts[kernels.FIRST_TIED] >= 0:
            raise self._tie_error(int(self._left.bounds[piece.start]) + int(counts[kernels.FIRST_TIED]))

    def _prepare(self, keys: Keys, on: Callable[[], Ints], limits: Words | list[Any]) -> RightRows:
        """Return what of the right side to read, and how, given the left rows that can match as codes."""
        join, columns = self._join, self._coded
        parts = list(range(len(self._right.part_rows)))
        if not self._seeks_nearest and self._coder is join.domain:
            parts = useful_parts(join, on, np.asarray(limits, np.uint64), self._right)
        possible = not self._merges and bool(code_columns(self._right.schema, join.tie_columns)[0])
        return RightRows(
            source=self._right,
            on=join.right_on,
            by=join.right_by,
            coder=self._coder,
            keys=keys,
            parts=parts,
            tie_columns=join.tie_columns,
            ties=self._ties,
            code_columns=columns[0],
            decided=columns[1] and self._trusts_codes,
            may_flood=possible and not columns[0],
            time=None if join.available_at is None else join.available_at.right,
            time_coder=self._time_coder,
            first=join.spec.ties == "first",
        )

    def _choose(self, left: Left, best: list[Ints], pointers: Ints, codes: Ints) -> Ints:
        """Write the matches into pointers and codes, and return the kernel's counters."""
        none = np.empty((0, self._candidate_count, 2), np.int64)
        sides = {
            direction.forward: candidates for direction, candidates in zip(self._join.directions, best, strict=True)
        }
        backward, forward = sides.get(False, none), sides.get(True, none)
        pointers[:] = kernels.NOWHERE
        if len(left.slots) == 0:
            return no_matches()
        later = self._join.spec.prefer == "later"
        if isinstance(self._coder, RankCoder) and self._join.domain.has_distances:
            return _choose_exact(left, self._coder.positions, backward, forward, self._wanted, later, pointers)
        rows = left.slots.rows
        if left.barred is not None:
            rows = np.where(left.barred[rows], ~rows, rows)
        floating = self._join.domain.floating
        limits = np.asarray(left.limits, np.uint64)

        def choose(part: tuple[int, int, int], counts: Ints) -> None:
            step, wanted = int(len(limits) > 1), self._wanted
            kernels.choose(
                left.slots.on, rows, *part[:2], backward, forward, wanted, limits, step, floating, later, pointers,
                codes, counts,
            )  # fmt: skip

        return count_matches(choose, left.slots.ranges(self._context), self._context)

    def _tie_error(self, row: int) -> DataError:
        spec = self._join.spec
        keys = (name for name, _ in (*spec.by_pairs(), *spec.on_pairs()))
        cells = row_text(self._left, self._join, keys, row, self._context)
        return DataError(
            f"Several right rows with the same {spec.on_names()[1]!r} tie for the left row with {cells} "
            f"(row {row:,}), and ties='error'. Remove the duplicates, or pass ties='greatest' with "
            "order_by=.",
            name="JN-TIE",
        )


def _choose_exact(
    left: Left, values: list[Any], backward: Ints, forward: Ints, wanted: int, later: bool, pointers: Ints
) -> Ints:
    """Write each left row's matches, and return the counters, for codes that are ranks of values.

    `values` has what each rank stands for, in steps of the domain, or floats. The limits of `left` are Python's
    numbers. As `juncture.kernels.asof.choose` for distances that do not fit 64 bits, slowly and exactly.
    """
    counts = no_matches()
    limits: list[Any] = list(left.limits)
    ahead_rank = -1 if later else 1
    candidate_count = max(each.shape[1] for each in (backward, forward) if len(each))
    for slot, row in enumerate(left.slots.rows.tolist()):
        on = values[left.slots.on[slot]]
        near = [(on - values[words[0]], 0, words) for words in _candidates_of(backward, slot)]
        far = [(values[~words[0]] - on, ahead_rank, words) for words in _candidates_of(forward, slot)]
        # Stable, and each side ascends by distance already.
        candidates = sorted(near + far, key=lambda candidate: candidate[:2])
        barred = left.barred is not None and left.barred[row]
        limit = limits[row if len(limits) > 1 else 0]
        taken = [] if barred else [c for c in candidates if c[0] <= limit][:candidate_count]
        for rank, (_, _, words) in enumerate(taken[:wanted]):
            pointers[row, rank] = words[-1]
        if len(taken) > wanted and taken[wanted][2][:-1] == taken[wanted - 1][2][:-1]:
            counts[kernels.TIED] += 1
            first = int(counts[kernels.FIRST_TIED])
            counts[kernels.FIRST_TIED] = row if first < 0 else min(row, first)
        counts[kernels.MATCHED if taken else kernels.BEYOND if candidates else kernels.NOTHING] += 1
    return counts


def _candidates_of(best: Ints, slot: int) -> list[list[int]]:
    """Return the candidates of a slot, without empty ones."""
    if len(best) == 0:
        return []
    return [candidate for candidate in best[slot].tolist() if candidate[-1] != kernels.NOWHERE]
