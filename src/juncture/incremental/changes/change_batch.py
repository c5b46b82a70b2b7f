"""Changes of tables: rows with weights, and the formats in which users pass and get them.

Three formats are read and written:

- ``_weight``, an integer: how many times a row is inserted, or deleted if it is negative. An update is -1 for the old
  row and +1 for the new one.
- ``_change_type``, as in Delta Lake and Spark: ``insert``, ``delete``, ``update_preimage``, ``update_postimage``.
- ``op``, ``before`` and ``after``, as in Debezium: ``c`` and ``r`` insert, ``d`` deletes, ``u`` updates.

All rows of a table with none of these columns are inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, joined_batches, rows_at
from juncture.errors import DataError, SchemaError, SpecError
from juncture.kernels.array_types import Ints, Mask, Positions
from juncture.matching.input import arrow_batches, in_schema

ChangeFormat = Literal["weight", "change_type", "debezium"]

WEIGHT, CHANGE_TYPE = "_weight", "_change_type"
_OP, _BEFORE, _AFTER = "op", "before", "after"

_OF_TYPE = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
_IGNORED = ("_commit_version", "_commit_timestamp")  # columns that Delta Lake adds to changes

_BEFORE_IN, _AFTER_IN = ("d", "u"), ("c", "r", "u")


class ChangeBatch(NamedTuple):
    """Rows, and the changes of their weights. A row may occur several times."""

    rows: pa.RecordBatch
    weights: Ints

    def some(self, positions: Positions) -> ChangeBatch:
        """Return some of the changes."""
        return ChangeBatch(rows_at(self.rows, positions), self.weights[positions])

    def slice(self, first: int, count: int) -> ChangeBatch:
        """Return consecutive changes."""
        return ChangeBatch(self.rows.slice(first, count), self.weights[first : first + count])

    def repeated(self) -> pa.RecordBatch:
        """Return the rows as often as their weights say."""
        positions = np.repeat(np.arange(self.rows.num_rows), self.weights)
        return self.rows if len(positions) == self.rows.num_rows else rows_at(self.rows, positions)

    @classmethod
    def joined(cls, changes: Sequence[ChangeBatch], schema: pa.Schema) -> ChangeBatch:
        """Return all changes in one batch."""
        if not changes:
            return cls(pa.RecordBatch.from_pylist([], schema), np.zeros(0, np.int64))
        if len(changes) == 1:
            return changes[0]
        return cls(joined_batches([rows for rows, _ in changes]), np.concatenate([each for _, each in changes]))


ChangeBatches = list[ChangeBatch]

ChangesByName = Mapping[str, ChangeBatches]
"""Changes by source, or by answer."""


def table_of(changes: Iterable[ChangeBatch], schema: pa.Schema) -> pa.Table:
    """Return rows as a table, repeated by weight."""
    return pa.Table.from_batches([each.repeated() for each in changes], schema)


def deletes_last(changes: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
    """Yield the changes with deletes last, when the rows that they delete exist."""
    deletes: ChangeBatches = []
    for change in changes:
        is_delete = change.weights < 0
        if is_delete.any():
            deletes.append(change.some(np.flatnonzero(is_delete)))
            change = change.some(np.flatnonzero(~is_delete))
        yield change
    yield from deletes


def read_changes(changes: Any, schema: pa.Schema, side: str) -> Iterator[ChangeBatch]:
    """Yield the rows of changes with non-zero weights. ``side`` is the name in messages."""
    for batch in _batches(changes, side):
        names = batch.schema.names
        if WEIGHT in names and WEIGHT not in schema.names:
            rows, weights = _with_weights(batch, side)
        elif CHANGE_TYPE in names and CHANGE_TYPE not in schema.names:
            rows, weights = _with_types(batch, side)
        elif {_OP, _BEFORE, _AFTER} <= set(names) and _OP not in schema.names:
            for rows, weights in _before_and_after(batch, side):
                yield ChangeBatch(_checked(rows, schema, side), weights)
            continue
        else:
            rows, weights = batch, np.ones(batch.num_rows, np.int64)
        change = ChangeBatch(_checked(rows, schema, side), weights)
        yield change if weights.all() else change.some(np.flatnonzero(weights))


def rows_within(schema: pa.Schema, side: str) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns of the changed rows, and the columns that mark changes."""
    names = set(schema.names)
    formats = [marks for marks in ((WEIGHT,), (CHANGE_TYPE,), (_OP, _BEFORE, _AFTER)) if set(marks) <= names]
    if len(formats) > 1:
        raise SchemaError(
            f"Columns {formats[0][0]!r} and {formats[1][0]!r} of the {side} changes both mark changes. "
            "Drop one of them.",
            name="JN-CHANGE-FORMAT",
        )
    marks = formats[0] if formats else ()
    if len(marks) <= 1:
        ignored = {*marks, *(_IGNORED if marks == (CHANGE_TYPE,) else ())}
        return pa.schema([field for field in schema if field.name not in ignored]), marks
    before, after = schema.field(_BEFORE).type, schema.field(_AFTER).type
    if not pat.is_struct(after) or before != after:
        raise SchemaError(
            f"Columns {_BEFORE!r} and {_AFTER!r} of the {side} changes have the types {before} and {after}. Expected "
            "the same struct type for both.",
            name="JN-CHANGE-FORMAT",
        )
    return pa.schema(list(after)), marks


