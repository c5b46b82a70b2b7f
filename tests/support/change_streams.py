"""Tables that change at random, whose changes come to Spark as files."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa

from support.tables import canonical_rows

__all__ = ["LEFT", "RIGHT", "epochs", "said", "summed"]

LEFT = pa.schema({"k": pa.int8(), "on": pa.int64(), "far": pa.int64(), "n": pa.int64()})
RIGHT = pa.schema({"k": pa.int8(), "on": pa.int64(), "end": pa.int64(), "m": pa.string()})


def row(schema: pa.Schema, chance: random.Random) -> tuple[object, ...]:
    on = chance.randint(0, 9)
    values = {
        "k": chance.choice([None, 0, 1, 2]),
        "on": on,
        "far": chance.randint(0, 2),
        "n": on + chance.randint(0, 3),
        "end": on + chance.randint(0, 3),
        "m": chance.choice(["a", "b"]),
    }
    return tuple(values[name] for name in schema.names)


def epochs(schema: pa.Schema, chance: random.Random, count: int) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return random changes of a table, and the table after each of them."""
    there: list[tuple[object, ...]] = []
    changes, tables = [], []
    for _ in range(count):
        signed = []
        for _ in range(chance.randint(6, 12)):
            if there and chance.random() < 0.3:
                signed.append((*there.pop(chance.randrange(len(there))), -1))
            else:
                there.append(row(schema, chance))
                signed.append((*there[-1], 1))
        marked = schema.append(pa.field("_weight", pa.int64()))
        changes.append(table_of(signed, marked))
        tables.append(table_of(there, schema))
    return changes, tables


def table_of(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, cells, strict=True)) for cells in rows], schema)


def said(changes: pa.Table, form: str) -> pa.Table:
    """Return changes of weights 1 and -1 in another way."""
    if form == "weight":
        return changes
    comes = [weight > 0 for weight in changes["_weight"].to_pylist()]
    rows = changes.drop_columns("_weight")
    if form == "change_type":
        return rows.append_column("_change_type", pa.array(["insert" if each else "delete" for each in comes]))
    struct = pa.struct(list(rows.schema))
    before, after = (
        pa.array(
            [cells if each == wanted else None for cells, each in zip(rows.to_pylist(), comes, strict=True)], struct
        )
        for wanted in (False, True)
    )
    op = pa.array(["c" if each else "d" for each in comes])
    return pa.table({"op": op, "before": before, "after": after, "ts_ms": range(len(comes))})


def summed(answer: pa.Table) -> Counter[tuple[object, ...]]:
    """Return the rows that changes make, however they are said."""
    found: Counter[tuple[object, ...]] = Counter()
    if "op" in answer.column_names:
        for name, weight in (("before", -1), ("after", 1)):
            rows = answer[name].combine_chunks()
            there = rows.filter(rows.is_valid())
            for cells in canonical_rows(pa.table(there.flatten(), names=[each.name for each in there.type])):
                found[tuple(cells)] += weight
    else:
        for *cells, mark in canonical_rows(answer):
            found[tuple(cells)] += {"insert": 1, "delete": -1}[mark] if isinstance(mark, str) else mark
    assert min(found.values(), default=0) >= 0
    return +found
