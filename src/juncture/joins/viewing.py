"""`view`: SQL queries that are kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from juncture.errors import SpecError, wrong_type

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
    """Maintain the result of an SQL query while the tables that it reads change.

    Parameters
    ----------
    state
        A folder that stores the rows. Each epoch is stored completely or not at all. A folder with rows of the same
        query is continued. None keeps the rows in memory only.
    sql
        The query in DuckDB's SQL, including ``ASOF JOIN … MATCH_CONDITION (…)``. The documentation of views lists what
        is supported. The error for anything else shows the position.
    sources
        The tables of the query by name: their columns, or a `Source` with further options.
    memory
        The memory for rows if ``state`` is set, in bytes or such as ``"1GB"``. Further rows stay on disk and are read
        when needed. Groups, their values under MIN, MAX and DISTINCT, and one key per joined row stay in memory. None
        means a share of the machine's memory.
    output, unmatched_deletes
        As for `juncture.changes`.

    Returns
    -------
    View
        The view, with the rows in ``state`` or empty.

    Raises
    ------
    SpecError
        If the query cannot be parsed or maintained, or an argument has an invalid value.
    PlanError
        If ``memory`` is below the minimum.
    StateError
        If the folder is in use by another process, belongs to another query or version, or is damaged.

    Notes
    -----
    Applying an epoch costs time in proportion to its changes and their matches, not to the tables.

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
    from juncture.incremental.state.policy import MemoryPolicy
    from juncture.incremental.view.source import Source
    from juncture.incremental.view.view import View, ViewSetup, store_in
    from juncture.local.resources import resources_here

    if not isinstance(sql, str):
        raise wrong_type("sql", sql, "SQL", 'a string such as "SELECT … FROM …"')
    if not isinstance(sources, Mapping) or not sources or not all(isinstance(name, str) for name in sources):
        raise SpecError(
            f"sources={sources!r} is not a mapping of names to schemas, or is empty. Expected for example "
            f'{{"sales": pa.schema(…)}}.',
            name="JN-ARGUMENT-TYPE",
        )
    if "offset" in sources or len({name.lower() for name in sources}) < len(sources):
        raise SpecError(
            f"sources={list(sources)!r} has names that differ only in case, or the reserved name 'offset'. Rename "
            "these sources.",
            name="JN-ARGUMENT-VALUE",
        )
    tables: dict[str, Any] = {
        name: each if isinstance(each, Source) else Source(each) for name, each in sources.items()
    }
    setup = ViewSetup(sql, tables, output, unmatched_deletes)
    policy = MemoryPolicy.of(resources_here(memory).memory_bytes)
    return View(setup, None if state is None else store_in(Path(state), setup, policy))
