"""Joins that are validated once, for two schemas, and run on many tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from juncture.errors import SchemaError
from juncture.inputs.frames import ArrowAnswer
from juncture.inputs.tables import ROW_NUMBER
from juncture.local.input import Input
from juncture.local.plan import ReadyJoin
from juncture.planner.statistics import Resources
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES


@dataclass(frozen=True, kw_only=True)
class PreparedJoin:
    """A join of tables of two schemas, validated once and run many times.

    Made by `juncture.prepare`; not to be made by hand. Several threads may use it at once.

    Attributes
    ----------
    join
        The spec, resolved against the two schemas.
    """

    join: Resolved
    _schemas: tuple[pa.Schema, pa.Schema] = field(repr=False)
    _answer: ArrowAnswer = field(repr=False)
    _algorithm: str = field(repr=False)
    _resources: Resources = field(repr=False)

    def __call__(self, left: Any, right: Any) -> Any:
        """Return the joined table of two tables of the schemas.

        Parameters
        ----------
        left, right
            Tables of this process, as for the join functions.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            The joined table, in the type of the left table.

        Raises
        ------
        SchemaError
            If a table has other columns or types.
        DataError
            As the join functions do.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> quotes = pa.table({"ts": [1, 4], "bid": [9.5, 10.5]})
        >>> prepared = jn.prepare(pa.schema({"ts": pa.int64()}), quotes.schema, jn.Asof(on="ts"))
        >>> [prepared(pa.table({"ts": [ts]}), quotes)["bid"].to_pylist() for ts in (0, 3, 5)]
        [[None], [9.5], [10.5]]
        """
        inputs = Input(left, "left"), Input(right, "right")
        for side, opened, schema in zip(SIDES, inputs, self._schemas, strict=True):
            given = opened.given.schema
            if not given.equals(schema):
                raise SchemaError(
                    f"The {side} table has the columns {_columns(given)}, but the join was prepared for "
                    f"{_columns(schema)}. Cast the table, or prepare the join for its schema.",
                    name="JN-PREPARED-SCHEMA",
                )
        ready = ReadyJoin.opened(self.join, *inputs, self._answer, None, self._resources, brief=True)
        return ready.join_by(self._algorithm)


def prepare(spec: Any, schemas: tuple[pa.Schema, pa.Schema], *, algorithm: str, resources: Resources) -> PreparedJoin:
    """Validate a join of tables of two schemas. Raises SchemaError."""
    join: Resolved = spec.resolve(*schemas)
    answer = ArrowAnswer.of(join, schemas, *(None if schema.names else ROW_NUMBER for schema in schemas))
    return PreparedJoin(join=join, _schemas=schemas, _answer=answer, _algorithm=algorithm, _resources=resources)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
