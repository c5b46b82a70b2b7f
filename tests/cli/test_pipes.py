"""Inputs that come by pipes, outputs that go to them, and what is said on the way."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.main import app

LEFT = pa.table({"id": ["a", "b"], "x": [1, 2]})
RIGHT = pa.table({"id": ["b", "c"], "y": [0.5, 1.5]})
JOINED = {"id": ["b"], "x": [2], "y": [0.5]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(LEFT, "left.parquet")
    pq.write_table(RIGHT, "right.parquet")
    return tmp_path


def equi(*arguments, left="left.parquet", right="right.parquet", root=(), given=None):
    return CliRunner().invoke(app, [*root, "join", "equi", left, right, "--on", "id", *arguments], input=given)


def written(table, row_format):
    sink = io.BytesIO()
    if row_format == "parquet":
        pq.write_table(table, sink)
    elif row_format.startswith("arrow"):
        make = pa.ipc.new_file if row_format == "arrow file" else pa.ipc.new_stream
        with make(sink, table.schema) as writer:
            writer.write_table(table)
    elif row_format == "json":
        sink.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    elif row_format == "json list":
        sink.write(json.dumps(table.to_pylist()).encode())
    else:
        csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if row_format == "tsv" else ","))
    return sink.getvalue()


@pytest.mark.parametrize("row_format", ["parquet", "arrow file", "arrow stream", "json", "json list", "csv", "tsv"])
def test_standard_input_is_known_by_how_it_begins(row_format):
    result = equi("-o", "-", left="-", given=written(LEFT, row_format))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == '"id","x","y"\n"b",2,0.5\n'


def test_standard_input_by_name():
    result = equi("--format", "csv", "--delimiter", ";", "-o", "-", left="-", given="id;x\nb;2\n", right="-")
    assert result.exit_code == 2
    assert "both -" in result.stderr
    csv.write_csv(RIGHT, "right.csv", csv.WriteOptions(delimiter=";"))
    result = equi("--format", "csv", "--delimiter", ";", "-o", "-", right="right.csv", left="-", given="id;x\nb;2\n")
    assert result.stdout == '"id","x","y"\n"b",2,0.5\n'


def test_a_name_is_for_what_does_not_say_it_itself(folder):
    result = equi("--format", "csv", "-o", "-", left="-", given="id,x\nb,2\n")
    assert result.stdout == '"id","x","y"\n"b",2,0.5\n', result.stderr
    (folder / "right").mkdir()
    (folder / "right.parquet").rename(folder / "right" / "part.parquet")
    result = equi("--format", "csv", "-o", "-", left="-", right="right", given="id,x\nb,2\n")
    assert result.stdout == '"id","x","y"\n"b",2,0.5\n', result.stderr


def test_nothing_comes():
    result = equi(left="-", given=b"")
    assert result.exit_code == 2
    assert "is an empty pipe" in result.stderr


def test_what_is_wrong_with_a_pipe_is_said_of_the_pipe():
    result = equi(left="-", given="id,x\nb,2,3\n")
    assert result.exit_code == 2
    assert "standard input cannot be read as CSV" in result.stderr
    assert ".piped" not in result.stderr
    assert "Reading standard input" in equi("--cast", "x=double", left="-", given="id,x\nb,2\n").stderr
    assert "Converting standard input" in equi("--cast", "x=double", left="-", given="id,x\nb,2\n").stderr


def test_no_input_is_read_while_the_other_is_missing():
    csv.write_csv(LEFT, "left.csv")
    result = equi(left="left.csv", right="nothing.csv")
    assert result.exit_code == 2
    assert "The right input nothing.csv does not exist" in result.stderr
    assert "Reading" not in result.stderr


def test_a_named_pipe(folder):
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: (folder / "pipe").write_bytes(written(LEFT, "csv")))
    writer.start()
    result = equi("-o", "-", left="pipe")
    writer.join()
    assert result.stdout == '"id","x","y"\n"b",2,0.5\n'
    assert "piped" not in result.stderr


def test_standard_output_in_each_format():
    assert equi("-o", "-", "--output-format", "json").stdout == '{"id": "b", "x": 2, "y": 0.5}\n'
    assert equi("-o", "-", "--output-format", "tsv").stdout == '"id"\t"x"\t"y"\n"b"\t2\t0.5\n'
    assert pa.ipc.open_stream(equi("-o", "-", "--output-format", "arrow").stdout_bytes).read_all().to_pydict() == JOINED
    assert pq.read_table(io.BytesIO(equi("-o", "-", "--output-format", "parquet").stdout_bytes)).to_pydict() == JOINED
    assert "Wrote 1 row to standard output" in equi("-o", "-").stderr
    assert "'parquet', 'csv', 'tsv', 'json', 'arrow'" in equi("-o", "-", "--output-format", "xml").stderr


def test_a_reader_that_goes_away_is_no_error(folder):
    rows = 200_000
    pq.write_table(pa.table({"id": range(rows)}), "many.parquet")
    command = [
        sys.executable,
        "-m",
        "juncture",
        "join",
        "equi",
        "many.parquet",
        "many.parquet",
        "--on",
        "id",
        "-o",
        "-",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == '"id"\n'
        process.stdout.close()
        assert process.stderr.read().count("rror") == 0


def test_no_column_is_cut_in_a_pipe():
    wide = pa.table({"id": ["b"], **{f"a_column_with_a_long_name_{each}": ["y" * 40] for each in range(20)}})
    pq.write_table(wide, "wide.parquet")
    result = equi(left="wide.parquet")
    assert result.stdout.count("y" * 40) == 20
    assert "more" not in result.stdout


def test_quiet_shows_results_only():
    result = equi("-o", "out.csv", "--explain", root=["--quiet"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert "does not exist" in equi(left="nothing.parquet", root=["-q"]).stderr


def test_quiet_says_nothing_of_kernels_that_are_compiled(monkeypatch):
    def compiled(*_, **__):
        logging.getLogger("juncture.kernels.compiled").info("Compiling kernels")

    monkeypatch.setattr("juncture.cli.run._show_rows", lambda *_: compiled() or {})
    assert "Compiling kernels" in equi().stderr
    assert "Compiling kernels" not in equi(root=["-q"]).stderr


def test_json_of_what_was_done():
    result = equi("-o", "out.parquet", "--explain", "--json")
    done = json.loads(result.stdout)
    assert (done["output"], done["output_rows"]) == ("out.parquet", 1)
    assert done["plan"]["algorithm"]
    assert json.loads(equi("--json").stdout) == {"first_rows": [{"id": "b", "x": 2, "y": 0.5}], "output_rows": 1}
    assert "standard output" in equi("-o", "-", "--json").stderr
    report = CliRunner().invoke(
        app, ["join", "asof", "left.parquet", "left.parquet", "--on", "x", "--report", "--json", "-o", "o.csv"]
    )
    assert json.loads(report.stdout)["report"]["matched"] == 2


def test_casts():
    pq.write_table(pa.table({"id": ["1", "2"]}), "text.parquet")
    pq.write_table(pa.table({"id": [2, 3]}), "number.parquet")
    result = equi("--cast", "id=bigint", "-o", "-", left="text.parquet", right="number.parquet")
    assert result.stdout == '"id"\n2\n'
    result = equi("--cast", "id=tinyint", left="left.parquet")
    assert result.exit_code == 2
    assert "--cast id: string cannot be converted to int8" in result.stderr


def test_types_and_text():
    Path("codes.csv").write_text("id,n\n00123,12345678901234567890123\n123,12345678901234567890124\n")
    assert equi("-o", "-", left="codes.csv", right="codes.csv").stdout.count("\n") == 3
    keyed = ["join", "equi", "codes.csv", "codes.csv", "--on", "n", "-o", "-"]
    assert CliRunner().invoke(app, keyed).stdout.count("\n") == 3
    assert equi("--type", "id=bigint", "-o", "-", left="codes.csv", right="codes.csv").stdout.count("\n") == 5
    assert equi("--all-text", "-o", "out.parquet", left="codes.csv", right="codes.csv").exit_code == 0
    assert pq.read_schema("out.parquet").field("n").type == pa.string()
    assert "id=decimal(30,0)" in equi("--type", "id", left="codes.csv").stderr
    assert "one ASCII character" in equi("--delimiter", "ab", left="codes.csv").stderr


@pytest.mark.parametrize(
    ("kind", "options", "column", "rows"),
    [
        ("asof", ("--on", "t"), "r", ["9"]),
        ("asof", ("--on", "t", "--type", "t=string"), "r", [None]),
        ("range", ("--on", "t", "--lower", "-5", "--upper", "0"), "r", ["9"]),
        ("overlap", ("--left-interval", "t", "u", "--right-interval", "t", "u"), "r", ["9"]),
        ("asof", ("--on", "k", "--type", "k=int", "--order-by", "t"), "r", ["10"]),
    ],
)
def test_what_orders_rows_is_no_text(kind, options, column, rows):
    Path("l.csv").write_text("t,u,k\n10,20,1\n")
    Path("r.csv").write_text("t,u,k,r\n9,11,1,09\n10,010,1,10\n" if "--order-by" in options else "t,u,k,r\n9,11,1,9\n")
    done = CliRunner().invoke(app, ["join", kind, "l.csv", "r.csv", *options, "--all-text", "-o", "out.parquet"])
    assert done.exit_code == 0, done.stderr
    assert pq.read_table("out.parquet")[column].to_pylist() == rows


@pytest.mark.parametrize("option", ["--type", "--cast"])
def test_types_of_no_column(option):
    result = equi(option, "idd=string", "-o", "out.csv")
    assert result.exit_code == 2
    assert f"{option} names column 'idd', which neither table has." in result.stderr
    assert "'id'" in result.stderr
    assert not Path("out.csv").exists()


def test_a_header_alone_is_a_table_without_rows():
    Path("empty.csv").write_text("id,z\n")
    result = equi("--how", "left", "-o", "-", right="empty.csv")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == '"id","x","z"\n"a",1,\n"b",2,\n'


def test_folders_that_stand_for_columns(folder):
    for year in (2025, 2026):
        (folder / "parts" / f"year={year}").mkdir(parents=True)
        (folder / "parts" / f"year={year}" / "a.csv").write_text(f"id\nb\nk{year}\n")
    result = equi("-o", "-", right="parts")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == '"id","x","year"\n"b",2,2025\n"b",2,2026\n'


def test_an_output_may_not_be_an_input(folder):
    for output, left in (("left.parquet", "left.parquet"), ("left.parquet", "l*.parquet"), (".", "left.parquet")):
        result = equi("-o", output, "--overwrite", left=left)
        assert result.exit_code == 2
        assert "an input of the join" in result.stderr
    assert pq.read_table("left.parquet").equals(LEFT)
