"""Relations of DuckDB as answers."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from juncture.errors import SchemaError


def relation_of(relation: Any, joined: pa.Table) -> Any:
    """Return a table as a relation of the connection that another relation is of.

    Raises
    ------
    SchemaError
        If DuckDB has no type for a column.
    """
    if not joined.schema.names:
        return joined
    try:
        # DuckDB finds the table by the name that it has here.
        return relation.query("juncture_joined", "SELECT * FROM joined")
    except sys.modules["duckdb"].Error as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise SchemaError(
            f"DuckDB, which the left table is of, cannot read the answer: {reason}. Cast or drop that column, or pass "
            "the left table as Arrow, by .to_arrow_table()."
        ) from error
