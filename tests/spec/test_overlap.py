from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import SchemaError, SpecError
from juncture.ordered.times import Timestamps
from juncture.spec.overlap import Overlap

LEFT = pa.schema([("start", pa.timestamp("s")), ("end", pa.timestamp("us")), ("cell", pa.string())])
RIGHT = pa.schema([("begin", pa.timestamp("ms")), ("end", pa.timestamp("s")), ("cell", pa.string()), ("v", pa.int64())])
PAIR = {"left_interval": ("start", "end"), "right_interval": ("begin", "end")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"left_interval": "start"},
            "left_interval='start' (str) is not a pair of columns. Expected the start and the end",
        ),
        ({"right_interval": ("a", "b", "c")}, "right_interval=('a', 'b', 'c') (tuple) is not a pair of columns."),
        ({"right_interval": None}, "right_interval=None (NoneType) is not a pair of columns."),
        ({"left_interval": ("a", 5)}, "left_interval= contains 5 (int)."),
        ({"left_interval": (None, None)}, "left_interval=(None, None) has no start and no end"),
        ({"closed": "open"}, "closed='open' is unknown. Expected one of 'both', 'left', 'right', 'none'."),
        ({"how": "outer"}, "how='outer' is unknown."),
        ({"agg": {"v": "mean"}, "how": "full"}, "how='full' does not combine with agg="),
        ({"suffix": 1}, "suffix=1 (int) is not a string."),
        ({"left_by": "cell"}, "left_by='cell' needs right_by=."),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Overlap(**(PAIR | arguments))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"left_interval": ("strat", "end")},
            "left_interval='strat' is not a column of the left table. Did you mean 'start'?",
        ),
        (
            {"right_interval": ("start", "end")},
            "right_interval='start' is not a column of the right table",
        ),
        (
            {"right_interval": ("begin", "v")},
            "interval= compares left 'start' (timestamp[s]) with right 'v' (int64)",
        ),
        (
            {"left_interval": ("cell", "end")},
            "The left interval column 'cell' is of type string, which this join cannot order by",
        ),
        ({"by": "city"}, "by='city' is not a column of the left table."),
        ({"left_by": "cell", "right_by": "v"}, "by= compares left"),
        (
            {"agg": {"cell": "sum"}},
            "agg['cell']='sum' needs numbers, but the right column 'cell' is of type string.",
        ),
    ],
)
def test_arguments_that_do_not_fit_these_tables(arguments, said):
    with pytest.raises(SchemaError) as error:
        Overlap(**(PAIR | arguments)).resolve(LEFT, RIGHT)
    assert said in str(error.value)


def test_the_columns_of_one_side_have_to_compare_too():
    left = pa.schema([("start", pa.timestamp("us")), ("end", pa.timestamp("us", "UTC"))])
    with pytest.raises(SchemaError, match=r"left 'start' .* with left 'end' .*only one of them has a time zone"):
        Overlap(left_interval=("start", "end"), right_interval=("start", "end")).resolve(left, left)


def test_resolved_columns():
    resolved = Overlap(**PAIR, by="cell").resolve(LEFT, RIGHT)
    assert (resolved.how, resolved.closed) == ("inner", "left")
    assert resolved.domain == Timestamps("us")
    assert resolved.tie_columns == ("end", "v")
    assert resolved.output_schema.names == ["start", "end", "cell", "begin", "end_right", "v"]
    resolved = Overlap(left_interval=["start", None], right_interval=[None, "end"], agg={"*": "count"}).resolve(
        LEFT, RIGHT
    )
    assert (resolved.how, resolved.left_interval, resolved.right_interval) == ("left", ("start", None), (None, "end"))
    assert resolved.tie_columns == ("begin", "end", "cell", "v")
    assert resolved.output_schema.names == ["start", "end", "cell", "count"]


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (
            Overlap(**PAIR),
            {"kind": "overlap", "left_interval": ["start", "end"], "right_interval": ["begin", "end"]},
        ),
        (
            Overlap(left_interval=("a", None), right_interval=(None, "b"), by=["k"], closed="both", agg={"v": "min"}),
            {
                "kind": "overlap",
                "left_interval": {"start": "a"},
                "right_interval": {"end": "b"},
                "by": ["k"],
                "closed": "both",
                "agg": {"v": ["min"]},
            },
        ),
    ],
)
def test_plain_data_and_back(spec, data):
    assert spec.to_dict() == data
    assert Overlap.from_dict(data) == spec
    assert hash(Overlap.from_dict(data)) == hash(spec)


def test_plain_data_that_is_not_an_overlap_join():
    with pytest.raises(SpecError, match=r"kind='range' is not an overlap join\."):
        Overlap.from_dict({"kind": "range", "on": "ts"})
    with pytest.raises(SpecError, match=r"left_interval=.* has keys other than .start. and .end."):
        Overlap.from_dict({"left_interval": {"begin": "a"}, "right_interval": ["a", "b"]})
