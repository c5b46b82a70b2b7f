"""The process that Spark forks Python workers from, for tests.

Spark collects a worker's garbage after every task, and looks at all that Arrow, pandas and Numba have ever made each
time, which takes longer than a small task. Here what is left after one collection is not looked at again. And what
joins import is there before a worker is forked: it would take each of them seconds, and a task that fails ends its
worker.
"""

import gc
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.daemon import manager

import juncture as jn
from support.engines import join_in_process

IMPORTED = ("pandas", "pyspark.worker", "pyspark.sql.pandas.serializers")
# Spark before 4.0 has no stateful operator that these could run in.
if find_spec("pyspark.sql.streaming.stateful_processor"):
    IMPORTED += ("juncture.hosting.changes", "juncture.hosting.processor", "juncture.hosting.streams")


def keep(phase: str, about: Mapping[str, Any]) -> None:
    if phase == "stop" and about["generation"] == 2:
        gc.freeze()


def load() -> None:
    """Import what tasks do, and load the kernels that most joins call.

    This starts no thread of Python's and none of Arrow's pools, which workers would not have after the fork.
    """
    for name in IMPORTED:
        import_module(name)
    table = pa.table({"ts": [1], "k": ["a"]})
    join_in_process(jn.Asof(on="ts", by="k"), table, table, "probe", threads=1)
    gc.collect()


if __name__ == "__main__":
    gc.callbacks.append(keep)
    load()
    manager()
