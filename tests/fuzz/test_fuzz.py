"""The fuzz run itself: it finds a defect, makes the case small, and prints a script that fails as the case did."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from fuzz.joins.cases import random_case
from fuzz.joins.judge import judge
from fuzz.joins.script import script
from fuzz.run import Settings, main, run_cases, scratch
from fuzz.text import table_text
from juncture.local import kinds
from juncture.spec.equi import Equi

NAMES = {"pa": pa, "Decimal": Decimal, "nan": float("nan"), "inf": float("inf")}


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Keep what scripts write away from other files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def losing_rows(monkeypatch):
    """Have equality joins lose the last row of every batch that has several."""
    runners = kinds.RUNNERS[Equi]

    def losing(run: kinds.Runner, *arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in run(*arguments):
            yield batch.slice(0, batch.num_rows - (batch.num_rows > 2))

    changed = {name: partial(losing, run) for name, run in runners.items()}
    monkeypatch.setattr(kinds, "RUNNERS", {**kinds.RUNNERS, Equi: changed})


def run_script(text: str) -> None:
    """Run what a user would paste."""
    try:
        exec(compile(text, "script", "exec"), {})
    finally:
        mock.patch.stopall()


def first_that_fails(settings: Settings) -> int:
    """Return the number of the first case that fails with wrong rows."""
    with scratch() as folder:
        for number in range(1_000):
            case = random_case(settings.seed, number)
            if case.join.kind == "equi" and judge(case, folder).signature.endswith("wrong rows"):
                return number
    raise AssertionError("No case fails.")


def test_a_seed_and_a_number_are_one_case():
    for number in range(50):
        assert repr(random_case(3, number)) == repr(random_case(3, number))
    assert repr(random_case(3, 1)) != repr(random_case(4, 1)) != repr(random_case(4, 1, "spark"))


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_script_makes_the_tables_of_its_case(engine):
    for number in range(150):
        join = random_case(5, number, engine).join
        for table in (join.left, join.right):
            wanted, made = table.arrow(), eval(table_text(table), NAMES)
            assert made.schema.equals(wanted.schema, check_metadata=True)
            assert made.num_rows == wanted.num_rows == table.num_rows
            for one, other in zip(made.columns, wanted.columns, strict=True):
                assert [str(chunk) for chunk in one.chunks] == [str(chunk) for chunk in other.chunks]
                assert [chunk.offset for chunk in one.chunks] == [chunk.offset for chunk in other.chunks]


def test_a_defect_is_found_made_small_and_printed(losing_rows):
    settings = Settings(seed=7)
    tally = run_cases(settings, [first_that_fails(settings)])
    [failure] = tally.failures.values()
    [text] = failure.scripts
    assert text.count("pa.chunked_array") <= 3
    with pytest.raises(AssertionError):
        run_script(text)


def test_the_scripts_of_right_answers_pass(tmp_path):
    outcomes = {number: judge(random_case(7, number), tmp_path) for number in range(20)}
    right = {number: outcome for number, outcome in outcomes.items() if outcome.status == "right"}
    assert len(right) > 5
    for number, outcome in right.items():
        run_script(script(random_case(7, number), outcome))


def test_a_case_that_fails_is_the_exit_status(losing_rows, capsys):
    number = first_that_fails(Settings(seed=7))
    assert main(["--seed", "7", "--shrink", "0", "--case", str(number)]) == 1
    assert f"Case {number} of seed 7" in capsys.readouterr().out
