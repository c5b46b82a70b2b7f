"""Results as DuckDB relations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from juncture.errors import SchemaError


@dataclass(frozen=True)
class AsRelation:
    """Converts tables to relations on the connection of `beside`; without one (in another process), to Arrow."""

    beside: Any

    def __call__(self, joined: pa.Table) -> Any:
        """Return a table as a relation."""
        if self.beside is None or not joined.schema.names:
            return joined
        try:
            # DuckDB finds the table by the name of this local variable.
            return self.beside.query("juncture_joined", "SELECT * FROM joined")
        except sys.modules["duckdb"].Error as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise SchemaError(
                f"The result cannot be read by DuckDB, the library of the left table: {reason}. Cast or drop that "
                "column, or pass the left table as Arrow, with .to_arrow_table().",
                name="JN-LIBRARY-TYPE",
            ) from error

    def __reduce__(self) -> tuple[type[AsRelation], tuple[None]]:
        return AsRelation, (None,)
