"""Joins of tables that change."""

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
    """Join two tables whose rows are inserted, updated and deleted, and keep the answer up to date.

    Parameters
    ----------
    left_schema, right_schema
        The columns of both tables.
    spec
        What the join means: `Asof`, `Range`, `Overlap`, `Where` or `Equi`.
    state
        A folder that the rows are kept in, so that they outlive the process: every epoch is there as a whole or not at
        all. If it has rows of this join, it goes on with them. None keeps them in memory alone.
    memory
        How much the rows may take if the state is in a folder, such as ``"1GB"``: those that do not fit stay on disk,
        and are read as they are needed. None for a share of the machine's. `ChangeJoin.result` may hold as much.
    output
        How the changes of the answer are said: a column ``_weight``, a column ``_change_type``, or the columns ``op``,
        ``before`` and ``after``.
    unmatched_deletes
        What becomes of deletes of rows that are not there: an error, or they are counted and left out.

    Returns
    -------
    ChangeJoin
        The join, as it was left in the folder, or without rows.

    Raises
    ------
    SpecError
        If an argument has a value that makes no sense.
    SchemaError
        If columns are missing, or types do not fit.
    StateError
        If the folder is open in another process, of another join or version, or damaged.

    Examples
    --------
    A quote that comes between two others takes over the trades that it now serves, and gives them back when it goes.

    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades, quotes = pa.schema({"ts": pa.int64()}), pa.schema({"ts": pa.int64(), "bid": pa.int64()})
    >>> join = jn.changes(trades, quotes, jn.Asof(on="ts"))
    >>> answer = join.apply(left=pa.table({"ts": [3, 7]}), right=pa.table({"ts": [1], "bid": [10]}))
    >>> [batch.to_pylist() for batch in join.apply(right=pa.table({"ts": [5], "bid": [11]}))]
    [[{'ts': 7, 'bid': 10, '_weight': -1}, {'ts': 7, 'bid': 11, '_weight': 1}]]
    """
    from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
    from juncture.local.resources import resources_here

    if not isinstance(spec, Spec):
        raise SpecError(
            f"spec={spec!r} ({type(spec).__name__}) says nothing of a join. Expected jn.Where(…), jn.Range(…), "
            "jn.Overlap(…), jn.Equi(…) or jn.Asof(…)."
        )
    for side, schema in (("left", left_schema), ("right", right_schema)):
        if not isinstance(schema, pa.Schema):
            raise SpecError(f"{side}_schema={schema!r} is no schema. Expected a pyarrow.Schema.")
    setup = ChangeSetup(spec, left_schema, right_schema, output, unmatched_deletes)
    return ChangeJoin(setup, resources_here(memory), None if state is None else store_in(Path(state), setup))
