"""What a view is told of a table that changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import SpecError


@dataclass(frozen=True)
class Source:
    """A table that a view reads.

    Parameters
    ----------
    schema
        Its columns.
    static
        Whether it does not change once it has come. Then nothing has to be held of what is only joined to it.

    Raises
    ------
    SpecError
        If the schema is none.

    Examples
    --------
    >>> Source(pa.schema({"day": pa.int32(), "year": pa.int32()}), static=True).static
    True
    """

    schema: pa.Schema
    static: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema):
            raise SpecError(
                f"schema={self.schema!r} ({type(self.schema).__name__}) is not a schema. Expected a pyarrow.Schema.",
                name="JN-ARGUMENT-TYPE",
            )
        if not isinstance(self.static, bool):
            raise SpecError(
                f"static={self.static!r} ({type(self.static).__name__}) is not a bool. Expected True or False.",
                name="JN-ARGUMENT-TYPE",
            )
