"""Random conditions over the columns of two tables, in the SQL of predicates."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["Terms", "condition"]

COMPARISONS = ("=", "<", "<=", ">", ">=", "<>", "<=>", "<", ">", "=")

NUMBERS = ("0", "1", "2", "-1", "0.5", "3L", "1e0", "100", "1.25")
SPANS = ("INTERVAL 1 SECOND", "INTERVAL 2 SECONDS", "INTERVAL 1 DAY", "INTERVAL '0.5' SECOND", "INTERVAL 36 HOURS")
LITERALS = {
    "integer": NUMBERS,
    "float": (*NUMBERS, "0.1D", "1e308"),
    "decimal": (*NUMBERS, "0.25", "12BD"),
    "date": ("DATE '1970-01-02'", "'1970-01-03'", "DATE '2024-02-29'"),
    "timestamp": ("TIMESTAMP '1970-01-01 00:00:01'", "'1970-01-01 00:00:02'", "TIMESTAMP '2024-02-29 12:30:00.5'"),
    "string": ("'a'", "'b'", "''", "'é'", "'a|b'"),
    "binary": ("X'61'", "X''", "X'00FF'"),
    "boolean": ("TRUE", "FALSE"),
    "duration": SPANS,
    "null": ("NULL", "1"),
}
DISTANCES = {"integer": NUMBERS, "float": NUMBERS, "decimal": NUMBERS, "date": SPANS[2:3], "timestamp": SPANS}
CASTS = {
    "integer": ("INT", "TINYINT", "BIGINT", "DOUBLE", "DECIMAL(9, 3)", "BOOLEAN"),
    "float": ("FLOAT", "DOUBLE", "INT"),
    "decimal": ("DECIMAL(20, 0)", "DECIMAL(9, 3)", "DOUBLE", "BIGINT"),
    "date": ("TIMESTAMP_NTZ",),
    "timestamp": ("DATE",),
}


CHOICES = ("coalesce({0}, {1})", "coalesce({0}, {2})", "CASE WHEN {0} = {1} THEN {1} ELSE {2} END")
"""Functions of a column, another one and a literal."""
FUNCTIONS = {
    "integer": (*CHOICES, "floor({0})", "round({0}, 1)", "{0} % 3", "{0} % {1}", "{0} div 2"),
    "float": (*CHOICES, "floor({0})", "ceil({0})", "round({0}, 1)", "{0} % 2"),
    "decimal": (*CHOICES, "floor({0})", "ceil({0})", "round({0}, 1)", "{0} % {1}"),
    "timestamp": (*CHOICES, "date_trunc('hour', {0})", "date_trunc('month', {0})"),
    "string": (*CHOICES, "upper({0})", "lower({0})", "{0} || {1}"),
}


@dataclass(frozen=True)
class Terms:
    """The columns of one kind that a condition may compare, as SQL names them."""

    kind: str
    left: tuple[str, ...]
    right: tuple[str, ...]


def condition(chance: Random, terms: list[Terms], parts: int = 3) -> str:
    """Return a condition of up to so many parts, most of which tie a left row to a right one."""
    chosen = [part(chance, chance.choice(terms)) for _ in range(chance.randint(1, parts))]
    connective = chance.choice([" AND ", " AND ", " AND ", " OR "])
    return connective.join(f"({each})" for each in chosen)


def part(chance: Random, terms: Terms) -> str:
    """Return a comparison, or what is made of one."""
    left, right = expression(chance, terms, terms.left), expression(chance, terms, terms.right)
    shape = chance.random()
    if shape < 0.45:
        return f"{left} {chance.choice(COMPARISONS)} {right}"
    if shape < 0.55:
        ends = expression(chance, terms, terms.right), expression(chance, terms, terms.right)
        return f"{left} BETWEEN {ends[0]} AND {ends[1]}"
    if shape < 0.62 and len(terms.left) > 1 and len(terms.right) > 1:
        return f"{terms.left[0]} < {terms.right[1]} AND {terms.right[0]} < {terms.left[1]}"
    if shape < 0.65 and terms.kind == "string":
        return (
            chance.choice(["{} LIKE 'a%'", "{} LIKE '_'", "startswith({}, 'a')"]).format(left)
            + f" AND {left} = {right}"
        )
    if shape < 0.68:
        side = chance.choice([terms.left, terms.right])
        return f"{chance.choice(side)} {chance.choice(COMPARISONS)} {literal(chance, terms)}"
    if shape < 0.75:
        options = [literal(chance, terms) for _ in range(chance.randint(1, 3))]
        return f"{left} {chance.choice(['IN', 'IN', 'NOT IN'])} ({', '.join([*options, right])})"
    if shape < 0.8:
        return f"{chance.choice([left, right])} IS {chance.choice(['NULL', 'NOT NULL'])}"
    if shape < 0.85:
        return f"NOT ({part(chance, terms)})"
    if shape < 0.9 and terms.kind in ("integer", "float", "decimal"):
        return f"abs({left} - {right}) <= {literal(chance, terms)}"
    if shape < 0.95:
        return f"({part(chance, terms)}) {chance.choice(['OR', 'AND'])} ({part(chance, terms)})"
    extreme = chance.choice(["least", "greatest"])
    return f"{extreme}({left}, {right}) {chance.choice(COMPARISONS)} {expression(chance, terms, terms.left)}"


def expression(chance: Random, terms: Terms, names: tuple[str, ...]) -> str:
    """Return a column, or a sum, product or conversion of one."""
    name, shape = chance.choice(names), chance.random()
    if shape < 0.15:
        return chance.choice(FUNCTIONS.get(terms.kind, CHOICES)).format(
            name, chance.choice(names), literal(chance, terms)
        )
    if shape < 0.65 or terms.kind not in DISTANCES:
        return name
    if shape < 0.85:
        return f"{name} {chance.choice('+-')} {chance.choice(DISTANCES[terms.kind])}"
    if shape < 0.92 and terms.kind in ("integer", "float", "decimal"):
        return chance.choice([f"{name} * {literal(chance, terms)}", f"{name} + {chance.choice(names)}", f"-{name}"])
    return f"{chance.choice(['CAST', 'TRY_CAST'])}({name} AS {chance.choice(CASTS[terms.kind])})"


def literal(chance: Random, terms: Terms) -> str:
    return chance.choice(LITERALS[terms.kind]) if chance.random() < 0.97 else "NULL"
