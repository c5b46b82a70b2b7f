"""Grids and interpolated tables of this process's libraries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.inputs.file_tables import open_files
from juncture.inputs.files import Files
from juncture.inputs.frames import Joined
from juncture.inputs.kinds import kind_of
from juncture.inputs.tables import InputTable, read_table
from juncture.kernels.array_types import Ints
from juncture.local.many.grid import grid_rows, values_between
from juncture.local.many.plan import plan
from juncture.planner.statistics import Resources
from juncture.runtime.parquet import ParquetSource
from juncture.spec.resolved import Resolved
from juncture.spec.schema import OutputColumn
from juncture.spec.spines import InterpolatedColumns, Interpolation, ResolvedGrid


def opened(table: Any, _session: None) -> InputTable:
    """Return an input with all of its rows."""
    if kind_of(table, "left") == "path":
        files = open_files(Files.of(table))
        given = files if isinstance(files, InputTable) else read_table(_rows_of(files), "left")
    else:
        given = read_table(table, "left")
    if given.table is not None:
        return given
    assert given.batches is not None
    return replace(given, table=pa.Table.from_batches(given.batches(), given.schema))


def grid(resolved: ResolvedGrid, given: InputTable) -> Any:
    """Return a grid as a table of its data's library."""
    table = given.table
    assert table is not None
    rows, values = grid_rows(resolved, table)
    made = pa.table([values], names=[resolved.on])
    if given.frame is not None:
        whole = _frame_of(given, list(resolved.by), rows, made)
        # The labels of the rows that keys were first in mean nothing here.
        return given.restore(whole.reset_index(drop=True) if hasattr(whole, "reset_index") else whole)
    keys = table.select(list(resolved.by)).take(pa.array(rows))
    fields = [*(given.schema.field(name) for name in resolved.by), pa.field(resolved.on, resolved.type)]
    return given.restore(pa.Table.from_arrays([*keys.columns, *made.columns], schema=pa.schema(fields)))


def interpolate(
    spec: Interpolation, lines: InterpolatedColumns, given: InputTable, right: InputTable, resources: Resources
) -> Any:
    """Return a table with values on lines between the rows of another."""
    assert given.table is not None
    assert right.table is not None
    own = given.table.select(given.schema.names)
    rows = plan(own, spec.tables(right.table.select(right.schema.names)), resources).execute()
    made = pa.table(values_between(lines, rows), names=[name for _, name in lines.columns])
    if given.frame is not None:
        return given.restore(_frame_of(given, given.schema.names, np.arange(own.num_rows, dtype=np.int64), made))
    for name in made.column_names:
        own = own.append_column(name, made.column(name))
    return given.restore(own)


def _rows_of(source: ParquetSource) -> pa.Table:
    return pa.Table.from_batches([batch for _, batch in source.scan(source.schema.names)], source.schema)


def _frame_of(given: InputTable, names: list[str], rows: Ints, made: pa.Table) -> Any:
    """Return rows of a library's table, with further columns, as a table of the library."""
    assert given.frame is not None
    output = [OutputColumn(name, "left", name) for name in names]
    output += [OutputColumn(name, "right", name) for name in made.column_names]
    join = Resolved(
        spec=None,
        how="left",
        left_schema=given.schema,
        right_schema=made.schema,
        left_by=(),
        right_by=(),
        output=tuple(output),
    )
    return given.frame.joined(None, Joined(join=join, left=rows, right=None, columns=made))
