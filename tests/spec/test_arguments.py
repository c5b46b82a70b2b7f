from __future__ import annotations

import pytest

from juncture.errors import SpecError
from juncture.spec.arguments import check_choice, check_name, pair_names


@pytest.mark.parametrize(
    ("both", "left", "right", "pairs"),
    [
        (None, None, None, []),
        ("k", None, None, [("k", "k")]),
        (["a", "b"], None, None, [("a", "a"), ("b", "b")]),
        (("a",), None, None, [("a", "a")]),
        (None, "id", "buyer_id", [("id", "buyer_id")]),
        (None, ["a", "b"], ["c", "d"], [("a", "c"), ("b", "d")]),
        ([], None, None, []),
    ],
)
def test_pairs(both, left, right, pairs):
    assert pair_names("by", both, left, right) == pairs


@pytest.mark.parametrize(
    ("both", "left", "right", "message"),
    [
        ("k", "k", None, "excludes left_by= and right_by=."),
        ("k", None, "k", "excludes left_by= and right_by=."),
        (None, "k", None, "left_by='k' needs right_by=."),
        (None, None, "k", "right_by='k' needs left_by=."),
        (
            None,
            ["a", "b"],
            "c",
            "left_by= names 2 columns, but right_by= names 1. Columns are paired in order: pass lists of equal length.",
        ),
        (
            5,
            None,
            None,
            "by=5 (int) is not a column name. Expected a string or a list of strings.",
        ),
        ({"k"}, None, None, "by={'k'} (set) is not a column name."),
        (["a", 5], None, None, "by= contains 5 (int). Expected a column name as a string."),
        (["a", "a"], None, None, "by=['a', 'a'] names a column twice."),
        (None, ["a", "b"], ["c", 1], "right_by= contains 1 (int). Expected a column name as a string."),
        (None, "k", 5, "right_by=5 (int) is not a column name"),
    ],
)
def test_pairs_that_make_no_sense(both, left, right, message):
    with pytest.raises(SpecError) as error:
        pair_names("by", both, left, right)
    assert message in str(error.value)


def test_choice():
    check_choice("direction", "nearest", ["backward", "nearest"])
    with pytest.raises(SpecError) as error:
        check_choice("direction", "backwards", ["backward", "nearest"])
    assert error.value.message == (
        "direction='backwards' is unknown. Expected one of 'backward', 'nearest'. Did you mean 'backward'?"
    )
    with pytest.raises(SpecError, match=r"how=None \(NoneType\) is unknown"):
        check_choice("how", None, ["left"])


def test_name():
    check_name("order_by", "seq")
    with pytest.raises(SpecError, match=r"order_by= contains 3 \(int\)"):
        check_name("order_by", 3)
