"""Kernels are tested as machine code and interpreted: both have to return the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from juncture.kernels.warmup import all_kernels


@pytest.fixture(scope="module", params=["machine code", "interpreted"])
def each_way_to_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module both ways, as far as they name kernels by their module."""
    with pytest.MonkeyPatch.context() as patch:
        for kernel in all_kernels() if request.param == "interpreted" else ():
            patch.setattr(sys.modules[kernel.__module__], kernel.__name__, kernel.interpret)
        yield
