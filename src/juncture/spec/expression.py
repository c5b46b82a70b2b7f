"""Expressions that users pass in place of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from juncture.errors import SpecError


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression over the columns of one table, created with `juncture.expr`.

    Examples
    --------
    >>> import juncture as jn
    >>> jn.Expr("day * 24 + hour").text
    'day * 24 + hour'
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise SpecError(
                f"expr({self.text!r}) has no SQL text. Expected an expression over the columns of one table, such as "
                'juncture.expr("date + open_time").',
                name="JN-EXPRESSION-EMPTY",
            )

    def __str__(self) -> str:
        return self.text


Key: TypeAlias = str | Expr
"""A column name or an expression, as a join compares it."""

Keys: TypeAlias = Key | Sequence[Key]


def expr(text: str) -> Expr:
    """Return an expression over the columns of one table, for a join to compare in place of a column.

    Pass it as ``on``, ``by`` or an end of an interval, or for one table as ``left_on`` and so on. Its values are not
    part of the output.

    Parameters
    ----------
    text
        The expression in SQL (Spark's dialect). Names are columns of the table.

    Returns
    -------
    Expr
        The expression. The join parses it, since it knows the columns.

    Raises
    ------
    SpecError
        If the text is empty or not a string.

    Notes
    -----
    The join evaluates it once per row, and keeps the values in memory like those of a column.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> shops = pa.table({"day": [20, 21], "hour": [9, 8]})
    >>> visits = pa.table({"at": [489, 520]})
    >>> jn.join_asof(visits, shops, left_on="at", right_on=jn.expr("day * 24 + hour")).to_pydict()
    {'at': [489, 520], 'day': [20, 21], 'hour': [9, 8]}
    """
    return Expr(text)
