"""As-of joins in-process: which rows match, and the joined table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.asof.assemble import assemble, lonely_right, pairs_of, unmatched_right
from juncture.local.asof.late import fetch
from juncture.local.asof.search import Algorithm, Found, Progress, Report, Search, Timer, pieces
from juncture.runtime.memory import MEMORY_BYTES, PARTS_UNDER_WAY
from juncture.runtime.selection import SomeParts
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFolder, in_small_parts
from juncture.runtime.threads import Threads
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import How

__all__ = ["Found", "Matches", "Progress", "Report", "find", "join", "match", "stream"]

_log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

_LEFT_SHARE = 0.3
"""How much of the memory the left side takes, or a piece of it. The rest is for what goes by."""

_ALONE: dict[How, How] = {"right": "inner", "full": "left"}
"""What comes before the right rows without a match."""


@dataclass(frozen=True)
class Matches:
    """Pairs of rows that match, in the order of the left rows, best first.

    Attributes
    ----------
    left_rows, right_rows
        Row numbers of each pair in the two sources.
    """

    left_rows: Ints
    right_rows: Ints


def match(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    *,
    algorithm: Algorithm = "probe",
    threads: int | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
) -> Matches:
    """Return the pairs of rows that match.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas. Its ``how`` does not matter, except that ``semi`` and ``anti`` ask
        for one match, whichever.
    left, right
        The two sides.
    algorithm
        ``"probe"`` streams the right side past the sorted left; ``"merge"`` sorts both.
    threads
        By default one for each core.
    memory_bytes
        How much the codes and candidates of the left side may take. A larger left side is joined piece by piece, and
        the right side read once for each.
    progress
        Called as the work goes on, from the calling thread.

    Raises
    ------
    DataError
        If a file cannot be read, or ``ties="error"`` and a tie has to be decided.
    """
    found = find(join, left, right, algorithm=algorithm, threads=threads, memory_bytes=memory_bytes, progress=progress)
    left_rows, here = pairs_of(found.pointers, keep_unmatched=False)
    assert left_rows is not None
    return Matches(left_rows, found.pointers[here])


def find(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    *,
    algorithm: Algorithm = "probe",
    threads: int | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
    count_ties: bool = False,
    skip_parts: bool = True,
) -> Found:
    """Return the matches of each left row, and what happened.

    Parameters
    ----------
    join, left, right, algorithm, threads, memory_bytes, progress
        As for `match`.
    count_ties
        Whether to count the ties instead of settling them.
    skip_parts
        Whether to leave out row groups that cannot hold a match. Then their keys stay unknown.

    Raises
    ------
    DataError
        As `match` does.
    """
    with Threads(threads) as pool:
        search = Search(
            join, left, right, algorithm, pool, Timer(progress), count_ties=count_ties, skip_parts=skip_parts
        )
        return search.run(memory_bytes)


def join(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    *,
    algorithm: Algorithm = "probe",
    threads: int | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
) -> tuple[pa.Table, Report]:
    """Return the joined table, and what happened.

    Parameters
    ----------
    join, left, right, algorithm, threads, memory_bytes, progress
        As for `match`.

    Returns
    -------
    pyarrow.Table
        Left rows in their order, best match first, then the right rows without a match where the join keeps them.
    Report
        Counts and times.

    Raises
    ------
    DataError
        As `match` does.
    """
    with Threads(threads) as pool:
        timer = Timer(progress)
        found = _search(join, left, right, algorithm, pool, timer).run(memory_bytes)
        return _assembled(join, left, right, found, pool, timer), found.report


def stream(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    *,
    algorithm: Algorithm = "probe",
    threads: int | None = None,
    spill: SpillFolder | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an as-of join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join, left, right, algorithm, threads, progress
        As for `join`.
    spill
        Where to put what does not fit; by default in a folder of the join's own.
    memory_bytes
        How much may be held: the left side with its matches and the output, or as much of the left side as fits at a
        time. The right side goes by once for each piece, and is never held.

    Raises
    ------
    DataError
        As `match` does, before anything is yielded.
    StateError
        If there is no room to spill.

    Notes
    -----
    Time O(P R + L log L) for P pieces: row groups of the right side that no row of a piece can match are left out. If
    there are several pieces, all that the output shows is written to disk, once or twice.
    """
    timer, room = Timer(progress), int(memory_bytes * _LEFT_SHARE)
    row_bytes = _search(join, left, right, algorithm, Threads(1), timer).row_bytes
    fits = left.num_rows * (row_bytes + _shown_bytes(join, left, right)) <= room
    with ExitStack() as stack:
        pool = stack.enter_context(Threads(threads, room_bytes=None if fits else memory_bytes // PARTS_UNDER_WAY))
        if fits:
            search = _search(join, left, right, algorithm, pool, timer, memory_bytes=memory_bytes)
            yield from _in_one_piece(join, left, right, search.run(None), pool, timer)
            return
        _log.debug("The left side does not fit: it is joined in pieces of %s rows", f"{max(1, room // row_bytes):,}")
        spill = spill or stack.enter_context(SpillFolder(memory_bytes=memory_bytes))
        left = in_small_parts(left, join.needed("left"), max(1, room // row_bytes), spill)

        def found() -> Iterator[tuple[Source, Ints]]:
            for piece in pieces(left, row_bytes, room):
                ours, first = SomeParts(left, piece), int(left.bounds[piece.start])
                search = Search(join, ours, right, algorithm, pool, timer, first_row=first, memory_bytes=memory_bytes)
                yield ours, search.run(None).pointers

        yield from fetch(
            join, found(), right, spill=spill, memory_bytes=memory_bytes, threads=threads, progress=progress
        )


def _in_one_piece(
    join: ResolvedAsof, left: Source, right: Source, found: Found, threads: Threads, timer: Timer
) -> Iterator[pa.RecordBatch]:
    """Yield the left rows with their matches, then the right rows without one, a part at a time."""
    alone = replace(join, spec=replace(join.spec, how=_ALONE.get(join.how, join.how)))
    yield from _assembled(alone, left, right, found, threads, timer).to_batches()
    if alone.spec.how != join.how:
        yield from lonely_right(join, right, unmatched_right(right.num_rows, found.pointers))


def _search(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    algorithm: Algorithm,
    threads: Threads,
    timer: Timer,
    **options: Any,
) -> Search:
    shows_on = any(column.side == "right" and column.source == join.right_on for column in join.output)
    return Search(join, left, right, algorithm, threads, timer, keep_codes=shows_on, **options)


def _assembled(
    join: ResolvedAsof, left: Source, right: Source, found: Found, threads: Threads, timer: Timer
) -> pa.Table:
    with timer.phase("payload") as advance:
        return assemble(join, left, right, found.pointers, threads, codes=found.codes, progress=advance)


def _shown_bytes(join: ResolvedAsof, left: Source, right: Source) -> int:
    """Return what a left row and its matches take in the output, and where they are gathered."""
    shown = (left, join.needed("left")), (right, join.needed("right"))
    row_bytes = [source.plain_bytes_of(names) // max(source.num_rows, 1) for source, names in shown]
    return 2 * (row_bytes[0] + row_bytes[1] * join.spec.matches)
