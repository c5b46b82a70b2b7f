"""Relations of DuckDB as answers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from juncture.errors import SchemaError


@dataclass(frozen=True)
class AsRelation:
    """Makes relations of tables.

    Attributes
    ----------
    beside
        One of the connection that they are to be of. None gives tables back as they are: in a process that a plan was
        sent to there is no connection.
    """

    beside: Any

    def __call__(self, joined: pa.Table) -> Any:
        """Return a table as a relation.

        Raises
        ------
        SchemaError
            If DuckDB has no type for a column.
        """
        if self.beside is None or not joined.schema.names:
            return joined
        try:
            # DuckDB finds the table by the name that it has here.
            return self.beside.query("juncture_joined", "SELECT * FROM joined")
        except sys.modules["duckdb"].Error as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise SchemaError(
                f"DuckDB, which the left table is of, cannot read the answer: {reason}. Cast or drop that column, or "
                "pass the left table as Arrow, by .to_arrow_table()."
            ) from error

    def __reduce__(self) -> tuple[type[AsRelation], tuple[None]]:
        return AsRelation, (None,)
