"""The example of a pipeline that Spark itself runs, which has a join of ours in a view."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyspark
import pytest

import juncture as jn
from support.processes import no_session

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"


@pytest.mark.early
@pytest.mark.nightly
def test_spark_keeps_a_join_as_a_view(tmp_path):
    folder = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/quoted", (folder / "storage").as_uri()))
    home = Path(pyspark.__file__).parent
    with no_session():
        done = subprocess.run(
            [home / "bin" / "spark-pipelines", "run"],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-5_000:]
    quoted, margins = (ds.dataset(folder / "spark-warehouse" / name).to_table() for name in ("quoted", "margins"))
    trades, quotes = (
        pa.table(
            {"ts": [every * i for i in range(count)], "symbol": ["ab"[i % 2] for i in range(count)], "n": range(count)}
        )
        for every, count in ((3, 40), (2, 60))
    )
    expected = jn.join_asof(trades, quotes, on="ts", by="symbol", tolerance=5)
    assert sorted(quoted["bid"].to_pylist()) == sorted(expected["n_right"].to_pylist())
    wanted = pc.subtract(expected["n"], expected["n_right"])
    assert sorted(margins["margin"].to_pylist()) == sorted(wanted.to_pylist())
