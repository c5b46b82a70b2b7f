"""Threads of one join: results in order, no more at once than may be, and nothing left running."""

from __future__ import annotations

import threading

import pytest

from juncture.runtime.threads import Threads, grouped, slices


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("room_bytes", [None, 1])
def test_results_come_in_order(count, room_bytes):
    with Threads(count) as pool:
        threads = pool if room_bytes is None else pool.within(room_bytes)
        assert list(threads.map(lambda item: -item, range(100))) == [-item for item in range(100)]
        assert list(threads.ahead(iter(range(100)))) == list(range(100))
        assert list(threads.ahead([])) == []


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("room_bytes", [None, 1])
@pytest.mark.parametrize("lengths", [[], [0], [100], [0, 30, 0, 0, 1, 20, 0]])
def test_sources_are_mixed_without_loss(count, room_bytes, lengths):
    with Threads(count) as pool:
        threads = pool if room_bytes is None else pool.within(room_bytes)
        sources = (((number, item) for item in range(length)) for number, length in enumerate(lengths))
        mixed = list(threads.mix(lambda item: item, sources))
        assert sorted(mixed) == [(number, item) for number, length in enumerate(lengths) for item in range(length)]


def test_no_more_sources_are_mixed_than_there_are_threads():
    opened, ended = [], []

    def source(number):
        opened.append(number)
        for item in range(10):
            assert len(opened) - len(ended) <= 2
            yield item
        ended.append(number)

    with Threads(2) as threads:
        assert sorted(threads.mix(lambda item: item, map(source, range(20)))) == sorted(20 * list(range(10)))


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_ends_a_mix(count):
    def broken():
        yield 1
        raise OSError("gone")

    with Threads(count) as threads:
        with pytest.raises(OSError, match="gone"):
            list(threads.mix(lambda item: item, (each() for each in [broken] * 5)))
        with pytest.raises(ZeroDivisionError):
            list(threads.mix(lambda item: 1 // (5 - item), [iter(range(100))]))


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


def test_work_is_cut_into_slices_and_groups():
    assert slices(10, 3) == [(0, 3), (3, 6), (6, 10)]
    assert slices(10, 4, least=5) == [(0, 5), (5, 10)]
    assert list(grouped([2, 2, 3, 9, 1], 5, int)) == [[2, 2], [3], [9], [1]]
