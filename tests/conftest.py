from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.session import session_for_tests
from support.streaming import PARTITIONS, ROCKS, STORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `ci` gives the same examples every time, as many as six minutes on two cores allow for the whole suite; `nightly`
# gives others each night. HYPOTHESIS_PROFILE=thorough looks longer.
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=8, derandomize=True, database=None, **QUIET)
settings.register_profile("dev", max_examples=30, **QUIET)
settings.register_profile("nightly", max_examples=200, **QUIET)
settings.register_profile("thorough", max_examples=3_000, phases=set(Phase) - {Phase.explain}, **QUIET)
SPARK_EXAMPLES = {"ci": 2, "dev": 4, "nightly": 20, "thorough": 100}

ROOM_BYTES = 6 << 30

SESSIONS = ("connect", "classic")
IN_PROCESS = "in-process"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spark",
        choices=[*SESSIONS, "both"],
        default="both",
        help="the kind of Spark session that the tests marked `spark` use",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="run the tests marked `nightly` as well, each case on Spark under every algorithm and on both kinds of "
        "session instead of one in turn, and more random examples",
    )


def in_memory() -> None:
    """Have temporary files in memory where the machine has room for them: databases wait for each write to a disk.

    What a process has written outlives it there as well when it is killed, which is what tests do to it.
    """
    room = Path("/dev/shm")
    if "TMPDIR" not in os.environ and room.is_dir() and shutil.disk_usage(room).free >= ROOM_BYTES:
        os.environ["TMPDIR"] = folder = tempfile.mkdtemp(prefix="juncture-tests-", dir=room)
        # PostgreSQL runs as another user where tests are run by root.
        Path(folder).chmod(0o755)
        tempfile.tempdir = None
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    # The processes that share the tests inherit it.
    in_memory()
    # Nor do those that tests start compile every module again, dozens of times.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    profile = os.environ.get("HYPOTHESIS_PROFILE", "nightly" if config.getoption("--all") else "ci")
    settings.load_profile(profile)
    # On Spark an example costs seconds, and is not shrunk: each try would cost as much.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    settings.register_profile(
        "spark", settings.get_profile(profile), max_examples=SPARK_EXAMPLES[profile], phases=phases
    )
    config.addinivalue_line("markers", "in_turn: each set of parameters meets one kind of session, instead of both")
    config.addinivalue_line("markers", "early: a process's first test, since it waits for processes that take long")
    config.addinivalue_line("markers", "one_in(number): one in so many sets of parameters runs, and all with --all")
    config.addinivalue_line("markers", "nightly: takes long: runs with --all only, as `make test-all` does")
    config.addinivalue_line("markers", "spark: uses a Spark session (every test that does is marked)")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have kernels compiled once, before the processes that share the tests start, where there are several."""
    if session.config.getoption("numprocesses", None):
        from juncture.kernels.warmup import warm_up

        warm_up(processes=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that take a session on both kinds, and those that take an engine in-process as well."""
    if "spark_or_none" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--spark")
        engines = [*([] if "spark" in metafunc.fixturenames else [IN_PROCESS])]
        engines += SESSIONS if chosen == "both" else [chosen]
        metafunc.parametrize("spark_or_none", engines, indirect=True, scope="session")


