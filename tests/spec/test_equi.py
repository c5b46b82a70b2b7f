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
        ({}, "on= is missing, but an equality join needs a key"),
        ({"on": []}, "an equality join needs a key"),
        ({"on": "id", "left_on": "id"}, "excludes left_on= and right_on=."),
        ({"left_on": "id"}, "left_on='id' needs right_on=."),
        ({"left_on": ["id", "name"], "right_on": "id"}, "left_on= names 2 columns, but right_on= names 1."),
        ({"on": ["id", "id"]}, "on=['id', 'id'] names a column twice."),
        ({"on": 5}, "on=5 (int) is not a column name."),
        ({"on": "id", "how": "outer"}, "how='outer' is unknown."),
        ({"on": "id", "agg": {}}, "agg={} (dict) is not a mapping"),
        ({"on": "id", "agg": {"*": "count"}, "how": "full"}, "how='full' does not combine with agg="),
        ({"on": "id", "where": 5}, "where=5 (int) is not a string. Expected SQL, such as"),
        ({"on": "id", "nulls_equal": None}, "nulls_equal=None (NoneType) is not a boolean. Expected True or False."),
        ({"on": "id", "coalesce": "yes"}, "coalesce='yes' (str) is not a boolean."),
        ({"on": "id", "suffix": None}, "suffix=None (NoneType) is not a string."),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Equi(**arguments)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": "nmae"}, SchemaError, "on='nmae' is not a column of the left table. Did you mean"),
        ({"on": "id"}, SchemaError, "on='id' is not a column of the right table."),
        (
            {"left_on": "id", "right_on": "buyer"},
            SchemaError,
            "right_on='buyer' is not a column of the right table. Did you mean 'buyer_id'?",
        ),
        (
            {"left_on": "id", "right_on": "name"},
            SchemaError,
            "on= compares left 'id' (int64) with right 'name' (string), which have no common values. Cast one of them",
        ),
        (
            {"left_on": "id", "right_on": "price", "how": "full"},
            SchemaError,
            "'price' (double) have no common type, but how='right' and 'full' write right keys into the left column",
        ),
        ({"on": "name", "where": "l.id >"}, SpecError, "The predicate cannot be read"),
        ({"on": "name", "where": "l.id > r.cost"}, SchemaError, "cost"),
        ({"on": "name", "where": "l.id + 1"}, SchemaError, "The predicate is BIGINT, but must be a boolean."),
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
    with pytest.raises(SpecError, match=r"kind='where' is not an equality join\. Expected kind='equi'\."):
        Equi.from_dict({"kind": "where", "on": "ts"})
