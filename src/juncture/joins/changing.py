"""`changes`: joins of tables that change."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from juncture.errors import SpecError
from juncture.spec.base import Spec

if TYPE_CHECKING:
    from juncture.incremental.join import ChangeJoin


def changes(
    left_schema: pa.Schema,
    right_schema: pa.Schema,
    spec: Spec,
    *,
    state: str | PathLike[str] | None = None,
    memory: str | int | None = None,
    output: Literal["weight", "change_type", "debezium"] = "weight",
    unmatched_deletes: Literal["error", "count"] = "error",
) -> ChangeJoin:
    """Maintain the result of a join while rows of its tables are inserted, updated and deleted.

    Parameters
    ----------
    left_schema, right_schema
        The columns of both tables.
    spec
        The join: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    state
        A folder that stores the rows of both tables. Each epoch is stored completely or not at all. A folder with rows
        of the same join is continued. None (default) keeps the rows in memory only.
    memory
        The memory for rows if ``state`` is set, in bytes or such as ``"1GB"``. Further rows stay on disk and are read
        when needed. None means a share of the machine's memory. `ChangeJoin.result` may use the same amount again.
    output
        The format of the changes of the result: ``"weight"`` (column ``_weight``), ``"change_type"`` (column
        ``_change_type``) or ``"debezium"`` (columns ``op``, ``before``, ``after``).
    unmatched_deletes
        What happens to deletes of rows that do not exist: ``"error"`` raises DataError, ``"count"`` counts and skips
        them.

    Returns
    -------
    ChangeJoin
        The join, with the rows in ``state`` or empty.

    Raises
    ------
    SpecError
        If an argument has an invalid value.
    SchemaError
        If a column is missing, or the types of two columns do not compare.
    StateError
        If the folder is in use by another process, belongs to another join or version, or is damaged.

    Notes
    -----
    Applying an epoch costs time in proportion to its changes and their matches, not to the tables.

    Examples
    --------
    A new quote between two others becomes the match of the later trade:

    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades, quotes = pa.schema({"ts": pa.int64()}), pa.schema({"ts": pa.int64(), "bid": pa.int64()})
    >>> join = jn.changes(trades, quotes, jn.Asof(on="ts"))
    >>> result = join.apply(left=pa.table({"ts": [3, 7]}), right=pa.table({"ts": [1], "bid": [10]}))
    >>> [batch.to_pylist() for batch in join.apply(right=pa.table({"ts": [5], "bid": [11]}))]
    [[{'ts': 7, 'bid': 10, '_weight': -1}, {'ts': 7, 'bid': 11, '_weight': 1}]]
    """
    from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
    from juncture.local.resources import resources_here

    if not isinstance(spec, Spec):
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) is not a join. Expected jn.Asof(…), jn.Range(…), jn.Overlap(…), "
            "jn.Where(…) or jn.Equi(…).",
            name="JN-ARGUMENT-TYPE",
        )
    for side, schema in (("left", left_schema), ("right", right_schema)):
        if not isinstance(schema, pa.Schema):
            raise SpecError(
                f"{side}_schema={schema!r} ({type(schema).__name__}) is not a schema. Expected a pyarrow.Schema, such "
                "as table.schema.",
                name="JN-ARGUMENT-TYPE",
            )
    setup = ChangeSetup(spec, left_schema, right_schema, output, unmatched_deletes)
    return ChangeJoin(setup, resources_here(memory), None if state is None else store_in(Path(state), setup))
