"""The joins of a run, and their correct result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from juncture_benchmarks.pairs import Answer, kept_answer

__all__ = ["TABLES", "TIMES", "WINDOW", "Table", "Task", "expected_answer", "found_answer", "write_tables"]

Ints = npt.NDArray[np.int64]

TIMES = 1 << 30
"""Times are below this."""
WINDOW = TIMES // 100
"""Length of a window."""

_ROW_GROUP = 250_000
_FORMAT = 1


@dataclass(frozen=True)
class Table:
    """One of the tables.

    Attributes
    ----------
    name
        Its name, which its columns in the answer begin with.
    kind
        ``"asof"``, ``"window"`` or ``"lookup"``.
    key
        The key: ``"user"`` and ``"item"`` are numbers, ``"shop"`` is text.
    """

    name: str
    kind: str
    key: str


TABLES = (
    *(Table(f"asof{number}", "asof", key) for number, key in enumerate(("user", "item", "shop", "user"))),
    *(Table(f"window{number}", "window", key) for number, key in enumerate(("user", "item", "shop"))),
    *(Table(f"lookup{number}", "lookup", key) for number, key in enumerate(("user", "item", "shop"))),
)
_ROWS_PER_KEY = {"user": 20, "item": 100, "shop": 1_000}
"""Number of rows of a table per key."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Ten tables to be joined to a spine.

    Attributes
    ----------
    folder
        Folder of ``spine.parquet`` and a Parquet file per table.
    """

    folder: str

    def path(self, name: str) -> str:
        """Return the file of a table."""
        return str(Path(self.folder) / f"{name}.parquet")


def write_tables(folder: Path, spine_rows: int, rows: int) -> Task:
    """Write the tables, if they are not there, and return what to do with them."""
    manifest, wanted = folder / "manifest.json", {"format": _FORMAT, "spine": spine_rows, "rows": rows}
    if not manifest.exists() or json.loads(manifest.read_text()) != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "answer.json").unlink(missing_ok=True)
        random = np.random.default_rng(0)
        keys = {key: random.integers(0, _keys(key, rows) * 5 // 4 + 1, spine_rows) for key in _ROWS_PER_KEY}
        columns = {"ts": random.integers(0, TIMES, spine_rows), **keys}
        _write(folder / "spine.parquet", columns)
        for each in TABLES:
            _write(folder / f"{each.name}.parquet", _columns(each, rows, random))
        manifest.write_text(json.dumps(wanted))
    return Task(folder=str(folder))


def _columns(table: Table, rows: int, random: np.random.Generator) -> dict[str, Ints]:
    value = random.integers(0, 1_000_000, rows)
    if table.kind == "lookup":
        return {table.key: random.permutation(rows), "value": value}
    # No two rows of a table are at one time, so that there are no ties.
    times = random.permutation(rows) * (TIMES // rows)
    return {"ts": times, table.key: random.integers(0, _keys(table.key, rows), rows), "value": value}


def _keys(key: str, rows: int) -> int:
    return max(rows // _ROWS_PER_KEY[key], 1)


def _write(path: Path, columns: dict[str, Ints]) -> None:
    arrays = {name: _shops(values) if name == "shop" else pa.array(values) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), path, row_group_size=_ROW_GROUP)


def _shops(numbers: Ints) -> pa.Array:
    return pa.array(np.char.add("shop-", np.char.zfill(numbers.astype("U9"), 9)).tolist(), pa.string())


def found_answer(table: pa.Table) -> Answer:
    """Boil an answer down: how many rows there are, and for each column how many values, and their sum."""
    sums: list[int] = []
    for name in sorted(name for name in table.column_names if name.startswith(("asof", "window", "lookup"))):
        column = table.column(name).cast(pa.int64())
        filled = column.fill_null(0).to_numpy()
        sums += [len(column) - column.null_count, int(filled.sum())]
    return Answer(rows=table.num_rows, sums=tuple(sums))


def expected_answer(task: Task) -> Answer:
    """Find the right answer in sorted arrays, or read it where an earlier call has left it."""
    return kept_answer(Path(task.folder) / "answer.json", lambda: _searched(task))


def _searched(task: Task) -> Answer:
    spine = _read(task.path("spine"))
    columns = dict[str, pa.Array]()
    for each in TABLES:
        rows = _read(task.path(each.name))
        asked, value = spine[each.key], rows["value"]
        if each.kind == "lookup":
            place = np.full(max(rows[each.key].max(), asked.max()) + 1, -1)
            place[rows[each.key]] = np.arange(len(value))
            found = place[asked]
            columns[each.name] = pa.array(value[found], mask=found < 0)
            continue
        order = np.argsort(rows[each.key] * TIMES + rows["ts"])
        places, value = (rows[each.key] * TIMES + rows["ts"])[order], value[order]
        end = np.searchsorted(places, asked * TIMES + spine["ts"], "right")
        if each.kind == "asof":
            there = (end > 0) & (places[end - 1] // TIMES == asked)
            columns[each.name] = pa.array(value[end - 1], mask=~there)
            continue
        first = np.searchsorted(places, asked * TIMES + np.maximum(spine["ts"] - WINDOW, 0), "left")
        running = np.concatenate([[0], np.cumsum(value)])
        columns[f"{each.name}_count"] = pa.array(end - first)
        columns[f"{each.name}_sum"] = pa.array(running[end] - running[first], mask=end == first)
    return found_answer(pa.table(columns))


def _read(path: str) -> dict[str, Ints]:
    table = pq.read_table(path)
    return {
        name: np.array([int(text[5:]) for text in column.to_pylist()]) if name == "shop" else column.to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
