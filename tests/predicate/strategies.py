"""Random predicates over two tables, and rows for them."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
from hypothesis import strategies as st

from juncture.errors import SchemaError
from juncture.predicate.language import build, conversions, nodes
from juncture.predicate.language import functions as calls
from juncture.predicate.language.nodes import Column, Literal, Node
from juncture.predicate.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, STRING, Type, Value, from_arrow

SCHEMA = pa.schema(
    {
        "tiny": pa.int8(),
        "byte": pa.uint8(),
        "int": pa.int32(),
        "big": pa.int64(),
        "huge": pa.uint64(),
        "real": pa.float64(),
        "single": pa.float32(),
        "price": pa.decimal128(7, 2),
        "wide": pa.decimal128(38, 12),
        "day": pa.date32(),
        "far_day": pa.date64(),
        "ms": pa.timestamp("ms"),
        "ns": pa.timestamp("ns"),
        "instant": pa.timestamp("us", tz="UTC"),
        "span": pa.duration("s"),
        "span_us": pa.duration("us"),
        "text": pa.string(),
        "view": pa.string_view(),
        "raw": pa.binary(),
        "flag": pa.bool_(),
        "void": pa.null(),
    }
)

NUMBERS = ("tiny", "byte", "int", "big", "huge", "real", "single", "price", "wide", "void")
TIMES = ("day", "far_day", "ms", "ns", "instant", "span", "span_us", "void")


def column(name: str, side: str = "left") -> Column:
    field = SCHEMA.field(name)
    data_type = from_arrow(field.type)
    assert data_type is not None
    return Column(data_type, side, name, True)  # type: ignore[arg-type]


def values(data_type: Type) -> st.SearchStrategy[Value]:
    """Values of a type: mostly small, so that they meet; now and then at its limits."""
    if data_type.kind == "null":
        return st.none()
    if data_type.kind == "boolean":
        return st.booleans()
    if data_type.kind in ("string", "binary"):
        texts = st.sampled_from(["", "a", "ab", "b", "B", "é", "\U0001f600", "￿"])
        return texts if data_type.kind == "string" else texts.map(str.encode)
    if data_type.kind == "float":
        width = data_type.bits
        special = [0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan")]
        return st.one_of(
            st.integers(-12, 12).map(float),
            st.sampled_from(special),
            st.floats(width=width),  # type: ignore[call-overload]
            st.floats(-8, 8, width=width),  # type: ignore[call-overload]
        )
    least, greatest, step = data_type.least, data_type.greatest, data_type.step
    if data_type.kind == "decimal":
        near = st.integers(-12 * 10**data_type.scale, 12 * 10**data_type.scale)
        near |= st.integers(-12, 12).map(lambda whole: whole * 10**data_type.scale)
        whole = st.one_of(near, near, st.integers(int(least / step), int(greatest / step)))
        return whole.map(lambda count: count * Fraction(step))
    limits = st.sampled_from([least, least + 1, greatest - 1, greatest])
    near = st.integers(-12, 12)
    if data_type.kind in ("timestamp", "duration"):
        near |= st.sampled_from([86_400, 1_000, 86_400_000, 1_000_000, 10**9, -1_000, 1_001])
    return st.one_of(near, near, near, st.integers(int(least), int(greatest)), limits)


@st.composite
def literals(draw: st.DrawFn, data_type: Type) -> Node:
    value = draw(values(data_type))
    return Literal(data_type, value)


LITERAL_TYPES = {
    "number": [Type("integer", bits=32), BIGINT, DOUBLE, Type("decimal", precision=3, scale=1)],
    "time": [Type("duration", unit="us"), DATE, Type("timestamp", unit="us"), Type("integer", bits=32)],
}
CASTS = [
    Type("integer", bits=8),
    Type("integer", bits=32),
    BIGINT,
    DOUBLE,
    Type("float", bits=32),
    Type("decimal", precision=9, scale=3),
    Type("decimal", precision=20, scale=0),
    DATE,
    Type("timestamp", unit="us"),
    BOOLEAN,
]


@st.composite
def expressions(draw: st.DrawFn, group: str, depth: int, sides: tuple[str, ...] = ("left", "right")) -> Node:
    """An expression of numbers, or of dates, timestamps and durations."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if draw(st.integers(0, 3)) == 0:
            return draw(literals(draw(st.sampled_from(LITERAL_TYPES[group]))))
        name = draw(st.sampled_from(NUMBERS if group == "number" else TIMES))
        return column(name, draw(st.sampled_from(sides)))
    inner = expressions(group, depth - 1, sides)
    usual = ["+", "-", "*", "/", "+", "-", "*", "neg", "abs", "least", "greatest", "cast"]
    kind = draw(st.sampled_from([*usual, "function", "function", "function"]))
    first = draw(inner)
    try:
        if kind == "function":
            return draw(functions(group, first, inner))
        if kind == "neg":
            return build.negate(first)
        if kind == "abs":
            return build.absolute(first)
        if kind == "cast":
            return conversions.cast(first, draw(st.sampled_from(CASTS)))
        second = first if draw(st.integers(0, 5)) == 0 else draw(inner)
        if kind in ("least", "greatest"):
            return build.extreme(kind, [first, second])  # type: ignore[arg-type]
        return build.arithmetic(kind, first, second)  # type: ignore[arg-type]
    except SchemaError:
        return first


