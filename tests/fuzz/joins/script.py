"""A case as a script of Python to paste, which fails as the case does and needs nothing but the library."""

from __future__ import annotations

import inspect

from fuzz.compare import rows_of, shown, without_nan
from fuzz.joins.cases import Case
from fuzz.joins.forms import FORMS
from fuzz.kind import Outcome
from fuzz.tables import Table
from fuzz.text import table_text
from juncture.runtime.memory import MEMORY_BYTES
from support.frames import FRAMES, seen
from support.kinds import DEFINITIONS, SPECS
from support.small import SMALL

__all__ = ["script"]

_HEAD = """\
import re
import tempfile
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import juncture as jn
from juncture import testing as reference
from juncture.inputs.tables import read_table
from juncture.local.plan import plan
from juncture.planner.statistics import Resources
from juncture.runtime.threads import Sizes
from juncture.testing.rows import values

nan, inf = float("nan"), float("inf")
folder = Path(tempfile.mkdtemp())
"""

_OUTCOME = '''\
def outcome(join):
    """Return the columns and rows that a join gives, or that its data are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = join()
    except jn.DataError:
        return "DataError"
    return table.schema.names, table.schema.types, rows_of(table)
'''


def script(case: Case, outcome: Outcome | None = None) -> str:
    """Return the text of a script that runs a case, and asserts that its rows are those of the reference.

    Parameters
    ----------
    case
        The case.
    outcome
        Its outcome, which has the ways in which its tables were passed; None for those that were drawn.
    """
    forms = tuple((outcome.facts or {}).get("forms", ())) if outcome else ()
    forms = forms or case.forms
    functions = [
        shown,
        without_nan,
        rows_of,
        seen,
        *(FORMS[form] for form in dict.fromkeys(forms) if form != "as_table"),
    ]
    sides = zip(("left", "right"), forms, (case.join.left, case.join.right), strict=True)
    parts = [
        _HEAD,
        *(f"{inspect.getsource(function)}\n" for function in functions),
        _OUTCOME,
        *(_side(side, form, table) for side, form, table in sides),
        _spec(case),
        *([_check(case, forms)] if case.engine == "local" else [_check_on_spark(case, forms)]),
    ]
    return "\n".join(parts)


def _side(side: str, form: str, table: Table) -> str:
    """Return what makes the table of a side, and passes it in a form."""
    lines = [f"{side} = {table_text(table)}"]
    given = f"{form}({side}, folder / {side!r})" if form != "as_table" else side
    lines += [f"{side}_given = {given}"]
    if form in FRAMES:
        lines += ["# What the join sees of it.", f"{side} = seen({side}_given)"]
    return "\n".join(lines)


def _spec(case: Case) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in case.join.arguments.items())
    return f"spec = jn.{SPECS[case.join.kind].__name__}({arguments})\n"


def _check(case: Case, forms: tuple[str, ...]) -> str:
    said = f"jn.SideStats(rows={case.said_rows}, row_bytes=8)"
    stats = None if case.said_rows is None else f"jn.Stats(left={said}, right={said})"
    options = f"algorithm={case.algorithm!r}, stats={stats}"
    plan = f"jn.plan(left_given, right_given, spec, {options})"
    if case.is_small:
        resources = f"Resources(cores={case.cores}, memory_bytes={case.memory or MEMORY_BYTES}, sizes={SMALL})"
        plan = f"plan(spec, left_given, right_given, {options}, resources={resources})"
    definition = f"reference.{DEFINITIONS[SPECS[case.join.kind]].__name__}"
    lines = [f"expected = outcome(lambda: {definition}(spec.resolve(left.schema, right.schema), left, right))"]
    if case.in_batches or forms[0] not in FRAMES or "duckdb" in forms[0]:
        how = "batches().read_all()" if case.in_batches else "execute()"
        return "\n".join(
            [
                *lines,
                f"answer = outcome(lambda: {plan}.{how})",
                'assert answer == expected, f"{answer}\\n{expected}"',
                "",
            ]
        )
    return "\n".join(
        [
            *lines,
            f"answer = {plan}.execute()",
            'frame = left_given.collect() if hasattr(left_given, "collect") else left_given',
            'for name in frame.columns if spec.how not in ("right", "full") else []:',
            "    assert answer[name].dtype == frame[name].dtype, name",
            "# Columns of NumPy in pandas do not tell NaN from null.",
            'numpy = hasattr(answer, "index")',
            "answer = seen(answer)",
            "rows = rows_of(answer), expected[2]",
            "if numpy:",
            "    rows = [[[without_nan(cell) for cell in row] for row in each] for each in rows]",
            "found, wanted = map(list, rows)",
            'assert (answer.column_names, found) == (expected[0], wanted), f"{answer}\\n{expected}"',
            "",
        ]
    )


def _check_on_spark(case: Case, forms: tuple[str, ...]) -> str:
    definition = f"reference.{DEFINITIONS[SPECS[case.join.kind]].__name__}"
    lines = [
        "from juncture.spark.schema import spark_schema",
        "from juncture.spark.session.session import session_at",
        "",
        "spark = session_at('local[*]')",
    ]
    if "as_table" in forms:
        lines += [
            f"{side}_given = spark.createDataFrame({side} if {side}.num_rows else [], spark_schema({side}.schema))"
            f".repartition({case.partitions})"
            for side in ("left", "right")
        ]
    plan = f"jn.plan(left_given, right_given, spec, algorithm={case.algorithm!r}, spark=spark)"
    return "\n".join(
        [
            *lines,
            f"expected = outcome(lambda: {definition}(spec.resolve(left.schema, right.schema), left, right))",
            f"answer = outcome(lambda: {plan}.execute().toArrow())",
            'assert (answer[0], sorted(answer[2])) == (expected[0], sorted(expected[2])), f"{answer}\\n{expected}"',
            "",
        ]
    )
