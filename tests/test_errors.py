"""Errors of tasks come back from the exceptions of Spark that carry them."""

from __future__ import annotations

import pickle

import pytest

import juncture as jn
from juncture.spark.tasks.packets import error_packet, read_packets, write_packets

RAISED = "[USER_RAISED_EXCEPTION] juncture.errors.DataError: {} SQLSTATE: P0001"
WORKER = """[PYTHON_EXCEPTION] Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise DataError("x")
juncture.errors.DataError: {}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
TEXTS = {
    "classic": RAISED,
    "connect": RAISED + "\n\nJVM stacktrace:\norg.apache.spark.SparkRuntimeException\n\tat org.apache.spark.sql.errors",
    "stage": "Job aborted: " + RAISED + "\n\tat org.apache.spark.sql",
    "worker": WORKER,
}


@pytest.mark.parametrize("name", ["", "JN-TIE-UNDECIDED"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_error_comes_back_from_the_text_of_an_exception(text: str, name: str) -> None:
    own = jn.DataError("Right rows tie for left row 3 of 'a', which is 1. Name order_by columns.", name=name)
    error = jn.error_from_spark(RuntimeError(text.format(own)))
    assert isinstance(error, jn.DataError)
    assert (error.message, error.name, str(error)) == (own.message, name, str(own))
    with pytest.raises(jn.DataError, match="Right rows tie"), jn.spark_errors():
        raise RuntimeError(text.format(own))


def test_other_errors_pass() -> None:
    own = jn.PlanError("No.")
    assert jn.error_from_spark(own) is own
    assert jn.error_from_spark(RuntimeError("juncture.errors.NoSuchError: x")) is None
    assert jn.error_from_spark(RuntimeError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")) is None
    with pytest.raises(ZeroDivisionError), jn.spark_errors():
        raise ZeroDivisionError


def test_an_error_keeps_its_name_between_stages_and_processes() -> None:
    own = jn.StateError("The disk is full.", name="JN-DISK-FULL")
    with pytest.raises(jn.StateError) as caught:
        list(read_packets(write_packets([error_packet(own)])))
    for error in (caught.value, pickle.loads(pickle.dumps(own))):
        assert (error.message, error.name) == (own.message, own.name)
