"""What can be known of a join on Spark once it has run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import juncture as jn
from support.engines import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what the driver tells as long as it takes: on a busy machine it may be longer than users should."""
    monkeypatch.setattr("juncture.spark.session.profile._TIMEOUT_S", 120.0)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        pytest.param(jn.Asof(on="id"), 100, id="asof"),
        pytest.param(jn.Range(on="id", lower=-1, upper=0), 20, id="range"),
        pytest.param(jn.Where("l.id < 0 AND l.id = r.id"), 0, id="none"),
        pytest.param(jn.Equi(on="id"), 10, id="equi"),
    ],
)
def test_rows_and_stages_are_known_where_the_driver_tells(spark: SparkSession, spec: jn.Asof, rows: int) -> None:
    left, right = spark.range(100), spark.range(10)
    plan = jn.plan(left, right, spec, algorithm="sort_merge" if isinstance(spec, jn.Equi) else "auto")
    analysis = plan.analyze(keep=True)
    run = analysis.measured
    assert run.output_rows == rows == plan.execute().count()
    assert run.duration_s > 0
    assert analysis.result.count() == rows
    assert run.left_rows is None
    unknown = set(json.loads(analysis.explain(format="json"))["measured"]["unknown"])
    if is_connect(spark):
        assert unknown == {"left, right", "stages", "shuffle", "spilled", "memory"}
        assert "    shuffle    unknown: Spark Connect does not publish the metrics of a query" in str(analysis)
        assert [phase.name for phase in run.phases] == ["query"]
    else:
        assert unknown == {"left, right"}
        assert all(phase.name.startswith("stage ") for phase in run.phases)
        assert all(0 <= phase.start_s <= run.duration_s for phase in run.phases)
        assert run.spilled_bytes == 0
        assert run.shuffle_bytes > 0 or not plan.choice.shuffle_bytes.value
        assert "    spilled    nothing\n" in str(analysis)
        assert " in the JVM of one task, without its Python; " in str(analysis)


class Off:
    """A session whose driver has its UI off, or answers something else."""

    def __init__(self, url: str | None) -> None:
        self.sparkContext = self
        self.uiWebUrl = url
        self.applicationId = "app"


def test_a_driver_that_cannot_be_asked_says_why() -> None:
    from juncture.planner.report import Measured
    from juncture.spark.session.profile import Driver

    with pytest.raises(jn.StateError, match=r"UI of this session is off \(spark.ui.enabled\)"):
        Driver.of(Off(None))
    with pytest.raises(jn.StateError, match=r"the driver's UI at http://127.0.0.1:1/api/v1/applications/app did not"):
        Driver.of(Off("http://127.0.0.1:1")).stages(Measured(duration_s=0.0, output_rows=0), "tag", 0.0)
