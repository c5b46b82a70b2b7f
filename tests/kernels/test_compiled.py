"""Compilation: at the first call, once, and without a place to keep the result."""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from juncture.kernels import compiled


@pytest.fixture
def compilations(monkeypatch) -> list[bool]:
    """Note of each compilation whether its result was to be kept on disk."""
    made = []
    njit = numba.njit

    def noted(*arguments, cache=False, **options):
        made.append(cache)
        return njit(*arguments, cache=False, **options)

    monkeypatch.setattr(compiled.numba, "njit", noted)
    return made


def doubled():
    @compiled.compiled(compiled.void(compiled.int64s))
    def double(values):
        """Double each value."""
        for i in range(len(values)):
            values[i] *= 2

    return double


def test_a_kernel_is_compiled_once_when_it_is_first_called(compilations):
    double = doubled()
    assert double.__doc__ == "Double each value."
    assert compilations == []
    values = np.ones(4, np.int64)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(double, np.split(values, 4)))
    assert values.tolist() == [2] * 4
    assert compilations == [True]


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
