from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import SchemaError, SpecError
from juncture.spec.overlap import Overlap
from juncture.spec.schema import Domain

LEFT = pa.schema([("start", pa.timestamp("s")), ("end", pa.timestamp("us")), ("cell", pa.string())])
RIGHT = pa.schema([("begin", pa.timestamp("ms")), ("end", pa.timestamp("s")), ("cell", pa.string()), ("v", pa.int64())])
PAIR = {"left_interval": ("start", "end"), "right_interval": ("begin", "end")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"left_interval": "start"},
            'left_interval=\'start\' is not a pair of column names. Expected ("start", "end").',
        ),
        ({"right_interval": ("a", "b", "c")}, "right_interval=('a', 'b', 'c') is not a pair of column names."),
        ({"right_interval": None}, "right_interval=None is not a pair of column names."),
        ({"left_interval": ("a", 5)}, "left_interval holds 5 (int), which is not a column name."),
        ({"left_interval": (None, None)}, "left_interval=(None, None) is unbounded on both sides"),
        ({"closed": "open"}, "closed='open' is not known. Expected one of 'both', 'left', 'right', 'none'."),
        ({"how": "outer"}, "how='outer' is not known."),
        ({"agg": {"v": "mean"}, "how": "full"}, "how='full' does not go with agg="),
        ({"suffix": 1}, "suffix=1 is not a string."),
        ({"left_by": "cell"}, "left_by= needs right_by= beside it."),
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
            "left_interval names the column 'strat', which the left table does not have. Did you mean 'start'?",
        ),
        (
            {"right_interval": ("start", "end")},
            "right_interval names the column 'start', which the right table does not",
        ),
        (
            {"right_interval": ("begin", "v")},
            "The interval columns are of different kinds: left 'start' is timestamp[s] (timestamp), right 'v' is int64",
        ),
        (
            {"left_interval": ("cell", "end")},
            "The left interval column 'cell' is of type string, which cannot be joined",
        ),
        ({"by": "city"}, "by names the column 'city', which the left table does not have."),
        ({"left_by": "cell", "right_by": "v"}, "The by columns cannot be equal"),
        (
            {"agg": {"cell": "sum"}},
            "agg asks for the sum of the right column 'cell' of type string, but sum takes numbers.",
        ),
    ],
)
def test_arguments_that_do_not_fit_these_tables(arguments, said):
    with pytest.raises(SchemaError) as error:
        Overlap(**(PAIR | arguments)).resolve(LEFT, RIGHT)
    assert said in str(error.value)


def test_the_columns_of_one_side_have_to_compare_too():
    left = pa.schema([("start", pa.timestamp("us")), ("end", pa.timestamp("us", "UTC"))])
    with pytest.raises(SchemaError, match=r"has a time zone and the other has none: left 'start' .*, left 'end'"):
        Overlap(left_interval=("start", "end"), right_interval=("start", "end")).resolve(left, left)


def test_resolved_columns():
    resolved = Overlap(**PAIR, by="cell").resolve(LEFT, RIGHT)
    assert (resolved.how, resolved.closed) == ("inner", "left")
    assert resolved.domain == Domain("timestamp", unit="us")
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
    with pytest.raises(SpecError, match=r"left_interval=.* may name a start and an end only"):
        Overlap.from_dict({"left_interval": {"begin": "a"}, "right_interval": ["a", "b"]})
