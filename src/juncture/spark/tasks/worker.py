"""A Python worker of Spark, which runs tasks one after the other."""

from __future__ import annotations

import gc
import sys

_settled = 0


def settle() -> None:
    """Exclude imported objects from garbage collection.

    Spark's workers collect garbage after each task. The imports of this library create more than a hundred thousand
    permanent objects, whose traversal took as long as a small task.
    """
    global _settled
    if len(sys.modules) != _settled:
        _settled = len(sys.modules)
        gc.collect()
        gc.freeze()
