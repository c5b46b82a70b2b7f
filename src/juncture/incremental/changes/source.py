"""The declaration of a table that a view reads."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import SpecError


@dataclass(frozen=True)
class Source:
    """Declare a table that a view reads.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the table.
    static : bool, default False
        Whether the table never changes after the first epoch. Tables that are joined only to static ones then need no
        stored index.

    Raises
    ------
    SpecError
        If an argument has the wrong type.

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
