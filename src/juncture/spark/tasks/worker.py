"""A Python worker of Spark, which runs one task after the other."""

from __future__ import annotations

import gc
import sys

_settled = 0


def settle() -> None:
    """Keep what has been imported out of the collection of garbage.

    Spark's workers look through all objects for garbage after each task. What this library imports is more than a
    hundred thousand of them, which live as long as the worker: that took as long as the work of a small task.
    """
    global _settled
    if len(sys.modules) != _settled:
        _settled = len(sys.modules)
        gc.collect()
        gc.freeze()
