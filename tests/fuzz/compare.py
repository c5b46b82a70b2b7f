"""An answer held against what the reference gives: types, rows, order.

`shown` and `rows_of` need nothing but the reference's reading of values, so that their text can stand in a script.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.spec.asof import Asof
from juncture.spec.resolved import Resolved
from juncture.testing.rows import values

__all__ = ["problem", "rows_of", "shown", "without_nan"]

ROUNDED = ("sum", "mean", "std", "median", "quantile", "weighted_mean")


def shown(value: Any) -> str:
    """Write a value so that what is the same shows the same: -0.0 as 0.0, 1.50 as 1.5, and maps by their keys."""
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, Decimal):
        return f"decimal {Fraction(value)}"
    if isinstance(value, dict):
        return repr({name: shown(item) for name, item in value.items()})
    if isinstance(value, list) and value and type(value[0]) is tuple:
        return repr(sorted((shown(key), shown(item)) for key, item in value))
    return repr([shown(item) for item in value]) if isinstance(value, list) else repr(value)


def without_nan(text: str) -> str:
    """Write null in place of NaN and of the least time of 64 bits, at any depth: pandas has NaN and NaT for them."""
    return re.sub(r"\bnan\b|-9223372036854775808(000)*\b", "None", text)


def rows_of(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the rows, written."""
    columns = [[shown(value) for value in values(column)] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def problem(
    join: Resolved,
    right: pa.Table,
    answer: pa.Table,
    expected: pa.Table,
    *,
    ordered: bool = True,
    type_of: Callable[[pa.DataType], object] = lambda data_type: data_type,
) -> tuple[str, str] | None:
    """Say in what an answer differs from what is expected, and how; None if it does not.

    Parameters
    ----------
    join, right
        The join, whose aggregates of floats are compared up to their last digits, and its right table.
    answer, expected
        The two tables.
    ordered
        Whether the order of the rows counts, where the join has one.
    type_of
        What of a column's type counts.
    """
    try:
        answer.validate(full=True)
    except pa.ArrowInvalid as error:
        return "arrays", f"The answer is no valid table: {error}"
    types = [[type_of(each) for each in table.schema.types] for table in (answer, expected)]
    if answer.schema.names != expected.schema.names or types[0] != types[1]:
        return "columns", f"The columns are\n{answer.schema.to_string()}\nand should be\n{expected.schema.to_string()}"
    rounded = [each.name for each in join.aggregates if each.function in ROUNDED and pat.is_floating(each.type)]
    columns = {each.name: each.column for each in join.aggregates}
    if rounded and not ordered:
        answer, expected = (sorted_by_others(table, rounded) for table in (answer, expected))
    for name in rounded if answer.num_rows == expected.num_rows else []:
        if not are_close(answer[name], expected[name], sum(map(magnitude, values(right[columns[name]])))):
            return (
                "aggregates",
                f"The column {name!r} is\n{answer[name].to_pylist()}\nand should be\n{expected[name].to_pylist()}",
            )
    rows, wanted = rows_of(answer.drop_columns(rounded)), rows_of(expected.drop_columns(rounded))
    if rows == wanted or (not (ordered and has_order(join, right)) and Counter(rows) == Counter(wanted)):
        return None
    return "rows", f"The rows of {answer.column_names} are\n{_lines(rows)}\nand should be\n{_lines(wanted)}"


def sorted_by_others(table: pa.Table, names: list[str]) -> pa.Table:
    """Return a table in the order of the columns that are not named, and then of those that are."""
    others = rows_of(table.drop_columns(names))
    keys = zip(others or [()] * table.num_rows, rows_of(table.select(names)), strict=True)
    order = [number for _, number in sorted((key, number) for number, key in enumerate(keys))]
    # Row by row, since Arrow cannot take rows of all types.
    return pa.concat_tables([table.slice(0, 0), *(table.slice(number, 1) for number in order)])


def _lines(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(" | ".join(row) for row in rows)


def has_order(join: Resolved, right: pa.Table) -> bool:
    """Tell whether the order of a join's rows is fixed: of equal right rows any may be the one without a match."""
    if not isinstance(join.spec, Asof) or join.how not in ("right", "full"):
        return True
    rows = rows_of(right)
    return len(set(rows)) == len(rows)


def magnitude(value: Any) -> float:
    return abs(float(value)) if value is not None and math.isfinite(value) else 0.0


def are_close(ours: pa.ChunkedArray, theirs: pa.ChunkedArray, size: float) -> bool:
    """Tell whether two columns of floats differ by nothing but rounding, given how large all that went in is."""
    pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    return all(is_close(one, other, size) for one, other in pairs)


def is_close(one: float | None, other: float | None, size: float) -> bool:
    if one is None or other is None:
        return one is other
    if not (math.isfinite(one) and math.isfinite(other)):
        return repr(one) == repr(other)
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=min(size, 1e308) * 2.0**-48)
