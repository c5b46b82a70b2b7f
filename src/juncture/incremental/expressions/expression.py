"""Expressions over the columns of a row, as frozen values: equal expressions compare equal.

They are evaluated by ``pyarrow.compute``, one column at a time. It was chosen over DuckDB, DataFusion and Polars
because it is already a dependency, decimals are exact, logic has three values, and a call takes microseconds. A query
engine plans each evaluation again, which takes longer than the rest of an epoch of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, concatenated, rows_of, true_rows
from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.functions import COMPARISONS, FUNCTIONS, Operand
from juncture.kernels.array_types import Ints


@dataclass(frozen=True)
class Expression:
    """A value computed from a row."""

    type: pa.DataType

    @cached_property
    def columns(self) -> frozenset[int]:
        """Positions of the columns that the expression reads."""
        return frozenset(each.index for each in _walk(self) if isinstance(each, InputColumn))


@dataclass(frozen=True)
class InputColumn(Expression):
    """A column, by position."""

    index: int


@dataclass(frozen=True)
class Constant(Expression):
    """A constant. None is NULL."""

    value: Any

    @cached_property
    def scalar(self) -> pa.Scalar:
        """The constant as an Arrow scalar."""
        return pa.scalar(self.value, self.type)


@dataclass(frozen=True)
class Call(Expression):
    """A call of a function in `juncture.incremental.expressions.functions.FUNCTIONS`. The option must be hashable."""

    function: str
    operands: tuple[Expression, ...]
    option: Any = None


TRUE, FALSE = Constant(pa.bool_(), True), Constant(pa.bool_(), False)


_TESTS = {*COMPARISONS, "and", "or", "not", "is_null", "distinct_from", "in", "like"}

Branches = Sequence[tuple[Expression, Expression]]
"""Conditions and values. The result is the value of the first true condition, or NULL."""


def call(function: str, *operands: Expression, option: Any = None, data_type: pa.DataType | None = None) -> Expression:
    """Return a function call, or its value if all operands are constants.

    Tests are boolean. Unless ``data_type`` is passed, the type of other functions is inferred by a call without rows,
    which may raise `pyarrow.ArrowException`.
    """
    if function in _TESTS:
        data_type = pa.bool_()
    if data_type is None:
        none = [pa.nulls(0, operand.type) for operand in operands]
        data_type = FUNCTIONS[function](none, option).type
    result = Call(data_type, function, operands, option)
    if not all(isinstance(operand, Constant) for operand in operands):
        return result
    try:
        value = evaluate(result, [], 1)[0].as_py()
    except (pa.ArrowException, OverflowError):
        # The error must occur only if there are rows. Dates outside of Python's range are not folded either.
        return result
    # Equal constants share one node, and -0.0 equals 0.0, but 1 / -0.0 differs from 1 / 0.0.
    return result if str(value) == "-0.0" else Constant(data_type, value)


def evaluate(expression: Expression, arrays: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return the values of an expression; raises `pyarrow.ArrowException` for overflows and similar errors."""
    value = _value(expression, arrays, rows)
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, rows)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value


def _value(expression: Expression, arrays: Sequence[pa.Array], rows: int) -> Operand:
    if isinstance(expression, InputColumn):
        return arrays[expression.index]
    if isinstance(expression, Constant):
        return expression.scalar
    assert isinstance(expression, Call)
    try:
        operands = [_value(operand, arrays, rows) for operand in expression.operands]
    except pa.ArrowException as error:
        # The fast path computes all operands for all rows. A failed row may not depend on the failed operand.
        return _value_by_branches(expression, arrays, rows, error)
    return FUNCTIONS[expression.function](operands, expression.option)


def _value_by_branches(expression: Call, arrays: Sequence[pa.Array], rows: int, error: pa.ArrowException) -> pa.Array:
    """Return the values of a call, with each operand computed only for the rows that depend on it."""
    branches = _BRANCHES.get(expression.function)
    for each in () if branches is None else branches(expression):
        try:
            return _chosen(each, expression.type, arrays, rows)
        except pa.ArrowException as other:
            error = other
    raise error


def _chosen(branches: Branches, data_type: pa.DataType, arrays: Sequence[pa.Array], rows: int) -> pa.Array:
    left, pieces, rows_of_pieces = np.arange(rows), [pa.nulls(0, data_type)], []
    for condition, value in branches:
        if not len(left):
            break
        chosen = true_rows(evaluate(condition, _some_rows(arrays, left, condition), len(left)))
        if len(chosen):
            rows_of_pieces.append(left[chosen])
            pieces.append(evaluate(value, _some_rows(arrays, left[chosen], value), len(chosen)))
            left = np.delete(left, chosen)
    order = np.argsort(np.concatenate([*rows_of_pieces, left]))
    return rows_of(concatenated([*pieces, pa.nulls(len(left), data_type)]), array_of(order, pa.int64()))


def _some_rows(arrays: Sequence[pa.Array], rows: Ints, expression: Expression) -> list[pa.Array]:
    index = array_of(rows, pa.int64())
    return [rows_of(each, index) if number in expression.columns else each for number, each in enumerate(arrays)]


def _branches_of_case(expression: Call) -> list[Branches]:
    *turns, other = expression.operands
    return [[*zip(turns[::2], turns[1::2], strict=True), (TRUE, other)]]


def _branches_of_coalesce(expression: Call) -> list[Branches]:
    return [[(call("not", call("is_null", each)), each) for each in expression.operands]]


def _branches_of_logic(expression: Call) -> list[Branches]:
    """Return the branches of ``AND`` or ``OR``, starting with either operand, as in DuckDB."""
    one, other = expression.operands
    return [_decided(expression.function, one, other), _decided(expression.function, other, one)]


