"""What all kinds of join know once their spec has been checked against two schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from juncture.spec.aggregate import Aggregate
from juncture.spec.schema import LEFT_OUT, How, OutputColumn, Side

__all__ = ["Resolved"]


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A spec that has been checked against two schemas.

    Attributes
    ----------
    spec
        The spec itself.
    how
        Which rows the output keeps.
    left_schema, right_schema
        The schemas of the inputs.
    left_by, right_by
        The columns that have to be equal, pair by pair.
    output
        The output columns that are columns of the inputs, in order.
    aggregates
        What follows the left columns, in place of right columns; empty for a join that gives matches.
    """

    spec: Any
    how: How
    left_schema: pa.Schema
    right_schema: pa.Schema
    left_by: tuple[str, ...]
    right_by: tuple[str, ...]
    output: tuple[OutputColumn, ...]
    aggregates: tuple[Aggregate, ...] = ()

    @property
    def output_schema(self) -> pa.Schema:
        """The schema of the output: columns of the inputs with their types, then the aggregates."""
        schemas = {"left": self.left_schema, "right": self.right_schema}
        shown = [(c.name, schemas[c.side].field(c.source).type) for c in self.output]
        return pa.schema([*shown, *((each.name, each.type) for each in self.aggregates)])

    @property
    def described_schema(self) -> pa.Schema:
        """The schema of the output with what else the inputs' fields say: their metadata, and what is never null.

        A left column that right ones fill is what both say.
        """
        schemas = {"left": self.left_schema, "right": self.right_schema}
        lacking = {"left": self.how in ("right", "full"), "right": self.how != "inner"}
        shown = []
        for column in self.output:
            field = schemas[column.side].field(column.source).with_name(column.name)
            if column.filled_from is not None:
                said = self.right_schema.field(column.filled_from).metadata or {}
                both = {key: value for key, value in (field.metadata or {}).items() if said.get(key) == value}
                field = field.with_metadata(both)
            shown.append(field.with_nullable(field.nullable or lacking[column.side]))
        aggregates = [pa.field(each.name, each.type) for each in self.aggregates]
        metadata = {key: value for key, value in (self.left_schema.metadata or {}).items() if key != LEFT_OUT}
        return pa.schema([*shown, *aggregates], metadata=metadata or None)

    @property
    def right_payload(self) -> tuple[str, ...]:
        """The right columns that the output shows, by their names in the right table."""
        fills = {c.filled_from for c in self.output if c.filled_from}
        shown = {c.source for c in self.output if c.side == "right"}
        return tuple(name for name in self.right_schema.names if name in fills | shown)

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match."""
        return self.left_by if side == "left" else self.right_by

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows."""
        shown = [column.source for column in self.output if column.side == side]
        filling = self.right_payload if side == "right" else ()
        return tuple(dict.fromkeys((*self.compared(side), *shown, *filling)))
