"""Threads of one join: results in order, no more at once than may be, and nothing left running."""

from __future__ import annotations

import threading

import pytest

from juncture.runtime.threads import Threads


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("room_bytes", [None, 1])
def test_results_come_in_order(count, room_bytes):
    with Threads(count) as pool:
        threads = pool if room_bytes is None else pool.within(room_bytes)
        assert list(threads.map(lambda item: -item, range(100))) == [-item for item in range(100)]
        assert list(threads.ahead(iter(range(100)))) == list(range(100))
        assert list(threads.ahead([])) == []


@pytest.mark.parametrize(("room_bytes", "most"), [(None, 6), (10**12, 6), (1, 3)])
def test_no_more_wait_than_may_be_at_once(room_bytes, most):
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    with Threads(3) as pool:
        threads = pool if room_bytes is None else pool.within(room_bytes)
        for done, _ in enumerate(threads.map(lambda item: item, items())):
            assert len(taken) - done <= most


def test_one_item_is_made_ahead_of_the_one_in_use():
    made = threading.Event()

    def items():
        yield 1
        made.set()
        yield 2

    with Threads(2) as threads:
        ahead = threads.ahead(items())
        assert next(ahead) == 1
        assert made.wait(timeout=30)
        assert list(ahead) == [2]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_is_raised_where_the_item_is_asked_for(count):
    def items():
        yield 1
        raise OSError("gone")

    with Threads(count) as threads:
        ahead = threads.ahead(items())
        assert next(ahead) == 1
        with pytest.raises(OSError, match="gone"):
            next(ahead)
