"""The order in which the inputs of a join are looked up for the changes of each."""

from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.incremental.plan.clusters import cluster_of
from juncture.incremental.plan.push import pushed
from juncture.incremental.plan.stateful_nodes import JoinNode
from juncture.incremental.sql.reader import read_query

SCHEMAS = {
    name: pa.schema([(column, pa.int64()) for column in columns])
    for name, columns in {
        "suppliers": ["supplier", "nation"],
        "customers": ["customer", "nation"],
        "orders": ["id", "customer", "day"],
        "lines": ["order", "supplier", "price"],
        "nations": ["nation", "region"],
    }.items()
}
SQL = """
SELECT sum(price) FROM suppliers s, customers c, orders o, lines l, nations n
WHERE c.customer = o.customer AND l.order = o.id AND l.supplier = s.supplier
AND c.nation = s.nation AND s.nation = n.nation AND o.day > 5
"""


@pytest.mark.parametrize(
    ("changing", "others"),
    [
        # A supplier is not joined to all customers of its nation before its lines.
        ("suppliers", ["lines", "orders", "customers", "nations"]),
        ("customers", ["orders", "lines", "suppliers", "nations"]),
        ("lines", ["orders", "suppliers", "customers", "nations"]),
    ],
)
def test_keys_of_several_inputs_are_looked_up_last(changing, others):
    node = pushed(read_query(SQL, SCHEMAS).node, [])
    while not isinstance(node, JoinNode):
        (node,) = node.inputs
    cluster = cluster_of(node, lambda _: True)
    names = [next(iter(part.sources)) for part in cluster.parts]
    paths = cluster.delta_paths([False] * len(names))
    orders = {names[path.part]: [names[stage.part] for stage in path.stages] for path in paths}
    assert orders[changing] == others
