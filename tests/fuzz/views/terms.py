"""Random expressions of SQL, as trees: those that `docs/views.md` lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

__all__ = ["Scope", "Term", "condition", "dividing_by_zeros_alike", "simpler", "term", "tried"]

Scope = dict[str, list[str]]
"""The columns that an expression may read, by their kinds."""


@dataclass(frozen=True)
class Term:
    """An expression.

    Attributes
    ----------
    kind
        ``int``, ``float``, ``decimal``, ``text``, ``bool``, ``date`` or ``timestamp``.
    form
        Its text, with ``{}`` for each of its parts.
    parts
        The expressions within it.
    """

    kind: str
    form: str
    parts: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return self.form.format(*self.parts) if self.parts else self.form


def dividing_by_zeros_alike(each: Term) -> Term:
    """Return an expression in which -0.0 divides as 0.0 does: their sum with 0.0 is 0.0."""
    form = "({} / ({} + 0e0))" if each.form == "({} / {})" else each.form
    return replace(each, form=form, parts=tuple(map(dividing_by_zeros_alike, each.parts)))


def tried(each: Term) -> Term:
    """Return an expression in which numbers and times that cannot be computed are NULL."""
    parts = tuple(map(tried, each.parts))
    return replace(each, form=each.form if each.kind == "bool" or not parts else f"TRY({each.form})", parts=parts)


CONSTANTS: dict[str, list[str]] = {
    "int": ["0", "1", "2", "3", "10", "-1", "-7", "15", "100", "2147483647", "9223372036854775807"],
    "float": [
        *("0e0", "1e0", "-1.5e0", "2.5e0", "1e16", "1e-7", "1e308"),
        *(f"CAST('{each}' AS DOUBLE)" for each in ("NaN", "inf", "-inf", "-0.0")),
    ],
    "decimal": ["0.0", "1.0", "0.5", "1.5", "-2.50", "999999.99", "0.0000000001", "12345678901234567890.5"],
    "text": ["''", "' '", "'a'", "'A%'", "'a_b'", "'é'", "'10'", "'-1.5'", "'a\\b'", "' \ta'", "'it''s'"],
    "bool": ["TRUE", "FALSE"],
    "date": [f"DATE '{each}'" for each in ("1970-01-01", "2024-02-29", "2023-12-31", "1969-12-31", "9999-12-31")],
    "timestamp": [
        *(f"TIMESTAMP '{each}'" for each in ("1970-01-01 00:00:00", "2024-02-29 23:59:59.999999")),
        *(f"CAST('{each}' AS TIMESTAMP)" for each in ("1969-12-31 23:59:59.5", "2024-03-10 12:30:00")),
    ],
}

PATTERNS = ("%", "_", "", "a%", "%a", "%A%", "a_b", "a\\%", "a\\\\b", "\\", "%\\", "\\_", "_%", "É%", "é", "a", " %")
PARTS = ("year", "quarter", "month", "day", "hour", "minute", "second", "doy", "week")
TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
INTERVALS = ("INTERVAL 1 DAY", "INTERVAL 2 WEEK", "INTERVAL '3' HOUR", "INTERVAL 90 MINUTE", "INTERVAL 1 SECOND")
NUMBERS = ("int", "float", "decimal")
KINDS = tuple(CONSTANTS)

FORMS: dict[str, list[tuple[str, str]]] = {
    "int": [
        ("({} + {})", "int int"),
        ("({} - {})", "int int"),
        ("({} * {})", "int int"),
        ("({} // {})", "int int"),
        ("({} % {})", "int int"),
        ("(- {})", "int"),
        ("abs({})", "int"),
        ("round({})", "int"),
        ("round({}, DIGITS)", "int"),
        ("floor({})", "int"),
        ("ceil({})", "int"),
        ("length({})", "text"),
        ("extract(PART FROM {})", "timestamp"),
        ("extract(DATEPART FROM {})", "date"),
        ("DATEPART({})", "date"),
        ("({} - {})", "date date"),
        ("CAST({} AS INTEGERS)", "int"),
        ("CAST({} AS INTEGERS)", "float"),
        ("CAST({} AS INTEGERS)", "decimal"),
        ("CAST({} AS INTEGERS)", "text"),
        ("CAST({} AS INTEGERS)", "bool"),
    ],
    "float": [
        ("({} + {})", "float float"),
        ("({} - {})", "float float"),
        ("({} * {})", "float float"),
        ("({} + {})", "float int"),
        ("({} * {})", "decimal float"),
        ("({} / {})", "number number"),
        ("(- {})", "float"),
        ("abs({})", "float"),
        ("round({})", "float"),
        ("round({}, DIGITS)", "float"),
        ("floor({})", "float"),
        ("ceil({})", "float"),
        ("sqrt({})", "number"),
        ("CAST({} AS DOUBLE)", "int"),
        ("CAST({} AS DOUBLE)", "decimal"),
        ("CAST({} AS DOUBLE)", "text"),
    ],
    "decimal": [
        ("({} + {})", "decimal decimal"),
        ("({} - {})", "decimal decimal"),
        ("({} * {})", "decimal decimal"),
        ("({} + {})", "decimal int"),
        ("({} - {})", "int decimal"),
        ("({} * {})", "int decimal"),
        ("(- {})", "decimal"),
        ("abs({})", "decimal"),
        ("round({})", "decimal"),
        ("round({}, DIGITS)", "decimal"),
        ("floor({})", "decimal"),
        ("ceil({})", "decimal"),
        ("CAST({} AS DECIMALS)", "decimal"),
        ("CAST({} AS DECIMALS)", "int"),
        ("CAST({} AS DECIMALS)", "float"),
        ("CAST({} AS DECIMALS)", "text"),
    ],
    "text": [
        ("lower({})", "text"),
        ("upper({})", "text"),
        ("trim({})", "text"),
        ("substring({}, START)", "text"),
        ("substring({}, START, COUNT)", "text"),
        ("concat({}, {})", "text text"),
        ("({} || {})", "text text"),
        ("CAST({} AS VARCHAR)", "int"),
        ("CAST({} AS VARCHAR)", "decimal"),
        ("CAST({} AS VARCHAR)", "bool"),
        ("CAST({} AS VARCHAR)", "date"),
    ],
    "bool": [
        ("({} AND {})", "bool bool"),
        ("({} OR {})", "bool bool"),
        ("(NOT {})", "bool"),
        ("({} IS NULL)", "any"),
        ("({} IS NOT NULL)", "any"),
        ("({} IS TRUE)", "bool"),
        ("({} IS NOT FALSE)", "bool"),
        ("({} LIKE PATTERN)", "text"),
        ("({} NOT LIKE PATTERN)", "text"),
        ("({} ILIKE PATTERN)", "text"),
        ("({} NOT ILIKE PATTERN)", "text"),
        ("CAST({} AS BOOLEAN)", "int"),
        *[
            (form, kinds)
            for form in ("({} = {})", "({} <> {})", "({} < {})", "({} >= {})", "({} IS DISTINCT FROM {})")
            for kinds in ("same same", "number number")
        ],
        ("({} <= {})", "same same"),
        ("({} > {})", "same same"),
        ("({} IS NOT DISTINCT FROM {})", "same same"),
        ("({} BETWEEN {} AND {})", "same same same"),
        ("({} NOT BETWEEN {} AND {})", "same same same"),
        ("({} IN ({}, {}))", "same same same"),
        ("({} IN ({}, {}, NULL))", "same constant constant"),
        ("({} IN ({}))", "same constant"),
        ("({} NOT IN ({}, {}))", "same constant constant"),
    ],
    "date": [
        ("({} + CAST({} AS INTEGER))", "date int"),
        ("({} - CAST({} AS INTEGER))", "date int"),
        ("({} + 3)", "date"),
        ("CAST({} AS DATE)", "timestamp"),
        ("CAST({} AS DATE)", "text"),
        ("date_trunc('DATEUNIT', {})", "date"),
    ],
    "timestamp": [
        ("({} + SPAN)", "timestamp"),
        ("({} - SPAN)", "timestamp"),
        ("({} + SPAN)", "date"),
        ("({} - SPAN)", "date"),
        ("date_trunc('UNIT', {})", "timestamp"),
        ("CAST({} AS TIMESTAMP)", "date"),
        ("CAST({} AS TIMESTAMP)", "text"),
    ],
}
"""Expressions by their kinds, with the kinds of their parts."""

OF_ANY_KIND = [
    ("CASE WHEN {} THEN {} ELSE {} END", "bool same same"),
    ("CASE WHEN {} THEN {} END", "bool same"),
    ("CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END", "bool same bool same same"),
    ("CASE {} WHEN {} THEN {} ELSE {} END", "other1 other1 same same"),
    ("if({}, {}, {})", "bool same same"),
    ("coalesce({}, {})", "same same"),
    ("nullif({}, {})", "same same"),
]

OF_ORDERED_KINDS = [
    *OF_ANY_KIND,
    ("greatest({}, {})", "same same"),
    ("least({}, {})", "same same"),
    ("greatest({}, {}, {})", "same same constant"),
]

RARE: dict[str, list[tuple[str, str]]] = {
    "decimal": [("({} % {})", "decimal decimal")],
    "float": [("({} % {})", "float float")],
    "text": [
        ("trim({}, 'a')", "text"),
        ("concat({}, {}, {})", "text any text"),
        ("({} || {})", "text any"),
        ("CAST({} AS VARCHAR)", "timestamp"),
        ("CAST({} AS VARCHAR)", "float"),
        ("substring({}, LEAST)", "text"),
        ("substring({}, START, -1)", "text"),
    ],
    "bool": [("({} LIKE PATTERN ESCAPE '\\')", "text"), ("greatest({}, {})", "bool bool")],
}
"""What views refuse, which is drawn seldom."""

BLANKS = {
    "DIGITS": lambda chance: str(chance.choice([0, 1, 2, 2, 3, 5, -1, -2])),
    "INTEGERS": lambda chance: chance.choice(["BIGINT", "BIGINT", "INTEGER", "SMALLINT", "TINYINT"]),
    "DECIMALS": lambda chance: f"DECIMAL({chance.choice(['9, 2', '5, 0', '38, 10', '18, 3', '4, 1', '38, 0'])})",
    "PATTERN": lambda chance: "'" + chance.choice(PATTERNS) + "'",
    "START": lambda chance: str(chance.choice([1, 1, 2, 3, 0])),
    "LEAST": lambda chance: str(chance.choice([-1, -2])),
    "COUNT": lambda chance: str(chance.choice([0, 1, 2, 5])),
    "DATEPART": lambda chance: chance.choice([part for part in PARTS if part not in ("hour", "minute", "second")]),
    "DATEUNIT": lambda chance: chance.choice(TRUNCATED),
    "PART": lambda chance: chance.choice(PARTS),
    "UNIT": lambda chance: chance.choice(TRUNCATED),
    "SPAN": lambda chance: chance.choice(INTERVALS),
}
"""What stands in a form and is no expression."""


def term(chance: Random, scope: Scope, kind: str, depth: int) -> Term:
    """Return a random expression of a kind.

    Parameters
    ----------
    chance
        Decides.
    scope
        The columns that it may read.
    kind
        What it gives.
    depth
        How many functions may stand within one another.
    """
    if depth <= 0 or chance.random() < 0.12:
        return leaf(chance, scope, kind)
    form, kinds = chance.choice(forms_of(chance, kind))
    is_compared = kind == "bool" and (form, kinds) not in OF_ANY_KIND
    same = chance.choice(KINDS) if is_compared else kind
    names = {"same": same, "other1": chance.choice(KINDS)}
    parts = []
    for name in kinds.split():
        if name == "constant":
            parts.append(Term(same, chance.choice(CONSTANTS[same])))
            continue
        drawn = chance.choice(NUMBERS) if name == "number" else chance.choice(KINDS) if name == "any" else name
        parts.append(term(chance, scope, names.get(drawn, drawn), depth - 1))
    for blank, draw in BLANKS.items():
        form = form.replace(blank, draw(chance)) if blank in form else form
    return Term(kind, form, tuple(parts))


def forms_of(chance: Random, kind: str) -> list[tuple[str, str]]:
    number = chance.random()
    if number < 0.01 and kind in RARE:
        return RARE[kind]
    if number < 0.25:
        return OF_ANY_KIND if kind == "bool" else OF_ORDERED_KINDS
    return FORMS[kind]


def leaf(chance: Random, scope: Scope, kind: str) -> Term:
    columns = scope.get(kind, [])
    if columns and chance.random() < 0.85:
        return Term(kind, chance.choice(columns))
    return Term(kind, "NULL" if chance.random() < 0.06 else chance.choice(CONSTANTS[kind]))


def condition(chance: Random, scope: Scope, depth: int = 2) -> Term:
    """Return a random condition."""
    return term(chance, scope, "bool", depth)


def simpler(whole: Term, scope: Scope) -> Iterator[Term]:
    """Yield expressions of the same kind that are a little smaller."""
    if not whole.parts:
        return
    yield from (part for part in whole.parts if part.kind == whole.kind)
    leaves = [*scope.get(whole.kind, []), *CONSTANTS.get(whole.kind, [])[:2]]
    yield from (Term(whole.kind, each) for each in leaves)
    for place, part in enumerate(whole.parts):
        for other in simpler(part, scope):
            yield replace(whole, parts=(*whole.parts[:place], other, *whole.parts[place + 1 :]))