def session_kind(item: pytest.Item) -> str | None:
    """Return the kind of session that a test uses."""
    engine = item.callspec.params.get("spark_or_none", IN_PROCESS) if hasattr(item, "callspec") else IN_PROCESS
    return None if engine == IN_PROCESS else engine


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if session_kind(item):
            item.add_marker("spark")
    if not config.getoption("--all"):
        nightly = {item for item in items if item.get_closest_marker("nightly")}
        left = nightly | set(out_of_sample(item for item in items if item not in nightly))
        left |= set(out_of_turn([item for item in items if item not in left]))
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    # pytest itself puts tests together that share a session.
    yield
    items[:] = in_order(items)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return tests in an order that keeps two processes busy to the end.

    The first of them begins at the front, the second in the middle, and whichever is done takes from the end of what
    the other has left. So one process has all that needs a session, which is started and warmed up once.
    """
    parts: dict[str, list[pytest.Item]] = {"spark": [], "early": [], "": []}
    for item in items:
        parts[next((name for name in parts if name and item.get_closest_marker(name)), "")].append(item)
    others = parts[""]
    first = max(0, sum(map(len, parts.values())) // 2 - len(parts["spark"]))
    return [*parts["spark"], *others[:first], *parts["early"], *others[first:]]


def out_of_turn(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield those of the tests marked `in_turn` that another kind of session has its turn for.

    The sets of parameters of a test meet the kinds in turn, and where there is one set, the tests do. None is left out
    whose counterpart is not there.
    """
    pairs: dict[tuple[object, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        kind = session_kind(item)
        if kind and item.get_closest_marker("in_turn"):
            pairs[item.function, without_kind(item)].append(item)
    turns: Counter[object] = Counter()
    for (function, _), both in pairs.items():
        if len(both) == len(SESSIONS):
            yield both[(turns[function] + crc32(function.__name__.encode())) % len(SESSIONS)]
            turns[function] += 1


def out_of_sample(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield those of the tests marked `one_in` that are left to nightly runs.

    Of a grid of parameters, diagonals are kept, so that each value of each parameter is met.
    """
    places: dict[object, dict[object, int]] = defaultdict(dict)
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker:
            place = 0
            for names in axes_of(item):
                seen = places[item.function, names]
                place += seen.setdefault(tuple(id(item.callspec.params[name]) for name in names), len(seen))
            if place % marker.args[0]:
                yield item


def axes_of(item: pytest.Item) -> list[tuple[str, ...]]:
    """Return the names of a test's parameters but for the kind of session, those that are given together as one."""
    marked = [marker.args[0] for marker in item.iter_markers("parametrize")]
    axes = [tuple(name.strip() for name in (x.split(",") if isinstance(x, str) else x)) for x in marked]
    of_fixtures = set(item.callspec.params) - {name for names in axes for name in names} - {"spark_or_none"}
    return [*axes, *((name,) for name in sorted(of_fixtures))]


def without_kind(item: pytest.Item) -> str:
    """Return the name of a test with its parameters but for the kind of session."""
    kind = session_kind(item)
    return item.nodeid.replace(kind, "") if kind else item.nodeid


@pytest.fixture(scope="session")
def session_of() -> Iterator[Callable[[str], SparkSession]]:
    """Give the session of a kind, started when a test first needs it.

    One process can have one kind at a time: the other session is stopped. What Spark has compiled stays.
    """
    running: dict[str, SparkSession] = {}

    def session(kind: str) -> SparkSession:
        if kind not in running:
            stop()
            if kind == "connect":
                # Lets Spark take any free port for its server, where another test run may have the usual one.
                os.environ["SPARK_TESTING"] = "1"
            running[kind] = session_for_tests(connect=kind == "connect")
        return running[kind]

    def stop() -> None:
        while running:
            running.popitem()[1].stop()

    yield session
    stop()


@pytest.fixture(scope="session")
def spark_or_none(request: pytest.FixtureRequest, session_of: Callable[[str], SparkSession]) -> SparkSession | None:
    """What joins: a Spark session, or None for joins in-process."""
    return None if request.param == IN_PROCESS else session_of(request.param)


@pytest.fixture(scope="session")
def spark(spark_or_none: SparkSession) -> SparkSession:
    """A Spark session, of each kind in turn."""
    return spark_or_none


@pytest.fixture
def hosting(spark: SparkSession) -> Iterator[SparkSession]:
    """Let a session have the state store that joins of streams need, and few partitions."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(STORE, ROCKS)
    spark.conf.set(PARTITIONS, "2")
    yield spark
    spark.conf.set(PARTITIONS, before)
    spark.conf.unset(STORE)


@pytest.fixture
def scratch(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """Give a test a folder for temporary files, which has to be empty again when it ends."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
