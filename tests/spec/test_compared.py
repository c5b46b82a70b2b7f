"""Values that joins compare: what each is made of, and how messages call it."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import juncture as jn
from juncture.spec.compared import Column, Conversion, Expression, TupleOf

LEFT = pa.schema([("day", pa.int32()), ("hour", pa.int64()), ("price", pa.decimal128(9, 2))])
RIGHT = pa.schema([("day", pa.int32()), ("hour", pa.float64()), ("price", pa.int64())])


def test_a_column_is_itself():
    value = jn.Equi(on="day").resolve(LEFT, RIGHT).value("left", "day")
    assert value == Column("day")
    assert (value.label, value.input_column, value.columns, value.parts, value.equal_names) == (
        "day", "day", ("day",), (value,), ("day",),
    )  # fmt: skip


def test_a_conversion_has_the_values_of_its_column():
    join = jn.Equi(on="price").resolve(LEFT, RIGHT)
    [value] = join.computed("right")
    assert isinstance(value, Conversion)
    assert (value.label, value.input_column, value.columns) == ("price", "price", ("price",))
    assert value.equal_names == (value.name, "price")
    assert join.right_by == (value.name,) and join.schema("right").field(value.name).type == pa.decimal128(21, 2)


def test_an_expression_is_called_by_its_text_and_equals_no_column():
    join = jn.Asof(left_on=jn.expr("day * 24 + hour"), right_on="price").resolve(LEFT, RIGHT)
    [value] = join.computed("left")
    assert isinstance(value, Expression)
    assert (value.label, value.input_column, value.equal_names) == ("day * 24 + hour", None, (value.name,))
    assert set(value.columns) == {"day", "hour"}
    assert join.name_of("left", jn.expr("day * 24 + hour")) == value.name


def test_an_expression_that_converts_a_column_is_called_by_the_column():
    [value] = jn.Range(on="hour", lower=-1, upper=1).resolve(LEFT, RIGHT).computed("left")
    assert isinstance(value, Expression)
    assert (value.label, value.input_column, value.equal_names) == ("hour", "hour", (value.name,))


def test_a_tuple_has_parts():
    join = jn.Asof(on=["day", "price"]).resolve(LEFT, RIGHT)
    value = join.value("right", join.right_on)
    assert isinstance(value, TupleOf)
    assert (value.label, value.input_column, value.columns) == ("(day, price)", None, ("day", "price"))
    assert [part.label for part in value.parts] == ["day", "price"]
    assert {"day", "price"} <= set(value.equal_names)


@pytest.mark.parametrize("on", [["day", "price"], jn.expr("day + price")], ids=str)
def test_schemas_say_nothing_of_what_is_computed(on):
    join = pickle.loads(pickle.dumps(jn.Asof(on=on).resolve(LEFT, RIGHT)))
    assert join.is_computed
    assert all(field.metadata is None for side in ("left", "right") for field in join.schema(side))


def test_fewer_columns_have_fewer_computed_values():
    join = jn.Asof(on=["day", "price"]).resolve(LEFT, RIGHT)
    names = [join.right_on, "hour"]
    fewer = join.over(join.left_schema, pa.schema([join.right_schema.field(name) for name in names]))
    assert [value.name for value in fewer.computed("right")] == [join.right_on]
    assert [column.source for column in fewer.output if column.side == "right"] == ["hour"]
    assert fewer.tie_columns == ("hour",)
