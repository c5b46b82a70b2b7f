"""Compilation: at the first call, once on a machine, and without a place to keep the result."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

from juncture.kernels import compiled
from juncture.kernels.array_types import IntsOut


@pytest.fixture
def compilations(monkeypatch) -> list[bool]:
    """Note of each compilation whether its result was to be kept on disk."""
    made = []
    njit = numba.njit
    # What Numba compiles of its own at first.
    njit("int64(int64)")(lambda value: value)

    def noted(*arguments, cache=False, **options):
        made.append(cache)
        return njit(*arguments, cache=False, **options)

    monkeypatch.setattr(compiled.numba, "njit", noted)
    return made


@pytest.fixture
def logged(monkeypatch, caplog) -> pytest.LogCaptureFixture:
    """Catch all lines, also those that have been logged once already."""
    monkeypatch.setattr(compiled._compiler, "logged", set())
    caplog.set_level(logging.DEBUG, "juncture.kernels")
    return caplog


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """Keep what is compiled in a folder of the test's own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def doubled(interpreter_s: float = 0.0) -> compiled.Kernel:
    def double(values: IntsOut) -> None:
        """Double each value."""
        for i in range(len(values)):
            values[i] *= 2

    return compiled.Kernel(double, interpreter_s)


def test_a_kernel_is_compiled_once_when_it_is_first_called(compilations):
    double = doubled()
    assert double.__doc__ == "Double each value."
    assert compilations == []
    values = np.ones(4, np.int64)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(double, np.split(values, 4)))
    assert values.tolist() == [2] * 4
    assert compilations == [True]


def test_few_values_are_interpreted_until_it_took_some_time(cache):
    double, values = doubled(interpreter_s=0.05), np.ones(1_000, np.int64)
    calls = 0
    while double._machine_code is None:
        double(values)
        calls += 1
    assert (values == 1 << min(calls, 63) if calls < 64 else values == 0).all()
    assert calls > 2
    assert doubled().compile() == compiled.Compilation(is_new=False, folder=double.compile().folder)


@pytest.mark.parametrize("kernel_is_cached", [False, True])
def test_machine_code_is_used_for_many_values_and_from_the_cache(cache, kernel_is_cached):
    if kernel_is_cached:
        doubled().compile()
    double = doubled(interpreter_s=60.0)
    double(np.ones(2 if kernel_is_cached else 100_000, np.int64))
    assert double._machine_code is not None


@pytest.mark.parametrize("error", [RuntimeError("cannot cache function 'double'"), OSError(28, "No space left")])
def test_where_nothing_can_be_kept_kernels_still_run(monkeypatch, compilations, error):
    noted = compiled.numba.njit

    def refused(*arguments, cache=False, **options):
        if cache:
            raise error
        return noted(*arguments, **options)

    monkeypatch.setattr(compiled.numba, "njit", refused)
    values = np.ones(2, np.int64)
    doubled()(values)
    assert values.tolist() == [2, 2]
    assert compilations == [False]


def test_other_errors_are_not_hidden(monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(compiled.numba, "njit", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        doubled()(np.ones(1, np.int64))


def test_what_is_compiled_is_kept_for_other_processes(cache):
    first, later = doubled(), doubled()
    assert first.compile().is_new
    assert first.compile() == first.compile()
    assert not later.compile().is_new
    folders = {kernel.compile().folder for kernel in (first, later)}
    assert {Path(folder).parent for folder in folders} == {cache}


def test_compiling_is_announced_once_on_a_machine(cache, logged):
    kernels = doubled(), doubled()
    for kernel in kernels:
        kernel(np.ones(1, np.int64))
        kernel(np.ones(1, np.int64))
    announced, *others = logged.records
    assert (announced.levelname, announced.name) == ("INFO", "juncture.kernels.compiled")
    assert "juncture warmup" in announced.getMessage()
    assert [(record.levelname, record.getMessage().rpartition(" in ")[0]) for record in others] == [
        ("DEBUG", "Compiled the kernel test_compiled.doubled.<locals>.double"),
        ("DEBUG", "Loaded the kernel test_compiled.doubled.<locals>.double"),
    ]


def test_that_nothing_can_be_kept_is_said_once(monkeypatch, compilations, logged):
    noted = compiled.numba.njit

    def refused(*arguments, cache=False, **options):
        if cache:
            raise OSError(30, "Read-only file system")
        return noted(*arguments, **options)

    monkeypatch.setattr(compiled.numba, "njit", refused)
    for _ in range(2):
        kernel = doubled()
        kernel(np.ones(1, np.int64))
        assert kernel.compile() == compiled.Compilation(is_new=True, folder=None)
    warnings = [record.getMessage() for record in logged.records if record.levelname != "DEBUG"]
    assert len(warnings) == 1
    assert "NUMBA_CACHE_DIR" in warnings[0] and "Read-only file system" in warnings[0]
