"""`import juncture` loads nothing heavy: engines load what they need when they are first used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ["pyspark", "py4j", "numba", "llvmlite", "pandas", "polars", "duckdb", "typer", "rich"]


def loaded_after(statements: str) -> list[str]:
    """Return which heavy modules a fresh interpreter has loaded after some statements."""
    program = f"{statements}\nimport json, sys\nprint(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(process.stdout)


def test_importing_loads_no_engine():
    assert loaded_after("import juncture") == []


@pytest.mark.parametrize(
    "statements",
    [
        "import juncture; juncture.Asof(on='ts', tolerance='5m').to_dict()",
        "from juncture import testing",
        "import juncture.errors",
        "import juncture.inputs.tables, juncture.inputs.files",
    ],
)
def test_specs_need_no_engine(statements):
    assert loaded_after(statements) == []


def test_joining_in_process_needs_no_spark():
    loaded = loaded_after(
        "import juncture, pyarrow as pa\n"
        "table = pa.table({'ts': [1, 2], 'v': [1, 2]})\n"
        "assert juncture.join_asof(table, table, on='ts').num_rows == 2"
    )
    assert not {"pyspark", "py4j", "polars", "duckdb"} & set(loaded)
