"""Evaluation of predicates on aligned rows of two tables, one batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from juncture.errors import SpecError
from juncture.predicate.evaluate import operations
from juncture.predicate.evaluate.operations import Vector, constant, from_column, to_column
from juncture.predicate.language import nodes
from juncture.predicate.language.nodes import Node, Options, children, walk
from juncture.predicate.language.types import arrow_type

Rows: TypeAlias = "pa.Table | pa.RecordBatch"


def column_as_is(node: Node, schema: pa.Schema) -> str | None:
    """Return the name of the column that an expression is, without any conversion; None for other expressions."""
    if not isinstance(node, nodes.Column) or schema.field(node.name).type != arrow_type(node.type):
        return None
    return node.name


def evaluate(node: Node, left: Rows | None = None, right: Rows | None = None) -> pa.Array:
    """Evaluate an expression on pairs of rows: row ``i`` of one table is paired with row ``i`` of the other.

    The semantics are Spark's: three-valued logic, NaN equal to NaN and above all other floats, integers in 64 bits.
    Where Spark raises an error or wraps around, depending on its settings, the result is null: overflow, division by
    zero, a cast whose value does not fit. A day is 24 hours. A table that the expression does not read may be None;
    columns may have any encoding. Returns one value per pair: booleans for a predicate, null where it is neither true
    nor false.

    Costs one pass over the rows per operation, and about 8 bytes per row and live part. Decimals that Spark rounds, and
    batches with an overflow, are computed row by row.
    """
    tables: dict[str, Any] = {"left": left, "right": right}
    for side in nodes.sides(node):
        if tables[side] is None:
            raise SpecError(
                f"{side}= is missing, but the expression reads the {side} table. Pass {side}=.",
                name="JN-ARGUMENT-CONFLICT",
            )
    counts = {table.num_rows for table in tables.values() if table is not None}
    if len(counts) != 1:
        raise SpecError(
            f"left= and right= have {sorted(counts)} rows, but rows are paired one by one. Pass tables with the same "
            "number of rows.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if isinstance(node, nodes.Column):
        values = tables[node.side].column(node.name)
        if values.type == arrow_type(node.type) and isinstance(values, pa.Array):
            return values
        column = from_column(values, node.type)
        return to_column(column, node.type, counts.pop())
    parts = list(walk(node))
    users = Counter(child for part in parts for child in children(part))
    vectors: dict[Node, Vector] = {}
    for part in parts:
        if isinstance(part, nodes.Column):
            vectors[part] = from_column(tables[part.side].column(part.name), part.type)
        else:
            vectors[part] = _vector(part, vectors)
        for child in children(part):
            users[child] -= 1
            if not users[child]:
                del vectors[child]
    return to_column(vectors[node], node.type, counts.pop())


def matches(node: Node, left: Rows | None = None, right: Rows | None = None) -> pa.BooleanArray:
    """Return which pairs of rows satisfy a predicate; null counts as no."""
    return pc.fill_null(evaluate(node, left, right), False)


def _vector(node: Node, vectors: Mapping[Node, Vector]) -> Vector:
    match node:
        case nodes.Literal(type=data_type, value=value):
            return constant(value, data_type)
        case nodes.Arithmetic(operator=operator, left=left, right=right):
            return operations.arithmetic(operator, vectors[left], vectors[right], (left.type, right.type), node.type)
        case nodes.Call(operands=operands) if all(isinstance(vectors[operand], pa.Scalar) for operand in operands):
            # Constants are computed as a row, so that functions do not have to distinguish them.
            return _vector(node, {operand: pa.repeat(vectors[operand], 1) for operand in operands})[0]
        case nodes.Call(operands=operands):
            return operations.FUNCTIONS[node.function](node, [vectors[operand] for operand in operands])
        case nodes.Cast(operand=operand):
            return operations.convert(vectors[operand], operand.type, node.type)
        case nodes.Compare(operator=comparison, left=left, right=right):
            return operations.compare(comparison, vectors[left], vectors[right], (left.type, right.type))
        case nodes.In(operand=operand, options=options):
            return _is_in(vectors[operand], options)
        case nodes.IsNull(operand=operand):
            return pc.is_null(vectors[operand])
        case nodes.Not(operand=operand):
            return pc.invert(vectors[operand])
        case nodes.And(operands=operands):
            return reduce(pc.and_kleene, [vectors[operand] for operand in operands])
        case nodes.Or(operands=operands):
            return reduce(pc.or_kleene, [vectors[operand] for operand in operands])
    raise AssertionError(f"{type(node).__name__} is not a node of a predicate")


def _is_in(vector: Vector, options: Options) -> Vector:
    """Return whether values are among some options; null for a null, and for other values if the options have NULL."""
    member = pc.is_in(vector, options.vector)
    is_determined = pc.and_(pc.is_valid(vector), member) if options.has_null else pc.is_valid(vector)
    return pc.if_else(is_determined, member, pa.scalar(None, pa.bool_()))
