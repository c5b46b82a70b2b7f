"""`juncture view` as a filter: formats, epochs, several inputs, restarts, and errors with the line of the input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.main import app

TOTALS = "SELECT book, sum(copies) AS total FROM sales GROUP BY book"
JOINED = "SELECT s.book, b.price * s.copies AS paid FROM sales s JOIN books b ON s.book = b.book"
SALES = pa.table({"book": ["Emma", "Abbey"], "copies": [2, 1]})
CHANGES = pa.table({"book": ["Emma", "Emma", "Persuasion"], "copies": [2, 5, 7], "_weight": [-1, 1, 1]})
FIRST = {("Emma", 2, 1): 1, ("Abbey", 1, 1): 1}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(SALES, "sales.parquet")
    return tmp_path


def view(sql, *arguments):
    return CliRunner().invoke(app, ["-q", "view", sql, *arguments])


def rows(result):
    """Return the rows of an output of JSON lines."""
    assert result.exit_code == 0, result.output
    return [tuple(json.loads(line).values()) for line in result.stdout.splitlines()]


def write(path, table):
    if path.endswith(".arrow"):
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    elif path.endswith(".jsonl"):
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        csv.write_csv(table, path, csv.WriteOptions(delimiter="\t" if path.endswith(".tsv") else ","))


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "arrow"])
def test_changes_are_read_in_each_format_and_cut_into_epochs(ending):
    write(f"changes.{ending}", CHANGES)
    shared = ("--source", "sales=sales.parquet", "--changes", f"sales=changes.{ending}", "--output-format", "json")
    assert set(rows(view(TOTALS, *shared))) == {
        *FIRST, ("Emma", 2, -1), ("Emma", 5, 1), ("Persuasion", 7, 1)
    }  # fmt: skip
    result = rows(view(TOTALS, *shared, "--epoch-rows", "2", "--epochs"))
    assert [row for row in result if row[3] == 1] == [(*row, 1) for row in FIRST]
    assert {row for row in result if row[3] > 1} == {("Emma", 2, -1, 2), ("Emma", 5, 1, 2), ("Persuasion", 7, 1, 3)}


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "arrow"])
def test_changes_are_written_in_each_format(form):
    write("changes.csv", CHANGES)
    result = view(TOTALS, "--source", "sales=sales.parquet", "--changes", "changes.csv", "--output-format", form)
    assert result.exit_code == 0, result.output
    if form == "arrow":
        table = pa.ipc.open_stream(result.stdout_bytes).read_all()
    elif form == "json":
        table = pa.Table.from_pylist([json.loads(line) for line in result.stdout.splitlines()])
    else:
        options = csv.ParseOptions(delimiter="\t" if form == "tsv" else ",")
        table = csv.read_csv(io.BytesIO(result.stdout_bytes), parse_options=options)
    totals = {}
    for book, total, weight in zip(*table.to_pydict().values(), strict=True):
        totals[book, int(total)] = totals.get((book, int(total)), 0) + weight
    assert {row for row, weight in totals.items() if weight} == {("Abbey", 1), ("Emma", 5), ("Persuasion", 7)}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arrow"])
def test_a_column_names_the_table_and_another_one_the_epoch(ending):
    several = pa.table(
        {
            "_table": ["books", "sales", "sales", "books", "books"],
            "book": ["Emma", "Emma", "Abbey", "Abbey", "Emma"],
            "copies": [None, 3, 2, None, None],
            "price": [4, None, None, 5, 4],
            "_weight": [1, 1, 1, 1, -1],
            "day": ["mon", "mon", "tue", "tue", "wed"],
        }
    )
    write(f"changes.{ending}", several)
    if ending == "jsonl":
        lines = [{name: value for name, value in row.items() if value is not None} for row in several.to_pylist()]
        Path("changes.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    result = view(
        JOINED,
        *("--columns", "sales=book string, copies bigint", "--columns", "books=book string, price bigint"),
        *("--changes", f"changes.{ending}", "--epoch-by", "day", "--epochs", "--output-format", "json"),
    )
    assert rows(result) == [("Emma", 12, 1, 2), ("Abbey", 10, 1, 3), ("Emma", 12, -1, 4)]


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "arrow"])
def test_bytes_and_line_breaks_that_are_written_can_be_read(form, folder):
    values = {"t": ["a\nb", 'say "a\n\n"', None, ",\t;"], "b": [b"\x00\xff\n", None, b"", b"plain"]}
    table = pa.table(values, pa.schema({"t": pa.string(), "b": pa.binary()}))
    pq.write_table(table, "first.parquet")
    Path("none.jsonl").touch()
    select = ("SELECT t, b FROM x", "--columns", "x=t string, b binary", "--output-format", form)
    written = view(*select[:1], "--source", "x=first.parquet", "--changes", "none.jsonl", *select[3:]).stdout_bytes
    Path("changes").write_bytes(written)
    again = view(*select, "--changes", "changes", "--format", form, "-o", str(folder / "out"))
    assert again.exit_code == 0, again.output
    found = pq.read_table(sorted((folder / "out").glob("*.parquet"))).select(["t", "b"])
    assert sorted(found.to_pylist(), key=str) == sorted(table.to_pylist(), key=str)


def test_tables_without_changes_are_static_and_inputs_take_turns():
    Path("books.csv").write_text("book,price\nEmma,4\n")
    Path("a.jsonl").write_text('{"book": "Emma", "copies": 1}\n' * 2)
    Path("b.csv.gz").write_bytes(pa.compress(b"book,copies\nEmma,3\n", "gzip", asbytes=True))
    shared = ("--source", "books=books.csv", "--columns", "sales=book string, copies bigint", "--output-format", "json")
    result = view(JOINED, *shared, "--changes", "sales=a.jsonl", "--changes", "sales=b.csv.gz")
    assert sorted(rows(result)) == [("Emma", 4, 2), ("Emma", 12, 1)]
    assert "names table 'book'" in view(JOINED, *shared, "--changes", "book=a.jsonl").stderr


def test_a_state_is_continued_and_each_change_is_applied_and_written_once():
    write("changes.csv", CHANGES)
    shared = (
        "--source",
        "sales=sales.parquet",
        "--changes",
        "changes.csv",
        "--state",
        "state",
        "--output-format",
        "json",
    )
    assert len(rows(view(TOTALS, *shared))) == 5
    assert rows(view(TOTALS, *shared)) == []
    with Path("changes.csv").open("a") as file:
        file.write("Emma,1,1\n")
    assert set(rows(view(TOTALS, *shared))) == {("Emma", 5, -1), ("Emma", 6, 1)}
    Path("changes.csv").write_text("book,copies\nEmma,1\n")
    failed = view(TOTALS, *shared)
    assert failed.exit_code == 2
    assert "changes.csv has 1 rows, but the state has applied 4" in failed.stderr
    assert set(rows(view(TOTALS, *shared, "--continued"))) == {("Emma", 6, -1), ("Emma", 7, 1)}
    # An epoch that was applied but not written is written.
    Path("state/written").write_text(f"{3:020d}\n")
    assert set(rows(view(TOTALS, *shared, "--continued"))) == {("Emma", 6, -1), ("Emma", 7, 1), ("Emma", 8, 1)} | {
        ("Emma", 7, -1)
    }


def test_a_folder_has_a_file_for_each_epoch():
    write("changes.csv", CHANGES)
    shared = ("--source", "sales=sales.parquet", "--changes", "changes.csv", "--epoch-rows", "2", "--state", "state")
    assert view(TOTALS, *shared, "-o", "out").exit_code == 0
    assert view(TOTALS, *shared, "-o", "out").exit_code == 0
    files = sorted(Path("out").iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [2, 2, 1]


def test_a_table_with_an_order_is_forgotten_and_explained():
    Path("in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in (3, 20, 16, 14, 9)))
    query = "SELECT n // 10 AS w, count(*) AS c FROM s GROUP BY ALL"
    shared = ("--columns", "s=n bigint", "--changes", "s=in.jsonl", "--epoch-rows", "1", "--output-format", "json")
    ordered = (*shared, "--order", "s=n", "--delay", "s=5")
    assert [row for row in rows(view(query, *ordered)) if row[0] == 1] == [(1, 1, 1)]
    repaired = rows(view(query, *ordered, "--late", "s=repair:2", "--final-rows", "forget"))
    assert sorted(row for row in repaired if row[0] == 1) == [(1, 1, -1), (1, 1, 1), (1, 2, 1)]
    assert "'n' is 14, but the frontier is 15" in view(query, *ordered, "--late", "s=error").stderr
    result = view(query, *ordered, "--explain-format", "json")
    (retained,) = [each for each in json.loads(result.stderr)["operators"] if each["operator"] == "rows of s"]
    assert retained["retention"] == "forgets rows when n < frontier of s"


WRONG = {
    "CSV": ("book,copies\nEmma,3\n\nEmma,x\nEmma,y\n", "JN-FILE-DAMAGED", "in line 4 of in cannot be read"),
    "JSON": ('{"book": "Emma"}\n{"book": 1}\n', "JN-FILE-DAMAGED", "in line 2 of in cannot be read"),
    "no JSON": ('{"book": "Emma"}\n\n{"book\n', "JN-FILE-DAMAGED", "in line 3 of in cannot be read"),
    "open quote": ('book,copies\nEmma,1\n"Emma,2\nAbbey,3\n', "JN-FILE-DAMAGED", "cannot be read"),
    "field": ("book,copies\nEmma,1,1\n", "JN-FILE-DAMAGED", "in line 2 of in cannot be read"),
    "header": ("book,copie\nEmma,1\n", "JN-SCHEMA-DIFFERENT", "Column 'copie' of in is not a column of sales"),
    "missing": ("book\nEmma\n", "JN-COLUMN-MISSING", "Column 'copies' is missing from the header of in"),
    "unknown": ('{"book": "Emma"}\n{"boo": "Emma"}\n', "JN-SCHEMA-DIFFERENT", "The epoch is lines 1 to 2 of in."),
    "delete": ("book,copies,_weight\nEmma,9,-1\n", "JN-DELETE-UNMATCHED", "The epoch is line 2 of in."),
    "kind": ("book,copies,_change_type\nEmma,9,insrt\n", "JN-CHANGE-VALUE", "The epoch is line 2 of in."),
    "parquet": ("PAR1\n", "JN-FILE-FORMAT", "in is Parquet"),
    "no UTF-8": ("\xe4,b\n1,2\n", "JN-FILE-DAMAGED", "in cannot be read"),
    "arrow": ("\xff\xff\xff\xff\n", "JN-FILE-DAMAGED", "in cannot be read"),
}


@pytest.mark.parametrize(("text", "name", "message"), WRONG.values(), ids=WRONG)
def test_an_error_names_the_line(text, name, message):
    Path("in").write_bytes(text.encode("latin-1"))
    result = view(TOTALS, "--source", "sales=sales.parquet", "--changes", "in")
    assert result.exit_code == 2, result.output
    assert name in result.stderr
    assert message in result.stderr


def test_an_unknown_table_is_named_with_its_line():
    Path("in.csv").write_text("_table,book,copies\nsales,Emma,1\nsale,Emma,1\n")
    shared = ("--source", "sales=sales.parquet", "--columns", "other=book string, copies bigint")
    assert "Column '_table' is 'sale' in line 3 of in.csv" in view(TOTALS, *shared, "--changes", "in.csv").stderr


ARGUMENTS = {
    "no name": ("--source", "sales.parquet"),
    "twice": ("--source", "sales=sales.parquet", "--source", "sales=sales.parquet"),
    "no file": ("--source", "sales=nothing.csv"),
    "both": ("--source", "sales=sales.parquet", "--columns", "sales=book string"),
    "no type": ("--columns", "sales=book strin"),
    "epochs": ("--source", "sales=sales.parquet", "--epoch-rows", "1", "--epoch-by", "day"),
    "format": ("--source", "sales=sales.parquet", "--format", "xml"),
    "output": ("--source", "sales=sales.parquet", "--output-format", "parquet"),
    "explain": ("--source", "sales=sales.parquet", "--explain-format", "xml"),
    "order": ("--source", "sales=sales.parquet", "--order", "sale=copies"),
    "delay": ("--source", "sales=sales.parquet", "--delay", "sales=5"),
    "unit": ("--source", "sales=sales.parquet", "--order", "sales=copies", "--delay", "sales=5s"),
    "late": ("--source", "sales=sales.parquet", "--order", "sales=copies", "--late", "sales=repair"),
    "rule": ("--source", "sales=sales.parquet", "--order", "sales=copies", "--late", "sales=never"),
    "final": ("--source", "sales=sales.parquet", "--final-rows", "drop"),
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_wrong_arguments_are_refused_before_changes_are_read(arguments):
    write("changes.csv", CHANGES)
    result = view(TOTALS, *arguments, "--changes", "changes.csv")
    assert result.exit_code == 2, result.output
    assert "JN-" in result.stderr
    assert result.stdout == ""


def test_a_pipe_that_does_not_end_gives_each_epoch_at_once(folder):
    os.mkfifo("books.jsonl")
    command = [
        *(sys.executable, "-m", "juncture", "-q", "view", JOINED, "--columns", "sales=book string, copies bigint"),
        *("--columns", "books=book string, price bigint", "--changes", "sales=-", "--changes", "books=books.jsonl"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        # Opened for reading too, so that it does not wait for a command that failed.
        with os.fdopen(os.open(folder / "books.jsonl", os.O_RDWR), "w") as books:
            books.write('{"book": "Emma", "price": 4}\n')
            books.flush()
            process.stdin.write("book,copies\nEmma,2\nEmma,")
            process.stdin.flush()
            assert process.stdout.readline() == '"book","paid","_weight"\n'
            assert process.stdout.readline() == '"Emma",8,1\n'
            process.stdin.write("3\n")
            process.stdin.flush()
            assert process.stdout.readline() == '"Emma",12,1\n'
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
