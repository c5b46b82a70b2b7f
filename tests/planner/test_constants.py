"""Files of constants: what they change, and what may be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import SpecError
from juncture.planner.constants import Constants, constants_text, read_constants

TABLE = pa.table({"ts": [1, 2, 3]})
ASOF = jn.Asof(on="ts")


def test_the_planner_chooses_by_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "constants.toml"
    path.write_text("pass_ns = 1_000_000_000\n")
    assert "constants" not in jn.plan(TABLE, TABLE, ASOF).explain()
    assert jn.plan(TABLE, TABLE, ASOF).algorithm == "merge"
    monkeypatch.setenv("JUNCTURE_CONSTANTS", str(path))
    plan = jn.plan(TABLE, TABLE, ASOF)
    assert plan.algorithm == "probe"
    assert f"  constants  measured, from {path} (JUNCTURE_CONSTANTS)\n" in plan.explain()
    assert json.loads(plan.explain(format="json"))["resources"]["constants"] == str(path)
    monkeypatch.setenv("JUNCTURE_CONSTANTS", "")
    assert jn.plan(TABLE, TABLE, ASOF).algorithm == "merge"


def test_what_a_file_leaves_out_is_built_in(tmp_path: Path) -> None:
    path = tmp_path / "constants.toml"
    path.write_text(constants_text({"order_ns": 12.5, "stage_s": 0.5}, "two lines\nof comment"))
    assert read_constants(str(path)) == Constants(order_ns=12.5, stage_s=0.5, source=str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("order = 3", "has unknown constant 'order'. Did you mean 'order_ns'?", id="name"),
        pytest.param("source = 'me'", "has unknown constant 'source'", id="source"),
        pytest.param("order_ns = '3'", "has order_ns = '3'. Expected a number of nanoseconds above 0", id="text"),
        pytest.param("order_ns = true", "has order_ns = True. Expected a number", id="bool"),
        pytest.param("stage_s = -1.0", "has stage_s = -1.0. Expected a number of seconds above 0", id="negative"),
        pytest.param("order_ns = nan", "has order_ns = nan", id="nan"),
        pytest.param("order_ns = inf", "has order_ns = inf", id="infinite"),
        pytest.param("order_ns: 3", "is not TOML", id="no-toml"),
        pytest.param("[order_ns]\nx = 1", "has order_ns = {'x': 1}", id="table"),
    ],
)
def test_a_file_that_is_wrong_says_what_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    path = tmp_path / "constants.toml"
    path.write_text(text)
    monkeypatch.setenv("JUNCTURE_CONSTANTS", str(path))
    with pytest.raises(SpecError) as error:
        jn.plan(TABLE, TABLE, ASOF)
    assert said in str(error.value)
    assert "juncture calibrate" in str(error.value)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUNCTURE_CONSTANTS", "/nowhere/constants.toml")
    with pytest.raises(SpecError, match=r"JUNCTURE_CONSTANTS='/nowhere/constants\.toml' cannot be read"):
        jn.plan(TABLE, TABLE, ASOF)
