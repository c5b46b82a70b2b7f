from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import SchemaError, SpecError
from juncture.spec.equi import Equi

LEFT = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
RIGHT = pa.schema([("buyer_id", pa.int32()), ("name", pa.string()), ("price", pa.float64())])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "An equality join needs a key: pass on= with a column of both tables"),
        ({"on": []}, "An equality join needs a key"),
        ({"on": "id", "left_on": "id"}, "Pass either on= or left_on= and right_on=, not both."),
        ({"left_on": "id"}, "left_on= needs right_on= beside it."),
        ({"left_on": ["id", "name"], "right_on": "id"}, "left_on= names 2 columns and right_on= names 1."),
        ({"on": ["id", "id"]}, "on=['id', 'id'] names a column twice."),
        ({"on": 5}, "on=5 (int) is not a column name or a list of them."),
        ({"on": "id", "how": "outer"}, "how='outer' is not known."),
        ({"on": "id", "agg": {}}, "agg={} is not a mapping"),
        ({"on": "id", "agg": {"*": "count"}, "how": "full"}, "how='full' does not go with agg="),
        ({"on": "id", "where": 5}, "where=5 (int) is not SQL. Expected a string such as"),
        ({"on": "id", "nulls_equal": None}, "nulls_equal=None is not a truth value. Expected True or False."),
        ({"on": "id", "coalesce": "yes"}, "coalesce='yes' is not a truth value."),
        ({"on": "id", "suffix": None}, "suffix=None is not a string."),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Equi(**arguments)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": "nmae"}, SchemaError, "on names the column 'nmae', which the left table does not have. Did you mean"),
        ({"on": "id"}, SchemaError, "on names the column 'id', which the right table does not have."),
        (
            {"left_on": "id", "right_on": "buyer"},
            SchemaError,
            "right_on names the column 'buyer', which the right table does not have. Did you mean 'buyer_id'?",
        ),
        (
            {"left_on": "id", "right_on": "name"},
            SchemaError,
            "The on columns cannot be equal: left 'id' is int64, right 'name' is string. Cast one of them",
        ),
        (
            {"left_on": "id", "right_on": "price", "how": "full"},
            SchemaError,
            "'price' (double) are equal by value, but right rows without a match have to stand in the left column",
        ),
        ({"on": "name", "where": "l.id >"}, SpecError, "The predicate cannot be read"),
        ({"on": "name", "where": "l.id > r.cost"}, SchemaError, "cost"),
        ({"on": "name", "where": "l.id + 1"}, SchemaError, "The predicate is BIGINT and not a truth value."),
    ],
)
def test_specs_that_do_not_fit_the_tables(arguments, error, said):
    with pytest.raises(error) as raised:
        Equi(**arguments).resolve(LEFT, RIGHT)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"on": "name"}, ["id", "name", "day", "buyer_id", "price"]),
        ({"on": "name", "coalesce": False}, ["id", "name", "day", "buyer_id", "name_right", "price"]),
        ({"left_on": "id", "right_on": "buyer_id"}, ["id", "name", "day", "name_right", "price"]),
        ({"on": "name", "how": "anti"}, ["id", "name", "day"]),
    ],
)
def test_output_columns(arguments, names):
    assert Equi(**arguments).resolve(LEFT, RIGHT).output_schema.names == names


def test_resolved():
    resolved = Equi(left_on=["id", "name"], right_on=["buyer_id", "name"], where="r.price > 5").resolve(LEFT, RIGHT)
    assert resolved.left_by == ("id", "name")
    assert resolved.right_by == ("buyer_id", "name")
    assert str(resolved.predicate)
    assert not resolved.nulls_equal
    assert Equi(on="name").resolve(LEFT, RIGHT).predicate is None


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Equi(on="id"), {"kind": "equi", "on": "id"}),
        (
            Equi(left_on=["a"], right_on=["b"], how="semi", where="l.x < r.y", nulls_equal=True, coalesce=False),
            {
                "kind": "equi",
                "left_on": ["a"],
                "right_on": ["b"],
                "how": "semi",
                "where": "l.x < r.y",
                "nulls_equal": True,
                "coalesce": False,
            },
        ),
    ],
)
def test_plain_data_and_back(spec, data):
    assert spec.to_dict() == data
    assert Equi.from_dict(data) == spec
    assert hash(Equi.from_dict(data)) == hash(spec)


def test_plain_data_that_is_not_an_equality_join():
    with pytest.raises(SpecError, match=r"kind='where' is not an equality join\. Expected 'equi'\."):
        Equi.from_dict({"kind": "where", "on": "ts"})
