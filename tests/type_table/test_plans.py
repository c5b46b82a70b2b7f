"""A plan has the spec that it was made of, in each role and each type: what was planned can be planned again."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import JunctureError, SpecError
from juncture.planner.explain.meaning import conditions_of, meaning_of
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES
from support.engines import to_spark
from support.kinds import Spec
from type_table.arrow import NESTED, PLAIN
from type_table.roles import ROLES

X = jn.expr("x")
SPECS = [
    *(trial.spec(["x"]) for role in ROLES for trial in (*role.trials, *role.more)),
    jn.Asof(on=["x", "t"], by="block"),
    jn.Asof(left_on=["t", "x"], right_on=["t", X], direction="forward", how="full"),
    jn.Asof(on="x", how="full"),
    jn.Asof(on="x", by=["block", X], available_at="x", ties="first", order_by="number"),
    jn.Asof(on="t", by="x", available_at=("x", "t"), nulls_equal=True),
    jn.Asof(left_on="x", right_on="x", left_by=jn.expr("t + 1"), right_by="x", how="right"),
    jn.Range(on="x", by="x", lower=-1, upper=1, how="right"),
    jn.Range(on="t", by=X, windows={"near": (-1, 1), "past": (None, 0)}, agg={"number": "sum"}),
    jn.Overlap(left_interval=(X, None), right_interval=("t", "x_end"), by="x", closed="both"),
    jn.Where("l.t < r.t", by="x", how="full"),
    jn.Equi(on=["t", X], nulls_equal=True, how="inner"),
    jn.Equi(left_on="x", right_on="x", how="full", coalesce=False),
    jn.Equi(on="x", agg={"number": ["sum", "last"]}, nulls_equal=True),
]
TYPES = {each.name: each for each in (*PLAIN, *NESTED)}
ALIKE = [
    ("int32", "double", "int64", "decimal128(5, 2)", "float", "uint64", "decimal256(76, 10)"),
    ("timestamp[s]", "timestamp[ns]", "timestamp[us]"),
    ("date32[day]", "date64[ms]"),
    ("time32[s]", "time64[ns]", "time64[us]"),
    ("duration[s]", "duration[ns]"),
    ("string", "large_string", "string_view", "null", "int64"),
    ("binary", "fixed_size_binary[2]"),
]
"""Types that compare with one another."""

MIXED = [pair for group in ALIKE for pair in permutations(group, 2)]
PAIRS = [*((each, each) for each in TYPES), *MIXED]

Planned = Callable[[Spec], jn.Plan]


def table(name: str) -> pa.Table:
    """Return a table with all columns that the specs name, and without rows, which no plan has to look at."""
    numbers, tried = TYPES["int64"].make([]), TYPES[name].make([])
    return pa.table(dict.fromkeys(("block", "row", "t", "number"), numbers) | dict.fromkeys(("x", "x_end"), tried))


def resolved(left: pa.Schema, right: pa.Schema) -> Iterator[tuple[Spec, Resolved]]:
    """Yield the specs that fit two schemas."""
    for spec in SPECS:
        try:
            yield spec, spec.resolve(left, right)
        except JunctureError:
            continue


def shows_own_names(join: Resolved, text: str) -> bool:
    """Tell whether a text has names of columns that users know, and none that a join made of them."""
    values = [value for side in SIDES for value in join.computed(side)]
    made = [value.name for value in values if value.name != value.label]
    return not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in made)


def test_each_type_in_each_role():
    tried = dict.fromkeys(map(repr, SPECS), 0)
    for pair in PAIRS:
        for spec, join in resolved(*(table(name).schema for name in pair)):
            tried[repr(spec)] += 1
            assert join.spec == spec
            words = " ".join([meaning_of(join), *(condition for _, condition in conditions_of(join))])
            assert shows_own_names(join, words), words
    assert min(tried.values()) > 5, tried


def check(spec: Spec, planned: Planned) -> None:
    """Assert that a plan has its spec, and can be made of that again."""
    plan = planned(spec)
    assert plan.join.spec == spec
    assert type(spec).from_dict(json.loads(plan.explain(format="json"))["spec"]) == spec
    assert copy.deepcopy(plan.join.spec) == pickle.loads(pickle.dumps(plan.join.spec)) == spec
    again, text = planned(plan.join.spec), plan.explain()
    assert again.join == plan.join
    assert again.explain() == text
    assert shows_own_names(plan.join, text), text


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([pair for group in ALIKE for pair in pairwise(group)], id="some"),
        pytest.param(PAIRS, id="all", marks=pytest.mark.nightly),
    ],
)
def test_in_process(pairs):
    for left, right in (map(table, pair) for pair in pairs):
        for spec, _ in resolved(left.schema, right.schema):
            check(spec, lambda spec, left=left, right=right: jn.plan(left, right, spec))


def test_an_in_process_plan_that_was_pickled():
    left, right = table("int64"), table("decimal128(5, 2)")
    for spec, _ in resolved(left.schema, right.schema):
        check(spec, lambda spec: pickle.loads(pickle.dumps(jn.plan(left, right, spec))))


def test_joins_of_many_tables():
    spine, right = table("int64"), table("decimal128(5, 2)")
    for spec, join in resolved(spine.schema, right.schema):
        try:
            rights = {"r": jn.Right(right, spec, prefix="r_")}
        except SpecError:
            # It may give a row of the spine several rows.
            continue
        plan = jn.plan_many(spine, rights)
        assert plan.tables["r"].table.join.spec == spec
        facts = json.loads(plan.explain(format="json"))["tables"]["r"]
        assert type(spec).from_dict(facts["spec"]) == spec
        assert shows_own_names(join, plan.explain())


@pytest.mark.parametrize("way", ["frames", "files"])
def test_on_spark(spark, tmp_path, way):
    left, right = table("int64"), table("decimal128(5, 2)")
    if way == "frames":
        sides = to_spark(spark, left), to_spark(spark, right)
    else:
        sides = str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet")
        for each, path in zip((left, right), sides, strict=True):
            pq.write_table(each, path)
    for spec, join in resolved(left.schema, right.schema):
        needs_a_job = bool(join.aggregates) or (isinstance(spec, jn.Asof) and not join.left_by)
        if join.is_computed and not needs_a_job:
            check(spec, lambda spec: jn.plan(*sides, spec, spark=spark, lazy=True))
