from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `ci` gives the same examples every time, as many as ten minutes on two cores allow for the whole suite.
# HYPOTHESIS_PROFILE=thorough looks longer, and elsewhere each time.
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=40, derandomize=True, database=None, **QUIET)
settings.register_profile("dev", max_examples=30, **QUIET)
settings.register_profile("thorough", max_examples=3_000, phases=set(Phase) - {Phase.explain}, **QUIET)
TESTS = Path(__file__).parent
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

# Small joins one after the other: what they spend is compilation and garbage, in the JVM and in Python's workers. The
# first is for all sessions, in processes that tests start as well.
os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
SPARK_SETTINGS = {
    "spark.python.daemon.module": "support.daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "3",
    # What tests of analyze() ask; at any free port.
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spark",
        choices=["classic", "connect"],
        default="classic",
        help="the kind of Spark session that the tests marked `spark` use",
    )
    parser.addoption(
        "--every-algorithm",
        action="store_true",
        help="run each case on Spark under every algorithm and on both kinds of session, instead of one in turn",
    )


def pytest_configure(config: pytest.Config) -> None:
    # On Spark an example costs seconds, and is not shrunk: each try would cost as much.
    several = {"ci": 4, "dev": 4, "thorough": 100}[PROFILE] // (2 if config.getoption("--spark") == "connect" else 1)
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    settings.register_profile("spark", settings.get_profile(PROFILE), max_examples=several, phases=phases)
    config.addinivalue_line("markers", "in_turn: each set of parameters meets one kind of Spark session")
    config.addinivalue_line("markers", "spark: uses a Spark session (every test that takes the fixture is marked)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if config.getoption("--every-algorithm"):
        return
    on_connect = config.getoption("--spark") == "connect"
    turns: Counter[object] = Counter()
    kept, left = [], []
    for item in items:
        function = item.get_closest_marker("in_turn") and getattr(item, "function", None)
        turns[function] += 1
        (left if function and turns[function] % 2 == on_connect else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One session for all tests, started when the first of them needs it."""
    from juncture.spark.session import local_session

    connect = request.config.getoption("--spark") == "connect"
    if connect:
        # Lets Spark take any free port for its server, where another test run may have the usual one.
        os.environ["SPARK_TESTING"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    session = local_session("juncture-tests", cores=2, memory="1g", connect=connect, settings=SPARK_SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def scratch(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """Give a test a folder for temporary files, which has to be empty again when it ends."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
