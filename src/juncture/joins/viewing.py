"""Queries kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from juncture.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from juncture.incremental.view.source import Source
    from juncture.incremental.view.view import View


def view(
    state: str | PathLike[str] | None,
    sql: str,
    *,
    sources: Mapping[str, pa.Schema | Source],
    memory: str | int | None = None,
    output: Literal["weight", "change_type", "debezium"] = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> View:
    """Keep the answer of a query up to date while the tables that it reads change.

    Parameters
    ----------
    state
        A folder that the rows are kept in, so that they outlive the process: every epoch is there as a whole or not at
        all. If it has rows of this query, it goes on with them. None keeps them in memory alone.
    sql
        The query, in DuckDB's SQL, with ``ASOF JOIN … MATCH_CONDITION (…)``. The documentation of views says what of it
        can be kept up to date; all else is an error that shows the place.
    sources
        The tables that it reads, by name: the columns of each, or `Source` to say more of it.
    memory
        How much the rows may take if the state is in a folder, such as ``"1GB"``: those that do not fit go to disk, and
        are read as they are needed. Groups, their values under MIN, MAX and DISTINCT, and a key each for what is joined
        stay in memory. None for a share of the machine's.
    output
        How the changes of the answer are said: a column ``_weight``, a column ``_change_type``, or the columns ``op``,
        ``before`` and ``after``.
    unmatched_deletes
        What becomes of deletes of rows that are not there: an error, or they are counted and left out.

    Returns
    -------
    View
        The query, as it was left in the folder, or without rows.

    Raises
    ------
    SpecError
        If the query cannot be read or kept up to date, with the place; or an argument has a value that makes no sense.
    PlanError
        If the memory is too little to work in.
    StateError
        If the folder is open in another process, of another query or version, or damaged.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> sales = pa.schema({"book": pa.string(), "price": pa.decimal128(7, 2)})
    >>> view = jn.view(None, "SELECT book, sum(price) AS total FROM sales GROUP BY book", sources={"sales": sales})
    >>> first = pa.table({"book": ["Emma", "Emma"], "price": pa.array(["5", "7"]).cast(pa.decimal128(7, 2))})
    >>> [batch.to_pylist() for batch in view.apply(sales=first)]
    [[{'book': 'Emma', 'total': Decimal('12.00'), '_weight': 1}]]
    """
    from juncture.incremental.view.source import Source
    from juncture.incremental.view.view import View, ViewSetup, store_in
    from juncture.local.resources import resources_here

    if not isinstance(sql, str):
        raise SpecError(f"sql={sql!r} ({type(sql).__name__}) is no SQL. Expected a query such as SELECT … FROM ….")
    if not isinstance(sources, Mapping) or not sources or not all(isinstance(name, str) for name in sources):
        raise SpecError(f"sources={sources!r} names no tables. Expected a mapping of names to schemas.")
    if "offset" in sources or len({name.lower() for name in sources}) < len(sources):
        raise SpecError(
            f"sources={list(sources)!r} has names that differ in small and capital letters alone, or 'offset', which "
            "says where sources are. Call them something else."
        )
    given: dict[str, Any] = dict(sources)
    made = {name: each if isinstance(each, Source) else Source(each) for name, each in given.items()}
    setup = ViewSetup(sql, made, output, unmatched_deletes)
    memory_bytes = resources_here(memory).memory_bytes
    return View(setup, memory_bytes, None if state is None else store_in(Path(state), setup))
