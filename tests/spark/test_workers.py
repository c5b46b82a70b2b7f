"""The Python of Spark's workers, which may not be able to run tasks."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import juncture as jn
from juncture import testing as reference
from juncture.errors import PlanError
from juncture.spark.session.session import Worker, check_session, no_answer
from support.engines import is_connect, to_spark
from support.tables import difference, read_table

TABLE = read_table("ts: int64 | k: string | n: int64\n1 | a | 1\n5 | a | 2\n8 | b | 3\nnull | b | 4")
ASOF, WHERE = jn.Asof(on="ts", by="k"), jn.Where("l.k = r.k AND l.ts <= r.ts")


def test_what_a_worker_lacks():
    assert Worker(sys.executable, jn.__version__).problem is None
    assert Worker("python3", jn.__version__, ("numba",)).problem.endswith("which cannot import numba.")
    assert f"with juncture 9.9.9, but this process has {jn.__version__}." in Worker("python3", "9.9.9").problem


SAID = {
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
    "version: 3.9 than that in driver: 3.11, PySpark cannot": "Spark's workers run Python 3.9, but this process "
    "runs Python 3.11.",
    "An error occurred.\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'pyspark'\n\n\tat "
    "org.apache.spark.Thing\n": "Spark's workers cannot run Python: ModuleNotFoundError: No module named 'pyspark'.",
    'java.io.IOException: Cannot run program "python3": error=2, No such file or directory': "Spark's workers run "
    "python3, which does not exist.",
    "Sandboxed.\nat org": "Spark's workers cannot run Python: Sandboxed.",
}


@pytest.mark.parametrize("message", SAID)
def test_workers_that_give_no_answer(message):
    assert no_answer(message) == SAID[message]


@pytest.fixture
def asked_anew():
    """Have sessions asked whose workers have been found to serve."""
    check_session.cache_clear()
    yield
    check_session.cache_clear()


def test_workers_with_another_version(spark, asked_anew, monkeypatch):
    monkeypatch.setattr(jn, "__version__", "0.0.0")
    frame = to_spark(spark, TABLE)
    for algorithm in ("auto", "range"):
        with pytest.raises(PlanError, match=r"with juncture \d\S+, but .* 0\.0\.0\. Before .* algorithm='window'"):
            jn.plan(frame, frame, ASOF, algorithm=algorithm)
    assert jn.plan(frame, frame, ASOF, lazy=True).jobs == ()


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "juncture":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture
def python_without_juncture(tmp_path: Path) -> Path:
    """Return what starts this Python as one that has no Juncture, and Spark's own workers in it."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    python = tmp_path / "python"
    start = f'PYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" -m pyspark.daemon "$@"'
    python.write_text(f"#!/bin/sh\nshift 2\n{start}\n")
    python.chmod(0o755)
    return python


def test_workers_without_juncture(spark, asked_anew, python_without_juncture, monkeypatch):
    """What a server's workers start is not for a client to change, so that with Spark Connect all is well."""
    refused = nullcontext()
    if not is_connect(spark):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python_without_juncture))
        refused = pytest.raises(PlanError, match=r"cannot import juncture\. Before Spark starts, set PYSPARK_PYTHON")
    frame = to_spark(spark, TABLE)
    with refused:
        jn.plan(frame, frame, ASOF)
    assert jn.plan(frame, frame, WHERE, algorithm="sql").jobs == ()
    answer = jn.plan(frame, frame, ASOF, algorithm="window").execute().toArrow()
    expected = reference.asof_join(ASOF.resolve(TABLE.schema, TABLE.schema), TABLE, TABLE)
    assert difference(answer, expected, ordered=False) is None
