"""Grids and interpolated tables of this process's libraries."""

from __future__ import annotations

from collections.abc import Sequence
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
        opened_table = files if isinstance(files, InputTable) else read_table(_rows_of(files), "left")
    else:
        opened_table = read_table(table, "left")
    if opened_table.table is not None:
        return opened_table
    assert opened_table.batches is not None
    return replace(opened_table, table=pa.Table.from_batches(opened_table.batches(), opened_table.schema))


def grid(resolved: ResolvedGrid, table_input: InputTable) -> Any:
    """Return a grid as a table of its data's library."""
    table = table_input.table
    assert table is not None
    rows, values = grid_rows(resolved, table)
    added = pa.table([values], names=[resolved.on])
    if table_input.frame is not None:
        frame = _frame_of(table_input, list(resolved.by), rows, added)
        # The labels of the rows that keys were first in mean nothing here.
        return table_input.restore(frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame)
    keys = table.select(list(resolved.by)).take(pa.array(rows))
    fields = [*(table_input.schema.field(name) for name in resolved.by), pa.field(resolved.on, resolved.type)]
    return table_input.restore(pa.Table.from_arrays([*keys.columns, *added.columns], schema=pa.schema(fields)))


def interpolate(
    spec: Interpolation, lines: InterpolatedColumns, table_input: InputTable, right: InputTable, resources: Resources
) -> Any:
    """Return a table with values on lines between the rows of another."""
    assert table_input.table is not None
    assert right.table is not None
    table = table_input.table.select(table_input.schema.names)
    rows = plan(table, spec.tables(right.table.select(right.schema.names)), resources).execute()
    added = pa.table(values_between(lines, rows), names=[name for _, name in lines.columns])
    if table_input.frame is not None:
        return table_input.restore(
            _frame_of(table_input, table_input.schema.names, np.arange(table.num_rows, dtype=np.int64), added)
        )
    for name in added.column_names:
        table = table.append_column(name, added.column(name))
    return table_input.restore(table)


def _rows_of(source: ParquetSource) -> pa.Table:
    return pa.Table.from_batches([batch for _, batch in source.scan(source.schema.names)], source.schema)


def _frame_of(table_input: InputTable, names: list[str], rows: Ints, added: pa.Table) -> Any:
    """Return rows of a library's table, with further columns, as a table of the library."""
    output = [OutputColumn(name, "left", name) for name in names]
    output += [OutputColumn(name, "right", name) for name in added.column_names]
    return selected(table_input, rows, added, output)


def selected(table_input: InputTable, rows: Ints, added: pa.Table, output: Sequence[OutputColumn]) -> Any:
    """Return rows of a library's table, and columns of `added` where the output is not of the left table."""
    assert table_input.frame is not None
    join = Resolved(
        spec=None,
        how="left",
        left_schema=table_input.schema,
        right_schema=added.schema,
        left_by=(),
        right_by=(),
        output=tuple(output),
    )
    return table_input.frame.joined(None, Joined(join=join, left=rows, right=None, columns=added))