def _batches(changes: Any, side: str) -> Iterator[pa.RecordBatch]:
    batches = arrow_batches(changes)
    if batches is not None:
        yield from batches
    elif isinstance(changes, Iterable) and not isinstance(changes, str | bytes | dict):
        for each in changes:
            yield from _batches(each, side)
    else:
        raise SpecError(
            f"{side}= is of type {type(changes).__name__}. Expected a pyarrow.RecordBatch, a table with the Arrow "
            "PyCapsule interface, or a list of them.",
            name="JN-ARGUMENT-TYPE",
        )


_MARKS_REMEDY = (
    f" Expected the columns of the schema, optionally with {WEIGHT!r} or {CHANGE_TYPE!r}, or the columns 'op', "
    "'before' and 'after' instead."
)


def _checked(batch: pa.RecordBatch, schema: pa.Schema, side: str) -> pa.RecordBatch:
    return in_schema(batch, schema, side, f"the {side} changes", _MARKS_REMEDY)


def _with_weights(batch: pa.RecordBatch, side: str) -> ChangeBatch:
    column = batch.column(WEIGHT)
    if not pat.is_integer(column.type):
        raise SchemaError(
            f"Column {WEIGHT!r} of the {side} changes has type {column.type}. Expected integers: positive to insert a "
            "row, negative to delete it.",
            name="JN-CHANGE-FORMAT",
        )
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(
            f"Column {WEIGHT!r} of the {side} changes is null in row {row:,}. Expected an integer.",
            name="JN-CHANGE-VALUE",
        )
    try:
        weights = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise DataError(
            f"Column {WEIGHT!r} of the {side} changes has a value that does not fit 64 bits: {pc.max(column)}. Pass "
            "smaller weights.",
            name="JN-CHANGE-VALUE",
        ) from None
    return ChangeBatch(batch.drop_columns([WEIGHT]), weights)


def _with_types(batch: pa.RecordBatch, side: str) -> ChangeBatch:
    weights = _by_word(batch.column(CHANGE_TYPE), _OF_TYPE.get, CHANGE_TYPE, tuple(_OF_TYPE), side)
    marks = [CHANGE_TYPE, *(name for name in _IGNORED if name in batch.schema.names)]
    return ChangeBatch(batch.drop_columns(marks), weights)


def _by_word(
    column: pa.Array, weight_of: Callable[[str], int | None], name: str, words: tuple[str, ...], side: str
) -> Ints:
    encoded = column if pat.is_dictionary(column.type) else column.dictionary_encode()
    weights_of_words = [None if word is None else weight_of(str(word)) for word in encoded.dictionary.to_pylist()]
    # Unknown words and null have the weight 0.
    weight_of_index = np.array([0 if weight is None else weight for weight in weights_of_words] + [0], np.int64)
    indices = encoded.indices.cast(pa.int64()).fill_null(len(weights_of_words)).to_numpy(zero_copy_only=False)
    weights: Ints = weight_of_index[indices]
    if not weights.all():
        row = int(np.flatnonzero(weights == 0)[0])
        raise DataError(
            f"Column {name!r} of the {side} changes is {column[row].as_py()!r} in row {row:,}. Expected one of "
            f"{', '.join(map(repr, words))}.",
            name="JN-CHANGE-VALUE",
        )
    return weights


