"""Files with mistakes: each is answered with its line and the mending, without Spark and without reading rows.

The first line of each file says on which line the mistake is, and what of the answer has to be there.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture import PipelineError
from juncture.cli.main import app

FILES = sorted((Path(__file__).parent / "bad").glob("*.toml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sources, good and bad."""
    folder = tmp_path_factory.mktemp("bad")
    trades = pa.table({"ts": [1], "symbol": ["a"], "amount": [10]})
    pq.write_table(trades, folder / "trades.parquet")
    pq.write_table(pa.table({"ts": [1], "symbol": ["a"], "bid": [1.0]}), folder / "quotes.parquet")
    pq.write_table(trades, folder / "taken.parquet")
    pq.write_table(pa.table({"ts": [1], "tags": [["a"]]}), folder / "tagged.parquet")
    (folder / "trades.dat").write_text("1")
    (folder / "people.csv").write_text("id,born\n1,2000-01-01\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "empty.csv").write_text("")
    (folder / "broken.parquet").write_text("PAR1")
    (folder / "broken.json").write_text('{"a": 1}\n{"a": \n')
    (folder / "papers").mkdir()
    (folder / "papers" / "letter.docx").write_text("Dear")
    with pa.ipc.new_file(str(folder / "trades.arrow"), trades.schema) as writer:
        writer.write_table(trades)
    return folder


def problem(file: Path, folder: Path) -> PipelineError:
    copy = folder / "juncture.toml"
    shutil.copy(file, copy)
    with pytest.raises(PipelineError) as caught:
        jn.Pipeline.from_toml(copy).check(engine="spark")
    return caught.value


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_mistake_is_answered_at_its_line(folder, file):
    line, _, expected = file.read_text().partition("\n")[0].removeprefix("# ").partition(": ")
    found = problem(file, folder).problems
    assert (found[0].line, expected in found[0].message) == (int(line), True), found
    assert len(found) == 1


def test_there_are_many_of_them():
    assert len(FILES) >= 50


def test_all_mistakes_are_said_at_once(folder):
    text = '[sources.trades]\npth = "trades.parquet"\n[steps.a]\nfrom = "b"\n[sinks.out]\nfrom = "c"\npath = "x.csv"\n'
    (folder / "several.toml").write_text(text)
    with pytest.raises(PipelineError) as caught:
        jn.Pipeline.from_toml(folder / "several.toml")
    assert [each.line for each in caught.value.problems] == [2, 4, 6]


def test_the_command_shows_the_place_and_starts_no_spark(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shutil.copy(Path(__file__).parent / "bad" / "missing_by.toml", "juncture.toml")
    loaded = set(sys.modules)
    for command in ("check", "run"):
        done = CliRunner().invoke(app, [command])
        assert done.exit_code == 2
        assert re.search(r"juncture\.toml:10: steps\.priced\.by: .*'symbl'", done.output)
    assert "juncture.pipeline.spark" not in set(sys.modules) - loaded