@st.composite
def functions(draw: st.DrawFn, group: str, first: Node, inner: st.SearchStrategy[Node]) -> Node:
    """A function of an expression, and of further ones."""
    names = ["coalesce", "case"] + (["floor", "ceil", "round", "%", "div"] if group == "number" else ["date_trunc"])
    name = draw(st.sampled_from(names))
    if name in ("floor", "ceil"):
        return calls.call(name, [first])
    if name == "round":
        return calls.call(name, [first, Literal(BIGINT, draw(st.integers(0, 3)))])
    if name == "date_trunc":
        return calls.call(name, [Literal(STRING, draw(st.sampled_from(calls.UNITS))), first])
    constant = literals(first.type if name in ("coalesce", "case") else Type("integer", bits=32))
    second = draw(constant if draw(st.booleans()) else inner)
    if name == "coalesce":
        return calls.call(name, [first, second])
    if name == "case":
        return calls.case([draw(relations())], [first], draw(st.sampled_from([second, None])))
    return calls.remainder(first, second) if name == "%" else calls.quotient(first, second)


PATTERNS = ["", "%", "a%", "%b", "_", "a_%", "\\%%", "ab", "_\\_", "é%", "\U0001f600%", "%\U0010ffff"]


@st.composite
def texts(draw: st.DrawFn, text: Node, other: Node) -> Node:
    """A function of texts that gives one, or a truth."""
    name = draw(st.sampled_from(["upper", "lower", "||", "like", "startswith", "coalesce", "least", "greatest"]))
    if name in ("least", "greatest"):
        return build.extreme(name, [text, other])  # type: ignore[arg-type]
    if name in ("upper", "lower"):
        return calls.call(name, [text])
    if name == "like":
        return calls.like(text, Literal(STRING, draw(st.sampled_from(PATTERNS))))
    return calls.joined(text, other) if name == "||" else calls.call(name, [text, other])


@st.composite
def predicates(draw: st.DrawFn, depth: int = 2, sides: tuple[str, ...] = ("left", "right")) -> Node:
    """A predicate of any kind."""
    if depth > 0 and draw(st.integers(0, 2)) > 0:
        kind = draw(st.sampled_from(["and", "and", "or", "not"]))
        parts = [draw(predicates(depth - 1, sides)) for _ in range(1 if kind == "not" else draw(st.integers(2, 3)))]
        if kind == "not":
            return build.negation(parts[0])
        return build.conjunction(parts) if kind == "and" else build.disjunction(parts)
    return draw(relations(sides))


@st.composite
def lists(draw: st.DrawFn, one: Node, other: Node, group: str) -> Node:
    """An IN over constants of several types, NULL and an expression."""
    types = [one.type, *LITERAL_TYPES.get(group, ())]
    constants = draw(st.lists(st.sampled_from(types).flatmap(literals), min_size=1, max_size=6))
    extra = draw(st.sampled_from([[], [], [Literal(NULL, None)], [other]]))
    return build.is_in(one, [*constants, *extra])


PLAIN = {
    "text": (STRING, ("text", "view", "void")),
    "binary": (Type("binary"), ("raw", "raw", "void")),
    "flag": (BOOLEAN, ("flag", "flag", "void")),
}
"""Types that have an order and no arithmetic, and their columns."""


