"""Values in error messages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain


def shown(array: pa.Array, row: int = 0) -> str:
    """Return a value of an array as text, including times that Python cannot represent.

    Examples
    --------
    >>> shown(pa.array(["a"])), shown(pa.array([10**16], pa.timestamp("ms")))
    ('"a"', '<value out of range: 10000000000000000>')
    """
    value = plain(array.slice(row, 1))
    if value.null_count:
        return "null"
    text = str(value.to_string(indent=0, skip_new_lines=True))
    # Arrow prints structs by column, over several lines.
    return " ".join(text.split()) if pat.is_struct(value.type) else text.removeprefix("[").removesuffix("]")
