"""Without any extra, joins of Arrow tables and files work, and everything else names the extra that it needs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

OPTIONAL = (
    *(
        "altair",
        "deltalake",
        "duckdb",
        "pandas",
        "polars",
        "psycopg",
        "pydantic",
        "pyiceberg",
        "pyspark",
        "rich",
        "rocksdict",
    ),
    *("sqlglot", "typer", "vl_convert"),
)
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", WITHOUT + textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_needs_three_libraries() -> None:
    needed = [Requirement(text) for text in requires("juncture") or ()]
    assert {each.name for each in needed if each.marker is None} == {"numba", "numpy", "pyarrow"}


def test_every_join_in_this_process_works_without_extras() -> None:
    joined = run(
        """
        import juncture as jn, pyarrow as pa, pyarrow.parquet as pq, tempfile
        left = pa.table({"ts": [1, 5, 9], "end": [2, 6, 9], "key": ["a", "b", "a"]})
        right = pa.table({"ts": [1, 4, 8], "end": [3, 7, 9], "key": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
        print(jn.join_asof(left, right, on="ts", by="key")["value"].to_pylist())
        print(jn.join_range(left, right, on="ts", lower=-4, upper=0, agg={"value": "mean"})["value_mean"].to_pylist())
        intervals = dict(left_interval=("ts", "end"), right_interval=("ts", "end"))
        print(jn.join_overlap(left, right, **intervals).num_rows)
        print(jn.join_where(left, right, "l.ts > r.ts AND l.key = r.key").num_rows)
        print(jn.join(left, right, on="key").num_rows)
        print(jn.join_many(left, {"a": jn.Right(right, jn.Asof(on="ts", by="key"), prefix="a_")}).num_rows)
        print(jn.plan(left, right, jn.Asof(on="ts")).match_report().matched)
        changes = jn.changes(left.schema, right.schema, jn.Equi(on="key"))
        print(sum(batch.num_rows for batch in changes.apply(left=left, right=right)))
        order = jn.Order("ts")
        stream = jn.stream(left.schema, right.schema, jn.Asof(on="ts"), left_order=order, right_order=order)
        print(type(stream).__name__)
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(right, folder + "/right.parquet")
            print(jn.join_asof(left, folder + "/right.parquet", on="ts")["value"].to_pylist())
        """
    )
    assert joined.splitlines() == [
        "[1.0, 2.0, 3.0]",
        "[1.0, 1.5, 3.0]",
        "2",
        "3",
        "5",
        "3",
        "3",
        "5",
        "StreamJoin",
        "[1.0, 2.0, 3.0]",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("jn.Pipeline", "juncture.Pipeline needs 'pydantic'"),
        ("jn.view(None, 'SELECT 1 AS a', sources={'t': pa.schema({'a': pa.int64()})})", "A view needs 'duckdb'"),
        ("jn.changes(schema, schema, jn.Equi(on='a'), state='folder')", "The state in 'folder' needs 'rocksdict'"),
        ("jn.postgres('host=db', {'left': 'a', 'right': 'b'})", "jn.postgres(…) needs 'psycopg'"),
        ("jn.into_postgres('host=db', 'a', 'a')", "jn.into_postgres(…) needs 'psycopg'"),
    ],
)
def test_what_is_missing_is_named_with_its_extra(call: str, message: str) -> None:
    extra = {"pydantic": "cli", "duckdb": "sql", "rocksdict": "changes", "psycopg": "postgres"}[message.split("'")[-2]]
    printed = run(
        f"""
        import juncture as jn, pyarrow as pa
        schema = pa.schema({{"a": pa.int64()}})
        try:
            {call}
        except jn.PlanError as error:
            print(error)
        """
    )
    assert printed.startswith(f"[JN-PACKAGE-MISSING] {message} (")
    assert printed.endswith(f"Run pip install 'juncture[{extra}]'.\n")


def test_the_command_line_names_its_extra() -> None:
    command = [sys.executable, "-c", WITHOUT + "import runpy; runpy.run_module('juncture', run_name='__main__')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "The command line needs 'typer'" in done.stderr
    assert "pip install 'juncture[cli]'" in done.stderr
