"""A case of streams as a script to paste, which fails as the case does."""

from __future__ import annotations

import inspect

from fuzz.compare import rows_of, shown
from fuzz.kind import Outcome
from fuzz.streams.cases import StreamCase
from fuzz.streams.judge import COMPARED_MOST, operations
from fuzz.text import table_text
from support.kinds import DEFINITIONS, SPECS
from support.streams import SIDES, in_time

__all__ = ["script"]

_HEAD = """\
import datetime
import tempfile
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import juncture as jn
from juncture import testing as reference
from juncture.testing.rows import values

nan, inf = float("nan"), float("inf")
folder = Path(tempfile.mkdtemp())
"""


def script(case: StreamCase, outcome: Outcome | None = None) -> str:
    """Return the text of a script that runs a case, and asserts that its rows are those of the reference."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in case.join.arguments.items())
    lines = [
        *(inspect.getsource(function) for function in (shown, rows_of)),
        *(f"{side} = {table_text(getattr(case.join, side))}" for side in SIDES),
        f"spec = jn.{SPECS[case.join.kind].__name__}({arguments})",
        *([f"mock.patch({COMPARED_MOST!r}, {case.compared}).start()"] if case.compared is not None else []),
        "join = jn.stream(",
        "    left.schema,",
        "    right.schema,",
        "    spec,",
        *(f"    {side}_order=[{', '.join(f'jn.{order!r}' for order in case.orders(side))}]," for side in SIDES),
        "    allow_unbounded=True,",
        ")",
        "output = []",
        *(line for name, sides in operations(case) for line in _operation(name, sides)),
        "output += join.close()",
        "answer = rows_of(pa.Table.from_batches(output, join.schema))",
        *(_timely(case, side) for side in SIDES),
        f"definition = reference.{DEFINITIONS[SPECS[case.join.kind]].__name__}",
        "expected = rows_of(definition(spec.resolve(left.schema, right.schema), left_in_time, right_in_time))",
        'assert sorted(answer) == sorted(expected), f"{sorted(answer)}\\n{sorted(expected)}"',
        "",
    ]
    return _HEAD + "\n".join(lines)


def _operation(name: str, sides: dict) -> list[str]:
    if name == "push":
        slices = ", ".join(f"{side}={side}.slice({start}, {end - start})" for side, (start, end) in sides.items())
        return [f"output += join.push({slices})"]
    if name == "advance":
        return [f"output += join.advance({', '.join(f'{side}={values!r}' for side, values in sides.items())})"]
    return ['join.save(folder / "state")', 'join = jn.StreamJoin.restore(folder / "state", expected=join)']


def _timely(case: StreamCase, side: str) -> str:
    rows = [row for row, good in enumerate(in_time(getattr(case.join, side).arrow(), side, case.orders(side))) if good]
    parts = f"[{side}.slice(0, 0), *({side}.slice(row, 1) for row in {rows})]"
    return f"{side}_in_time = pa.concat_tables({parts})"
