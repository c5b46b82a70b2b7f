"""Types of columns without a schema, inferred from what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SchemaError, did_you_mean
from juncture.predicate.language.nodes import Side
from juncture.predicate.language.syntax import read_sql
from juncture.predicate.language.syntax_tree import Tree, walk_tree

_RELATIONS = ("compare", "between", "in")
_SIDES: dict[str, Side] = {"l": "left", "r": "right"}

Place = tuple[Side, str]


@dataclass(frozen=True)
class Inferred:
    """The schemas of both sides, and the columns whose types were inferred."""

    schemas: Mapping[Side, pa.Schema]
    guessed: frozenset[Place]


def infer_schemas(
    text: str, full_schemas: Mapping[Side, pa.Schema], partial_schemas: Mapping[Side, Mapping[str, pa.DataType | None]]
) -> Inferred:
    """Return schemas for a predicate over ``l`` and ``r``.

    A column of unknown type takes the type of a date, timestamp, duration, string or boolean column in the same
    comparison, and is a double otherwise, whose bounds hold for any number. ``full_schemas`` has schemas of some sides;
    ``partial_schemas`` has the types of the other sides' bounded columns, None where bounds do not determine a type.
    """
    tree = read_sql(text)
    types: dict[Place, pa.DataType | None] = {}
    for side, schema in full_schemas.items():
        types |= {(side, field.name): field.type for field in schema}
    occurrences = list(_column_occurrences(tree, partial_schemas))
    for side, named in partial_schemas.items():
        read = {name for other, name in occurrences if other == side}
        for name in named:
            if name not in read:
                raise SchemaError(
                    f"{side[0]}[{name!r}] is not a column in the predicate. {did_you_mean(name, read)}",
                    name="JN-COLUMN-MISSING",
                )
        types |= {(side, name): data_type for name, data_type in named.items()}
    columns_to_infer = [column for column in occurrences if column[0] in partial_schemas]
    guessed = frozenset(column for column in columns_to_infer if types.get(column) is None)
    relations = [
        list(_column_occurrences(part, partial_schemas)) for part in walk_tree(tree) if part.kind in _RELATIONS
    ]
    before = -1
    while before != len([column for column in guessed if types.get(column) is not None]):
        before = len([column for column in guessed if types.get(column) is not None])
        for relation in relations:
            partner = _partner([types[column] for column in relation if types.get(column) is not None])
            for column in relation:
                if partner is not None and types.get(column) is None:
                    types[column] = partner
    for column in columns_to_infer:
        types[column] = types.get(column) or pa.float64()
    schemas = dict(full_schemas)
    for side in partial_schemas:
        schemas[side] = pa.schema([(name, data_type) for (other, name), data_type in types.items() if other == side])
    return Inferred(schemas, guessed)


def _column_occurrences(
    tree: Tree, partial_schemas: Mapping[Side, Mapping[str, pa.DataType | None]]
) -> Iterator[Place]:
    """Yield the columns in a tree; one without a table belongs to the side whose bounds name it."""
    for part in walk_tree(tree):
        if part.kind != "column":
            continue
        *tables, name = part.value
        side = _SIDES.get(tables[-1].lower()) if tables else None
        if not tables:
            side = next((side for side, named in partial_schemas.items() if name in named), None)
        if side is not None:
            yield side, name


def _partner(types: list[pa.DataType | None]) -> pa.DataType | None:
    """Return the type that an unknown column takes beside others in a comparison."""
    tests = (pat.is_timestamp, pat.is_date, pat.is_duration, pat.is_boolean)
    for test in tests:
        for data_type in types:
            if data_type is not None and test(data_type):
                return data_type
    numbers = (pat.is_integer, pat.is_floating, pat.is_decimal)
    others = [one for one in types if one is not None and not any(test(one) for test in numbers)]
    if others:
        return others[0]
    return pa.float64() if types else None