@st.composite
def relations(draw: st.DrawFn, sides: tuple[str, ...] = ("left", "right")) -> Node:
    group = draw(st.sampled_from(["number", "number", "time", *PLAIN]))
    if group in PLAIN:
        data_type, named = PLAIN[group]
        names = st.sampled_from(named)
        one: Node = column(draw(names), draw(st.sampled_from(sides)))
        constant = literals(data_type)
        other: Node = draw(constant) if draw(st.booleans()) else column(draw(names), draw(st.sampled_from(sides)))
        if group == "text" and draw(st.booleans()):
            one = draw(texts(one, other))
            other = other if one.type != BOOLEAN else Literal(BOOLEAN, draw(st.booleans()))
        elif draw(st.booleans()):
            one = build.extreme(draw(st.sampled_from(["least", "greatest"])), [one, other])
    else:
        one = draw(expressions(group, 2, sides))
        other = draw(expressions(group, 2, sides))
    kind = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>", "<", ">", "in", "null"]))
    try:
        if kind == "null":
            return build.is_null(one)
        if kind == "in":
            return draw(lists(one, other, group))
        return build.compare(kind, one, other)  # type: ignore[arg-type]
    except SchemaError:
        return build.is_null(one) if one.type != BOOLEAN else one


def encodings(array: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    """The same values in all encodings that a column may come in, in one piece and in several."""
    halves = [array.slice(0, len(array) // 2), array.slice(len(array) // 2)]
    runs = pa.array(range(1, len(array) + 1), pa.int32())
    found: list[pa.Array | pa.ChunkedArray] = [array, pa.chunked_array(halves)]
    if pa.types.is_string_view(array.type):
        indices = pa.array(
            [None if cell is None else place for place, cell in enumerate(array.to_pylist())], pa.int16()
        )
        coded = pa.DictionaryArray.from_arrays(indices, array)
    else:
        coded = array.dictionary_encode()
        found.append(pa.chunked_array([half.dictionary_encode() for half in halves]))
    found += [coded, pa.RunEndEncodedArray.from_arrays(runs, array), pa.RunEndEncodedArray.from_arrays(runs, coded)]
    return found


@st.composite
def rows(draw: st.DrawFn, node: Node) -> dict[Column, Value]:
    """One pair of rows: a value for each column of a predicate."""
    cells = {each: draw(st.none() | values(each.type) | values(each.type)) for each in nodes.columns(node)}
    # Unsigned columns read as wider types, of whose values they have but some.
    most = {"byte": 2**8 - 1, "huge": 2**64 - 1}
    return {
        each: min(abs(cell), most[each.name]) if each.name in most and cell is not None else cell
        for each, cell in cells.items()
    }


EVERY_TYPE = [
    *SCHEMA.types,
    *(pa.int16(), pa.uint16(), pa.uint32(), pa.float16(), pa.date64(), pa.decimal128(38, 38), pa.decimal256(60, 2)),
    *(pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time32("s"), pa.month_day_nano_interval()),
    *(pa.large_string(), pa.binary(2), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string())),
]

FORMS = [
    *(f"{name}({{x}})" for name in ("-", "abs", "floor", "ceil", "round", "upper", "lower", "NOT ")),
    *(f"{{x}} {operator} {{y}}" for operator in ("+", "-", "*", "/", "%", "div", "||", "<=>", "LIKE", "AND")),
    *(
        f"{name}({{x}}, {{y}})"
        for name in ("least", "greatest", "coalesce", "mod", "startswith", "date_trunc", "round")
    ),
    *(f"{kind}({{x}} AS {target})" for kind in ("CAST", "TRY_CAST") for target in map(str, CASTS)),
    *("if({x}, {x}, {y})", "CASE {x} WHEN {y} THEN {x} END", "CASE WHEN {x} = {y} THEN {x} ELSE {y} END"),
    *("{x} LIKE 'a%'", "startswith({x}, 'a')", "round({x}, 2)", "date_trunc('day', {x})", "{x} IN ({y}, 1, 'a', NULL)"),
    *("{x} + 1", "{x} * 2e0", "{x} div 7", "{x} % 1.5", "{x} + INTERVAL 1 DAY", "{x} * INTERVAL 1 SECOND", "{x} < 'a'"),
    *("{x} BETWEEN {y} AND {x}", "{x} IS DISTINCT FROM {y}", "{x} IS TRUE", "{x} = DATE '2024-01-01'"),
]
"""All that a predicate can say of two operands."""


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, pa.DataType, pa.DataType]:
    """A condition on columns x and y, as text, and the types of these, for which it may have no meaning."""
    form, (x, y) = draw(st.sampled_from(FORMS)), draw(st.sampled_from([("l.x", "r.y"), ("r.y", "l.x"), ("l.x", "l.x")]))
    outer = draw(st.sampled_from(["({0}) IS NULL", "({0}) = ({0})", "({0}) < {x}", "({0}) >= {y}", "{0}", "NOT ({0})"]))
    one = draw(st.sampled_from(EVERY_TYPE))
    other = one if draw(st.booleans()) else draw(st.sampled_from(EVERY_TYPE))
    return outer.replace("{0}", form).replace("{x}", x).replace("{y}", y), one, other
