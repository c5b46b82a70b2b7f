"""Column pruning: the source columns that a pipeline's sinks and checks need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from juncture.errors import JunctureError
from juncture.pipeline.graph import needed_for, steps_in_order
from juncture.pipeline.model import Derived, File, JoinStep
from juncture.pipeline.schemas import Schemas
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_Names: TypeAlias = frozenset[str]


def needed_columns(file: File, schemas: Schemas, wanted: Iterable[str]) -> dict[str, list[str]]:
    """Return the needed columns of each source that has unneeded ones, at least one, in schema order.

    All columns of ``wanted`` sources and steps are needed. Sources with schema None, which only Spark knows, are read
    completely.
    """
    complete = set(wanted)
    needed = needed_for(file, complete)
    needed_of = {name: _all(schemas, name) if name in complete else frozenset[str]() for name in needed}
    for check in file.checks:
        if check.from_ in needed:
            needed_of[check.from_] |= {*check.unique, *check.not_null}
    for name in reversed(steps_in_order(file)):
        if name in needed:
            for read, columns in _needed_by(file, name, needed_of[name], schemas):
                needed_of[read] |= columns
    fewer = dict[str, list[str]]()
    for name in needed & file.sources.keys():
        schema = schemas.get(name)
        if schema is not None and not needed_of[name].issuperset(schema.names):
            fewer[name] = [column for column in schema.names if column in needed_of[name]] or schema.names[:1]
    return fewer


def _all(schemas: Schemas, name: str) -> _Names:
    schema = schemas.get(name)
    return frozenset(() if schema is None else schema.names)


def _needed_by(file: File, name: str, wanted: _Names, schemas: Schemas) -> Iterator[tuple[str, Set[str]]]:
    step = file.steps[name]
    inputs = [schemas.get(read) for read in step.inputs]
    needed: tuple[Set[str], ...] | None = None
    if schemas.get(name) is not None and all(schema is not None for schema in inputs):
        if isinstance(step, Derived):
            needed = _needed_by_query(step, wanted, inputs[0])
        elif isinstance(step, JoinStep):
            needed = _needed_by_join(step, wanted, inputs[0], inputs[1])
    for position, read in enumerate(step.inputs):
        yield read, _all(schemas, read) if needed is None else needed[position]


def _needed_by_query(step: Derived, wanted: _Names, schema: pa.Schema) -> tuple[Set[str]] | None:
    """Return the columns that a step's expressions name, or None if they may need all."""
    if step.grid is not None or (step.distinct and step.select is None and step.agg is None):
        return None
    texts = [] if step.filter is None else [step.filter]
    for expressions in (step.agg, step.select):
        texts += expressions.values() if isinstance(expressions, dict) else expressions or ()
    named = {key.lower() for key in step.by}
    for text in texts:
        identifiers = _identifiers(text)
        if identifiers is None:
            return None
        named |= identifiers
    passed = wanted if step.select is None and step.agg is None else frozenset[str]()
    return ({column for column in schema.names if column in passed or column.lower() in named},)


def _identifiers(text: str) -> set[str] | None:
    """Return the identifiers in an expression in lower case, as Spark compares them, or None if it may need all."""
    try:
        node = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except SqlglotError:
        return None
    if any(not isinstance(star.parent, exp.Count) for star in node.find_all(exp.Star)):
        return None
    return {each.name.lower() for each in node.find_all(exp.Identifier)}


def _needed_by_join(
    step: JoinStep, wanted: _Names, left: pa.Schema, right: pa.Schema
) -> tuple[Set[str], Set[str]] | None:
    """Return the columns of both sides that a join needs for wanted columns, or None if it may need all."""
    join = step.spec.resolve(left, right)
    left_names, right_names = _needed(join, "left", wanted), _needed(join, "right", wanted)
    # A right column gets a suffix only while the left side has its name.
    left_names |= right_names & set(left.names)
    if join.how not in ("semi", "anti") and (join.aggregates or step.spec.ranks_matches):
        # All right columns break ties.
        right_names = set(right.names)
    needed = left_names, right_names
    try:
        narrow = step.spec.resolve(*map(_only, (left, right), needed))
    except JunctureError:
        return None
    return needed if _output(narrow, wanted) == _output(join, wanted) else None


def _needed(join: Resolved, side: Side, wanted: _Names) -> set[str]:
    """Return the columns of a side that decide which rows match, or that wanted columns contain."""
    named = {column for name in join.compared(side) for column in join.value(side, name).columns}
    for column in join.output:
        if column.name in wanted:
            named |= {column.source} if column.side == side else set()
            named |= {column.filled_from} if column.filled_from is not None and side == "right" else set()
    return named


def _only(schema: pa.Schema, names: Set[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in names], schema.metadata)


def _output(join: Resolved, wanted: _Names) -> dict[str, object]:
    return {column.name: column for column in join.output if column.name in wanted}
