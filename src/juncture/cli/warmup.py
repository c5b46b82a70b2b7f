"""`juncture warmup`: compile all kernels ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from juncture.cli.console import results
from juncture.cli.progress import step

if TYPE_CHECKING:
    from juncture.kernels.warmup import Warmup


def warmup() -> None:
    """Compile the kernels of all joins ahead of the first join.

    All processes on this machine use the compiled kernels, including Spark workers. On a cluster, run this command on
    each node or while building its image.
    """
    from juncture.kernels.warmup import warm_up
    from juncture.runtime.threads import available_cores

    with step("Compiling kernels") as compiling:
        done = warm_up(compiling.update, processes=available_cores())
    results().print(_summary(done), markup=False, soft_wrap=True)


def _summary(done: Warmup) -> str:
    """Return the outcome in words."""
    there = done.kernels - done.compiled
    text = f"Compiled {done.compiled} of {done.kernels} kernels in {done.seconds:.1f} s"
    if there:
        text = f"{text}, {there} were there" if done.compiled else f"All {there} kernels were there"
    if done.folders:
        return f"{text}, in {' and '.join(done.folders)}."
    return (
        f"{text}. No folder can be written to keep them, so each process compiles them anew: set NUMBA_CACHE_DIR to "
        "one that can."
    )
