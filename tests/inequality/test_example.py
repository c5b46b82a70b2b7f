"""Events and the measurements of the 30 seconds before them: the join gives the rows that the original prints."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

import juncture as jn

EVENTS = pa.table(
    {
        "eid": pa.array(range(10), pa.int64()),
        "eventTime": pa.array(
            [datetime(2016, 9, 26, 18, 24 - (eid > 5), (58 - 10 * eid) % 60) for eid in range(10)], pa.timestamp("us")
        ),
        "eventType": ["Other", "Other", "Other", "LoginEvent", "LoginEvent", "PurchaseEvent", *["Other"] * 4],
    }
)
MEASURED = [
    ("18:25:01", 0.41371264720975787),
    ("18:24:51", 0.1982919638208397),
    ("18:24:41", 0.5),
    ("18:24:31", 0.44292918521277047),
    ("18:24:21", 0.7604318153406678),
    ("18:24:09", 0.12030715258495939),
    ("18:24:02", 0.12131363910425985),
    ("18:23:52", 0.6037143578435027),
    ("18:23:39", 0.1435668838975337),
    ("18:23:31", 0.8898784253886249),
]
MEASUREMENTS = pa.table(
    {
        "mid": pa.array(range(10), pa.int64()),
        "measurementTime": pa.array(
            [datetime.fromisoformat(f"2016-09-26T{time}") for time, _ in MEASURED], pa.timestamp("us")
        ),
        "value": [value for _, value in MEASURED],
    }
)
PRINTED = [
    (3, "18:24:28", "LoginEvent", 6, "18:24:02", 0.12131363910425985),
    (3, "18:24:28", "LoginEvent", 5, "18:24:09", 0.12030715258495939),
    (3, "18:24:28", "LoginEvent", 4, "18:24:21", 0.7604318153406678),
    (4, "18:24:18", "LoginEvent", 7, "18:23:52", 0.6037143578435027),
    (4, "18:24:18", "LoginEvent", 6, "18:24:02", 0.12131363910425985),
    (4, "18:24:18", "LoginEvent", 5, "18:24:09", 0.12030715258495939),
    (5, "18:24:08", "PurchaseEvent", 8, "18:23:39", 0.1435668838975337),
    (5, "18:24:08", "PurchaseEvent", 7, "18:23:52", 0.6037143578435027),
    (5, "18:24:08", "PurchaseEvent", 6, "18:24:02", 0.12131363910425985),
]
ARGUMENTS = {
    "left_on": "eventTime",
    "right_on": "measurementTime",
    "lower": "-30 seconds",
    "upper": 0,
    "closed": "right",
}


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows that the original shows, with times of day."""
    shown = [
        tuple(value.strftime("%H:%M:%S") if isinstance(value, datetime) else value for value in row.values())
        for row in table.to_pylist()
    ]
    return [row for row in shown if row[0] in (3, 4, 5)]


def test_in_process():
    assert rows(jn.join_range(EVENTS, MEASUREMENTS, **ARGUMENTS)) == PRINTED


def test_as_a_predicate():
    predicate = "measurementTime > eventTime - INTERVAL 30 SECONDS AND measurementTime <= eventTime"
    assert sorted(rows(jn.join_where(EVENTS, MEASUREMENTS, predicate))) == sorted(PRINTED)


def test_by_number():
    answer = jn.join_range(EVENTS, MEASUREMENTS, left_on="eid", right_on="mid", lower=-2, upper=0, closed="right")
    pairs = [(eid, mid) for eid in range(10) for mid in range(10) if eid - 2 < mid <= eid]
    assert list(zip(answer["eid"].to_pylist(), answer["mid"].to_pylist(), strict=True)) == pairs


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            {"left_on": "eventTime", "right_on": "measurementTime", "lower": -30},
            jn.SpecError,
            ["lower=-30 (int) has no unit", "timestamps", 'a duration, such as lower="5m"'],
        ),
        (
            {"left_on": "eid", "right_on": "mid", "lower": "-30 seconds"},
            jn.SpecError,
            ["lower='-30 seconds' is a duration", "integer", "Pass a number"],
        ),
        (
            {"left_on": "eventTime", "right_on": "mid", "lower": "-30 seconds"},
            jn.SchemaError,
            ["no common values", "left 'eventTime' (timestamp[us])", "right 'mid' (int64)", "Cast one"],
        ),
        (
            {"left_on": "eventType", "right_on": "measurementTime", "lower": "-30 seconds"},
            jn.SchemaError,
            ["The left on column 'eventType' is of type string", "Cast it to an integer, float, decimal, date or"],
        ),
    ],
)
def test_types_that_do_not_go_together(arguments, error, said):
    with pytest.raises(error) as raised:
        jn.join_range(EVENTS, MEASUREMENTS, **arguments)
    assert type(raised.value) is error
    for part in said:
        assert part in str(raised.value)
