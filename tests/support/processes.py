"""Processes that tests start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["no_session"]


@contextmanager
def no_session() -> Iterator[None]:
    """Hide the Spark session of this process from those started meanwhile, which would take it for their own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_TESTING"):
            patch.delenv(name, raising=False)
        yield
