"""The pages on pipelines: the files in the guide are right, and the reference has every key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from juncture.pipeline import model
from juncture.pipeline.read import read_file

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "guides" / "pipelines.md"
REFERENCE = DOCS / "reference" / "pipeline-file.md"
TABLES = [model.SourceSection, model.Derived, model.Check, model.SinkSection, model.Settings]


def test_its_file_is_right():
    text, kept, followed = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert list(read_file(text, "page")[0].steps) == ["large", "quoted"]
    assert tomllib.loads(text)["parameters"] == {"least": 10}
    assert read_file(kept, "page")[0].sinks["priced"].changes == "output/priced-changes"
    assert read_file(followed, "page")[0].sinks["rated"].connector


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_it_has_every_key(table):
    rows = " ".join(line.split("|")[1] for line in REFERENCE.read_text().splitlines() if line.startswith("| `"))
    keys = [field.alias or name for name, field in table.model_fields.items()]
    prefix = "pipeline." if table is model.Settings else ""
    assert [key for key in keys if f"`{prefix}{key}`" not in rows] == []
