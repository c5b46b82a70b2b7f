"""A connector for tests: tables are text files with a change per line, such as ``+ 1 Emma``."""

# ruff: noqa: ARG002, RUF012 - as the interface has it

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

import juncture as jn

SCHEMA = pa.schema({"id": pa.int64(), "book": pa.string()})


class JournalConnector(jn.Connector):
    """Files in a folder."""

    source_options = sink_options = {"folder": str}
    required = ("folder",)
    usage = 'table = "…" and options = { folder = "…" }.'

    def schema(self, table):
        return SCHEMA

    def rows(self, table):
        counts = Counter()
        for change in read(table):
            counts[change["id"], change["book"]] += change["_weight"]
        rows = [{"id": number, "book": book} for number, book in counts.elements()]
        return pa.Table.from_pylist(rows, SCHEMA).to_reader()

    def origin(self, table):
        return table.options["folder"]

    def source(self, tables, query):
        return JournalSource(tables)

    def sink(self, table):
        return JournalSink(path_of(table))


class JournalSource:
    """Reads one change of all tables at a time; the offset is the number of changes of each table."""

    def __init__(self, tables):
        self._tables = {table.name: table for table in tables}
        self.tables = dict.fromkeys(self._tables, SCHEMA)

    def snapshot(self, read_rows):
        return jn.Snapshot({name: SCHEMA.empty_table() for name in self._tables}, dict.fromkeys(self._tables, 0))

    def start(self, offset):
        self._offset = dict(offset)

    def next(self, rows, timeout_s):
        changes = {name: read(table)[self._offset[name] :] for name, table in self._tables.items()}
        self._offset = {name: self._offset[name] + len(each) for name, each in changes.items()}
        count = sum(map(len, changes.values()))
        batches = {name: pa.Table.from_pylist(each).to_batches() for name, each in changes.items() if each}
        return jn.SourceEpoch(batches, dict(self._offset), 1, count) if count else None

    def acknowledge(self, offset):
        pass

    def close(self):
        pass


class JournalSink:
    """Writes the changes of each epoch with its number."""

    def __init__(self, path):
        self._path = path

    def open(self, schema, state):
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return int(lines[-1].split()[0]) if lines else 0

    def write(self, epoch, changes):
        rows = [row for batch in changes for row in batch.to_pylist()]
        with self._path.open("a") as file:
            for row in sorted(rows, key=lambda row: row["_weight"]):
                weight = row.pop("_weight")
                file.write(f"{epoch} {'+' if weight > 0 else '-'} {' '.join(map(str, row.values()))}\n")

    def close(self):
        pass


def path_of(table):
    return Path(table.options["folder"], f"{table.table}.log")


def read(table):
    lines = [line.split() for line in path_of(table).read_text().splitlines()]
    return [{"id": int(number), "book": book, "_weight": int(f"{sign}1")} for sign, number, book in lines]
