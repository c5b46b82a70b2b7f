"""The case files: small tables with the answer that each join has to give."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from juncture import errors
from juncture.spec.resolved import Resolved
from support.kinds import SPECS, Spec
from support.tables import difference, read_table

__all__ = ["Case", "check_case", "read_cases"]

CASES = Path(__file__).parent.parent / "cases"


@dataclass(frozen=True)
class Case:
    """One join of a case file.

    Attributes
    ----------
    name
        The file and what the case shows.
    spec, left, right
        The join.
    expected
        Its rows, in the order of an in-process join; None where it has to fail.
    error
        The error that it has to raise instead.
    no_spark
        Why Spark cannot hold these tables, where their types do not say so.
    """

    name: str
    spec: Spec
    left: pa.Table
    right: pa.Table
    expected: pa.Table | None
    error: type[Exception] | None
    no_spark: str | None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def resolved(self) -> Resolved | None:
        """The join of these schemas; None where they already tell that it cannot be."""
        try:
            return self.spec.resolve(self.left.schema, self.right.schema)
        except errors.JunctureError:
            return None


def check_case(case: Case, join: Callable[[Spec, pa.Table, pa.Table], pa.Table]) -> None:
    """Assert that a join in-process gives the rows of a case in their order, or raises its error."""
    if case.error is not None:
        with pytest.raises(case.error):
            join(case.spec, case.left, case.right)
        return
    problem = difference(join(case.spec, case.left, case.right), case.expected, ordered=True)
    assert problem is None, problem


@cache
def read_cases(kind: str) -> list[Case]:
    """Return the cases of a kind of join. A file's own ``left`` and ``right`` stand in where a case has none."""
    return [case for path in sorted((CASES / kind).glob("*.toml")) for case in read_file(kind, path)]


def read_file(kind: str, path: Path) -> list[Case]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    shared = {side: content[side] for side in ("left", "right") if side in content}
    return [read_case(kind, path.stem, shared | values) for values in content["case"]]


def read_case(kind: str, concern: str, values: dict[str, Any]) -> Case:
    unknown = values.keys() - {"name", "join", "left", "right", "expected", "error", "spark"}
    assert not unknown, f"{values['name']}: {unknown}"
    assert ("expected" in values) != ("error" in values), values["name"]
    return Case(
        name=f"{kind} {concern}: {values['name']}",
        spec=SPECS[kind].from_dict(values["join"]),
        left=read_table(values["left"]),
        right=read_table(values["right"]),
        expected=read_table(values["expected"]) if "expected" in values else None,
        error=getattr(errors, values["error"]) if "error" in values else None,
        no_spark=values.get("spark"),
    )
