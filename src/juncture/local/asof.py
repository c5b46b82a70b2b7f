"""As-of joins in-process: which rows match, and the joined table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.output import assemble, pairs_of
from juncture.local.scan import Source
from juncture.local.search import Algorithm, Found, Progress, Report, Search, Timer
from juncture.local.threads import Threads
from juncture.spec.asof import ResolvedAsof

__all__ = ["Found", "Matches", "Progress", "Report", "find", "join", "match"]

Ints = npt.NDArray[np.int64]


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
    timer = Timer(progress)
    shows_on = any(column.side == "right" and column.source == join.right_on for column in join.output)
    with Threads(threads) as pool:
        found = Search(join, left, right, algorithm, pool, timer, keep_codes=shows_on).run(memory_bytes)
        with timer.phase("payload") as advance:
            table = assemble(join, left, right, found.pointers, pool, codes=found.codes, progress=advance)
    return table, found.report
