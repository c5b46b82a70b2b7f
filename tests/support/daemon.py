"""The process that Spark forks Python workers from, for tests.

Spark collects a worker's garbage after every task, and looks at all that Arrow, pandas and Numba have ever made each
time, which takes longer than a small task. Here what is left after one collection is not looked at again.
"""

import gc
from collections.abc import Mapping
from typing import Any

from pyspark.daemon import manager


def keep(phase: str, about: Mapping[str, Any]) -> None:
    if phase == "stop" and about["generation"] == 2:
        gc.freeze()


if __name__ == "__main__":
    gc.callbacks.append(keep)
    manager()
