from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import PlanError, SchemaError, SpecError
from juncture.spec.where import Where

LEFT = pa.schema([("k", pa.string()), ("a", pa.int64()), ("at", pa.timestamp("us"))])
RIGHT = pa.schema([("k", pa.string()), ("b", pa.int64()), ("at", pa.timestamp("us"))])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"predicate": 5}, "predicate=5 (int) is not a string. Expected SQL, such as"),
        ({"how": "outer"}, "how='outer' is unknown."),
        ({"allow_cross": 1}, "allow_cross=1 (int) is not a boolean. Expected True or False."),
        ({"names": "lr"}, "names='lr' is not a pair of table names"),
        ({"names": ("l", "r", "s")}, "is not a pair of table names"),
        ({"suffix": None}, "suffix=None (NoneType) is not a string."),
        ({"by": "k", "left_by": "k"}, "excludes left_by= and right_by=."),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Where(**({"predicate": "l.a = r.b"} | arguments))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("predicate", "error", "said"),
    [
        ("l.a >", SpecError, ["The predicate cannot be read", "l.a >\n", "^"]),
        ("l.a = 'x", SpecError, ["The predicate cannot be read: a quote or comment is not closed."]),
        ("", SpecError, ["The predicate is empty."]),
        ("sqrt(l.a) > r.b", SpecError, ["sqrt(l.a) > r.b\n", "^"]),
        ("l.a > r.c", SchemaError, ["l.a > r.c\n          ^"]),
        ("l.a > r.at", SchemaError, ["BIGINT and TIMESTAMP_NTZ do not compare. Cast one of them"]),
        ("l.a + r.b", SchemaError, ["The predicate is BIGINT, but must be a boolean."]),
        ("k = 'x'", SchemaError, ["k = 'x'\n"]),
        ("l.a > 5 AND r.b < 3", PlanError, ["has no condition with columns of both tables", "allow_cross=True"]),
        ("TRUE", PlanError, ["predicate='TRUE' has no condition with columns of both tables"]),
    ],
)
def test_predicates_that_do_not_serve(predicate, error, said):
    with pytest.raises(error) as raised:
        Where(predicate).resolve(LEFT, RIGHT)
    assert type(raised.value) is error
    for part in said:
        assert part in str(raised.value)


def test_what_ties_two_tables():
    assert not Where("l.a > 5", allow_cross=True).resolve(LEFT, RIGHT).shape.links
    assert Where("l.a > 5", by="k").resolve(LEFT, RIGHT).left_by == ("k",)
    assert Where("l.a * r.b > 5").resolve(LEFT, RIGHT).shape.links


def test_by_columns_are_checked():
    with pytest.raises(SchemaError, match="by='id' is not a column of the left table"):
        Where("l.a = r.b", by="id").resolve(LEFT, RIGHT)
    with pytest.raises(SchemaError, match=r"by= compares left 'k' \(string\) with right 'b' \(int64\)"):
        Where("l.a = r.b", left_by="k", right_by="b").resolve(LEFT, RIGHT)


def test_resolved():
    resolved = Where("x.k = y.k AND x.a < y.b", names=("x", "y"), how="full").resolve(LEFT, RIGHT)
    assert str(resolved.shape) == "key: l.k = r.k\ninequality: l.a < r.b"
    assert resolved.how == "full"
    assert resolved.output_schema.names == ["k", "a", "at", "k_right", "b", "at_right"]
    assert Where("l.a < r.b", by="k").resolve(LEFT, RIGHT).output_schema.names == ["k", "a", "at", "b", "at_right"]


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Where("l.a = r.b"), {"kind": "where", "predicate": "l.a = r.b"}),
        (
            Where("x.a = y.b", names=["x", "y"], left_by=["k"], right_by=["k"], how="anti", allow_cross=True),
            {
                "kind": "where",
                "predicate": "x.a = y.b",
                "names": ["x", "y"],
                "left_by": ["k"],
                "right_by": ["k"],
                "how": "anti",
                "allow_cross": True,
            },
        ),
    ],
)
def test_plain_data_and_back(spec, data):
    assert spec.to_dict() == data
    assert Where.from_dict(data) == spec
    assert hash(Where.from_dict(data)) == hash(spec)


def test_plain_data_that_is_not_a_predicate_join():
    with pytest.raises(SpecError, match=r"kind='equi' is not a predicate join\. Expected kind='where'\."):
        Where.from_dict({"kind": "equi", "on": "ts"})
