"""Connectors of other packages: a pipeline is validated, run and maintained with a format that an entry point adds."""

from __future__ import annotations

from pathlib import Path

import pytest

import juncture as jn
from juncture import PipelineError

MODULE = Path(__file__).with_name("journal_connector.py")
PIPELINE = """
[sources.sales]
format = "{name}"
table = "sales"
options = {{ folder = "{folder}" }}

[sources.books]
format = "{name}"
table = "books"
options = {{ folder = "{folder}" }}

[steps.sold]
join = "equi"
left = "sales"
right = "books"
on = "book"

[sinks.sold]
from = "sold"
{sink}
"""
SINK = 'format = "{name}"\ntable = "sold"\nkey = "id"\noptions = {{ folder = "{folder}" }}'


@pytest.fixture
def install(tmp_path, monkeypatch, request):
    """Install a package with a connector of its own name, and return the name."""
    name = f"journal_{request.node.name.split('[')[-1].strip(']').replace(' ', '_')}"
    packages = tmp_path / "packages"
    about = packages / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[juncture.connectors]\n{name} = {name}:JournalConnector\n")
    (packages / f"{name}.py").write_text(MODULE.read_text())
    monkeypatch.syspath_prepend(packages)
    return name


def pipeline_of(folder: Path, name: str, text: str = PIPELINE, sink: str = SINK) -> jn.Pipeline:
    filled = text.format(name=name, folder=folder, sink=sink.format(name=name, folder=folder))
    (folder / "juncture.toml").write_text(filled)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


def write(folder: Path, table: str, *lines: str) -> None:
    with (folder / f"{table}.log").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_another_source_and_sink(tmp_path, install):
    write(tmp_path, "sales", "+ 1 Emma", "+ 2 Ulysses")
    write(tmp_path, "books", "+ 7 Emma")
    pipeline = pipeline_of(tmp_path, install)
    for more in ((), ("- 1 Emma", "+ 3 Emma")):
        write(tmp_path, "sales", *more)
        with pipeline.follow() as followers:
            while followers["sold"].step(0) is not None:
                pass
    assert (tmp_path / "sold.log").read_text().splitlines() == ["2 + 1 Emma 7", "3 - 1 Emma 7", "3 + 3 Emma 7"]
    batch = pipeline_of(tmp_path, install, sink='path = "sold.parquet"')
    assert batch.step("sold").to_pylist() == [{"id": 3, "book": "Emma", "id_right": 7}]


REFUSED = {
    "no table": ('table = "sales"\n', "", "needs table"),
    "no option": ("folder =", "fold =", "needs table"),
    "another option": ("{{ folder", "{{ more = 1, folder", "'more'"),
    "another type": ('"{folder}"', "1", "Expected str"),
    "another format": ('"{name}"', '"journals"', "Expected one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_section_that_does_not_fit_its_connector(tmp_path, install, case):
    old, new, message = REFUSED[case]
    with pytest.raises(PipelineError, match=message) as caught:
        pipeline_of(tmp_path, install, PIPELINE.replace(old, new, 1)).check(mode="changes")
    assert caught.value.problems[0].line > 1


def test_a_connector_that_cannot_be_loaded(tmp_path, install):
    (tmp_path / "packages" / f"{install}.py").write_text("import nothing_of_this_name")
    with pytest.raises(PipelineError, match="cannot be loaded"):
        pipeline_of(tmp_path, install)