def _decided(function: str, one: Expression, other: Expression) -> Branches:
    """Return the branches of ``AND`` or ``OR``. The second operand is computed where the first does not decide."""
    not_one, not_other = (Call(each.type, "not", (each,)) for each in (one, other))
    if function == "and":
        return [(not_one, FALSE), (one, other), (not_other, FALSE)]
    return [(one, TRUE), (not_one, other), (other, TRUE)]


_BRANCHES: Mapping[str, Callable[[Call], list[Branches]]] = {
    "case": _branches_of_case,
    "coalesce": _branches_of_coalesce,
    "and": _branches_of_logic,
    "or": _branches_of_logic,
}
"""The alternative sequences of branches of each function."""


def _walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Call):
        for operand in expression.operands:
            yield from _walk(operand)


def columns_of(expressions: Iterable[Expression]) -> frozenset[int]:
    """Return the positions of the columns that some expressions read."""
    return frozenset(index for each in expressions for index in each.columns)


def is_never(condition: Expression) -> bool:
    """Return whether a condition is never true."""
    return isinstance(condition, Constant) and not condition.value


def replaced(expression: Expression, change: Callable[[InputColumn], Expression]) -> Expression:
    """Return an expression with its columns replaced. Constant subexpressions are folded."""
    if isinstance(expression, InputColumn):
        return change(expression)
    if not isinstance(expression, Call):
        return expression
    operands = [replaced(operand, change) for operand in expression.operands]
    if expression.function in ("and", "or"):
        return _logical(expression.function, operands)
    return call(expression.function, *operands, option=expression.option, data_type=expression.type)


def substituted(expression: Expression, values: Mapping[int, Expression] | Sequence[Expression]) -> Expression:
    """Return an expression with its columns replaced by values, by position."""
    return replaced(expression, lambda column: values[column.index])


def shifted(expression: Expression, shift: Mapping[int, int] | int) -> Expression:
    """Return an expression with its column positions moved by an offset, or mapped."""
    if isinstance(shift, int):
        return replaced(expression, lambda column: InputColumn(column.type, column.index + shift))
    return replaced(expression, lambda column: InputColumn(column.type, shift[column.index]))


def _logical(function: str, operands: Sequence[Expression]) -> Expression:
    one, other = operands
    decides, passes = (FALSE, TRUE) if function == "and" else (TRUE, FALSE)
    if decides in (one, other):
        return decides
    if passes in (one, other):
        return other if one == passes else one
    return call(function, one, other)


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the conditions that ``AND`` combines. Conditions in each operand of an ``OR`` move out of it."""
    if isinstance(expression, Call) and expression.function == "and":
        return [each for operand in expression.operands for each in conjuncts(operand)]
    if isinstance(expression, Call) and expression.function == "or":
        branches = [conjuncts(each) for each in _disjuncts(expression)]
        shared = [each for each in branches[0] if all(each in branch for branch in branches[1:])]
        if shared:
            rest = [all_of([each for each in branch if each not in shared]) for branch in branches]
            return [*shared, *conjuncts(any_of(rest))]
    return [] if expression == TRUE else [expression]


def _disjuncts(expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.function == "or":
        return [each for operand in expression.operands for each in _disjuncts(operand)]
    return [expression]


def all_of(expressions: Sequence[Expression]) -> Expression:
    """Return the conjunction of some conditions."""
    result: Expression = TRUE
    for expression in expressions:
        result = _logical("and", (result, expression))
    return result


def any_of(expressions: Sequence[Expression]) -> Expression:
    """Return the disjunction of some conditions."""
    result: Expression = FALSE
    for expression in expressions:
        result = _logical("or", (result, expression))
    return result


def equated(condition: Expression) -> tuple[Expression, ...]:
    """Return the two values that an equality compares; none for other conditions."""
    return condition.operands if isinstance(condition, Call) and condition.function == "equal" else ()


def key_pair(
    condition: Expression, left: frozenset[int], right: frozenset[int] | None = None
) -> tuple[Expression, Expression] | None:
    """Return the left and right value of an equality; None for other conditions. ``right`` may be all other columns."""
    pair = equated(condition)
    for one, other in (pair, pair[::-1]) if pair and all(each.columns for each in pair) else ():
        if one.columns <= left and (other.columns.isdisjoint(left) if right is None else other.columns <= right):
            return one, other
    return None


def is_comparison(condition: Expression, width: int) -> bool:
    """Return whether a condition compares values, each of one side."""
    columns = condition.columns
    if not columns or max(columns) < width or min(columns) >= width:
        return True
    is_supported = isinstance(condition, Call) and condition.function in {*COMPARISONS, "and", "or", "not"}
    return is_supported and all(is_comparison(each, width) for each in getattr(condition, "operands", ()))


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "AND", "or": "OR", "concat": "||",
} | COMPARISONS  # fmt: skip


def text_of(expression: Expression, names: Sequence[str]) -> str:
    """Return an expression as SQL-like text."""
    if isinstance(expression, InputColumn):
        return names[expression.index]
    if isinstance(expression, Constant):
        return (
            "NULL"
            if expression.value is None
            else repr(expression.value)
            if isinstance(expression.value, str)
            else str(expression.value)
        )
    assert isinstance(expression, Call)
    operands = [text_of(operand, names) for operand in expression.operands]
    if isinstance(expression.option, DuckQuery):
        return expression.option.text(operands)
    if expression.function in _SIGNS and len(operands) == 2:
        return f"({operands[0]} {_SIGNS[expression.function]} {operands[1]})"
    if expression.function == "cast":
        return operands[0]
    return f"{expression.function}({', '.join(operands)})"