def _before_and_after(batch: pa.RecordBatch, side: str) -> Iterator[ChangeBatch]:
    ops = {"d": 1, "u": 2, "c": 3, "r": 4}
    op = _by_word(batch.column(_OP), ops.get, _OP, tuple(ops), side)
    for name, kinds, weight in ((_BEFORE, _BEFORE_IN, -1), (_AFTER, _AFTER_IN, 1)):
        column = batch.column(name)
        if not pat.is_struct(column.type):
            raise SchemaError(
                f"Column {name!r} of the {side} changes has type {column.type}. Expected a struct.",
                name="JN-CHANGE-FORMAT",
            )
        wanted: Mask = np.isin(op, [ops[kind] for kind in kinds])
        here = np.flatnonzero(wanted)
        missing = np.flatnonzero(wanted & column.is_null().to_numpy(zero_copy_only=False))
        if len(missing):
            row = int(missing[0])
            raise DataError(
                f"Column {name!r} of the {side} changes is null in row {row:,}, where 'op' is "
                f"{batch.column(_OP)[row].as_py()!r}. Expected the whole row. In PostgreSQL, run ALTER TABLE … "
                "REPLICA IDENTITY FULL.",
                name="JN-CHANGE-OLD-ROW",
            )
        rows = column.take(array_of(here, pa.int64()))
        fields = rows.flatten() if len(rows) else [pa.array([], field.type) for field in rows.type]
        names = [field.name for field in rows.type]
        yield ChangeBatch(pa.RecordBatch.from_arrays(fields, names=names), np.full(len(here), weight, np.int64))


def written_schema(schema: pa.Schema, form: ChangeFormat) -> pa.Schema:
    """Return the columns of the changes of a result."""
    mark = {"weight": WEIGHT, "change_type": CHANGE_TYPE}.get(form)
    if mark in schema.names:
        raise SchemaError(
            f"Column {mark!r} of the result has the name of a column that marks changes. Rename it in the inputs, "
            "or pass another output=.",
            name="JN-OUTPUT-COLUMN-TAKEN",
        )
    if form == "debezium":
        row = pa.struct(_nullable(schema))
        return pa.schema({_OP: pa.string(), _BEFORE: row, _AFTER: row})
    return schema.append(pa.field(mark, pa.int64() if form == "weight" else pa.string(), False))


def write_changes(batch: pa.RecordBatch, weights: Ints, form: ChangeFormat) -> pa.RecordBatch:
    """Return result rows as changes. In formats with one row per change, deletes come first."""
    schema = written_schema(batch.schema, form)
    if form == "weight":
        return pa.RecordBatch.from_arrays([*batch.columns, array_of(weights, pa.int64())], schema=schema)
    rows = np.repeat(np.arange(len(weights)), np.abs(weights))
    rows = rows[np.argsort(weights[rows] > 0, kind="stable")]
    batch = rows_at(batch, rows)
    comes = weights[rows] > 0
    if form == "change_type":
        return pa.RecordBatch.from_arrays([*batch.columns, _words(comes, "insert", "delete")], schema=schema)
    sides = [
        pa.StructArray.from_arrays(
            batch.columns,
            fields=_nullable(batch.schema),
            mask=array_of((~here).astype(np.uint8), pa.uint8()).cast(pa.bool_()),
        )
        if batch.num_columns
        else pa.nulls(len(rows), schema.field(_BEFORE).type)
        for here in (~comes, comes)
    ]
    return pa.RecordBatch.from_arrays([_words(comes, "c", "d"), *sides], schema=schema)


def _nullable(schema: pa.Schema) -> list[pa.Field]:
    return [field.with_nullable(True) for field in schema]


def _words(mask: Mask, true: str, false: str) -> pa.Array:
    words = pa.DictionaryArray.from_arrays(array_of((~mask).astype(np.int8), pa.int8()), pa.array([true, false]))
    return words.dictionary_decode()
