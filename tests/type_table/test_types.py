"""Every type in every role works or is refused as docs/reference/types.md says, and that has every type there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from type_table.arrow import ARROW, ARROW_NESTED
from type_table.in_process import InProcess
from type_table.outcomes import Library, outcomes
from type_table.page import ERRORS, PAGE, PREFACE, page, section
from type_table.pandas import PANDAS, PANDAS_ARROW
from type_table.polars import POLARS
from type_table.spark import IN_SQL, THROUGH_ARROW, Spark

IN_PROCESS = (ARROW, ARROW_NESTED, PANDAS, PANDAS_ARROW, POLARS)


def check(library: Library) -> None:
    """Assert that the page has the outcomes of the types of a library."""
    notes = shown_notes()
    assert section(library.name, outcomes(library), notes) == shown()[library.name], "`make types` writes the page"
    assert notes == shown_notes(), "`make types` writes the page"


def shown() -> dict[str, str]:
    """Return the sections of the page by their titles."""
    body = PAGE.read_text(encoding="utf-8").removeprefix(PREFACE).partition(ERRORS)[0]
    parts = body.rstrip("\n").split("\n## ")
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts if part}


def shown_notes() -> list[str]:
    """Return the errors on the page, in order."""
    lines = PAGE.read_text(encoding="utf-8").partition(ERRORS)[2].splitlines()
    return [line.partition(". ")[2] for line in lines]


@pytest.mark.parametrize(
    "library",
    [
        # Through the other libraries, `test_inputs_types.py` takes every type in each run.
        pytest.param(library, marks=[] if library in (ARROW, ARROW_NESTED) else pytest.mark.nightly, id=library.name)
        for library in IN_PROCESS
    ],
)
def test_in_process(library: InProcess):
    """By the algorithm that is chosen."""
    check(replace(library, algorithms=None))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "library", [library for library in IN_PROCESS if library.algorithms], ids=lambda each: each.name
)
def test_in_process_by_every_algorithm(library: InProcess):
    check(library)


WAYS = {"in SQL": IN_SQL, "through Arrow": THROUGH_ARROW}


@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_on_spark(spark, way: str):
    check(Spark(spark, WAYS[way]))


def test_the_page_has_nothing_else():
    sections = shown()
    assert list(sections) == [*(library.name for library in IN_PROCESS), "Spark"]
    assert page(list(sections.values()), shown_notes()) == PAGE.read_text(encoding="utf-8")
