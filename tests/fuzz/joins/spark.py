"""Cases on Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import juncture as jn
from fuzz.joins.cases import Case
from fuzz.joins.forms import read_back
from fuzz.joins.judge import Run
from juncture.errors import DataError
from support.engines import to_spark
from support.kinds import Spec
from support.session import session_for_tests

__all__ = ["run_on_spark"]


def run_on_spark() -> Run:
    """Start a session, and return what runs joins in it."""
    session = session_for_tests()

    def run(case: Case, spec: Spec, left: Any, right: Any) -> pa.Table:
        given = [left, right]
        if isinstance(left, pa.Table) or isinstance(right, pa.Table):
            tables = [side if isinstance(side, pa.Table) else read_back(side) for side in given]
            given = [to_spark(session, table).repartition(case.partitions) for table in tables]
        try:
            return jn.plan(*given, spec, algorithm=case.algorithm, spark=session).execute().toArrow()
        except Exception as error:
            # What a task raises comes as the text of another error.
            if "juncture.errors.DataError: " in str(error):
                raise DataError(str(error)) from error
            raise

    return run
