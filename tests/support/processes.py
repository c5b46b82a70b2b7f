"""Processes that tests start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

import pytest

__all__ = ["in_new_process", "no_session"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

IMPORTED = ["juncture.local.kinds", "juncture.spark.asof.plan", "juncture.spark.inequality.plan"]


def in_new_process(
    function: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Call a function in a process that has done nothing before but import: what it takes is the function's.

    It is forked from one that has imported what joins do, which takes longer than many a join.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments, **named).result()


@contextmanager
def no_session() -> Iterator[None]:
    """Hide the Spark session of this process from those started meanwhile, which would take it for their own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_TESTING"):
            patch.delenv(name, raising=False)
        yield
