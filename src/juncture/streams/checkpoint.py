"""A join of streams on disk: what it means, how far its sides have come, and the rows that it holds."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from juncture.errors import StateError
from juncture.spec.asof import Asof
from juncture.spec.base import Spec
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.schema import Side
from juncture.spec.where import Where
from juncture.streams.order import Order

if TYPE_CHECKING:
    from juncture.streams.join import Setup, StreamJoin

__all__ = ["restore", "save", "with_marks", "without_marks"]

_VERSION = 1
_MANIFEST = "join.json"
_NOT_GIVEN = "not_given.arrow"
_MATCHED = " matched"
_SPECS: dict[str, type[Spec]] = {each.kind: each for each in (Asof, Range, Overlap, Where, Equi)}
_SIDES: tuple[Side, Side] = ("left", "right")


def save(join: StreamJoin, folder: str | PathLike[str]) -> None:
    """Write a join to a folder, which is there as a whole or as it was before.

    Raises
    ------
    StateError
        If it cannot be written.
    """
    target = Path(folder)
    fresh, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    try:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir(parents=True)
        for side in _SIDES:
            for name, table in join.held(side).items():
                _write(fresh / f"{side}_{name}.arrow", table)
        _write(fresh / _NOT_GIVEN, join.not_given)
        (fresh / _MANIFEST).write_text(json.dumps(_manifest(join), indent=1))
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise StateError(f"The state of the join cannot be written to {target}: {error}.") from error


def _write(path: Path, table: pa.Table) -> None:
    # Files of one block could not hold batches with dictionaries of their own.
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
        writer.close()


def _manifest(join: StreamJoin) -> dict[str, Any]:
    return {"version": _VERSION, "join": _described(join.setup), **join.progress()}


def _described(setup: Setup) -> dict[str, Any]:
    """Return what a join is, as plain data."""
    schemas = {
        f"{side}_schema": base64.b64encode(setup.schema(side).serialize().to_pybytes()).decode() for side in _SIDES
    }
    return {
        "spec": setup.spec.to_dict(),
        "left": [order.to_dict() for order in setup.left],
        "right": [order.to_dict() for order in setup.right],
        "allow_unbounded": setup.allow_unbounded,
        "late": setup.late,
        **schemas,
    }


def restore(folder: str | PathLike[str], expected: StreamJoin | None) -> StreamJoin:
    """Return the join that was saved to a folder.

    Raises
    ------
    StateError
        If there is no such state, it is damaged, or of another join.
    """
    from juncture.streams.join import Setup, StreamJoin

    source = Path(folder)
    old = source.with_name(f".{source.name}.old")
    if not source.exists() and old.exists():
        # It was being replaced when the process ended.
        old.replace(source)
    with _damage(source):
        manifest = json.loads((source / _MANIFEST).read_text())
        if manifest["version"] != _VERSION:
            raise StateError(
                f"The state in {source} is of version {manifest['version']}, and this Juncture reads {_VERSION}."
            )
        described = manifest["join"]
        if expected is not None:
            _check_same(source, described, _described(expected.setup))
        left, right = (
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described[f"{side}_schema"]))) for side in _SIDES
        )
        spec = _SPECS[described["spec"]["kind"]].from_dict(described["spec"])
        ours, theirs = (tuple(Order.from_dict(each) for each in described[side]) for side in _SIDES)
        setup = Setup(spec, left, right, ours, theirs, described["allow_unbounded"], described["late"])
        join = StreamJoin(setup)
        tables = {
            side: {path.stem.removeprefix(f"{side}_"): _read(path) for path in source.glob(f"{side}_*.arrow")}
            for side in _SIDES
        }
        join.go_on(manifest, tables, _read(source / _NOT_GIVEN))
        return join


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_stream(file).read_all()


@contextmanager
def _damage(source: Path) -> Iterator[None]:
    """Say of anything that cannot be read that the state is damaged."""
    try:
        yield
    except FileNotFoundError:
        missing = "There is no state of a join in" if not (source / _MANIFEST).exists() else "A file is missing in"
        raise StateError(f"{missing} {source}. Expected a folder that StreamJoin.save(…) has written.") from None
    except (KeyError, TypeError, IndexError, ValueError, OSError, pa.ArrowException) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(
            f"The state in {source} is damaged, or was not written by StreamJoin.save(…): {error}."
        ) from error


def _check_same(source: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            shown = [_shown(name, each.get(name)) for each in (found, wanted)]
            raise StateError(
                f"The state in {source} is of another join: its {name} is {shown[0]}, and that of the join {shown[1]}."
            )


def _shown(name: str, value: Any) -> str:
    if name.endswith("_schema"):
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))
        return ", ".join(f"{field.name}: {field.type}" for field in schema)
    return str(value)


def with_marks(batches: Iterator[tuple[pa.RecordBatch, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as one table, with a column of marks besides."""
    marked = [
        batch.append_column(pa.field(_MATCHED, pa.bool_()), pa.array(np.asarray(mask, np.bool_)))
        for batch, mask in batches
    ]
    return pa.Table.from_batches(marked, schema.append(pa.field(_MATCHED, pa.bool_())))


def without_marks(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Yield the rows and marks that `with_marks` was given."""
    for batch in table.to_batches():
        yield batch.select(batch.schema.names[:-1]), batch.column(_MATCHED).to_numpy(zero_copy_only=False)
