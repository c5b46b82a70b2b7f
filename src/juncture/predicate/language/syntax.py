"""The syntax of predicates: SQL text in Spark's dialect, parsed into a tree without columns and types."""

from __future__ import annotations

import re

from juncture.errors import SpecError, wrong_type
from juncture.predicate.language.functions import FUNCTIONS
from juncture.predicate.language.syntax_tree import Tree, pointer

COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
"""The comparison operators, and their names in nodes."""


_TOKEN = re.compile(
    r"""(?:\s+|--[^\n]*|/\*.*?\*/)*(?:
    (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?(?:bd|[lsyfd])?(?!\w))
    |(?P<binary>x'[^']*')
    |(?P<raw>r'[^']*'|r"[^"]*")
    |(?P<text>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    |(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
    |(?P<quoted>`[^`]*(?:``[^`]*)*`)
    |(?P<open>['"`]|/\*)
    |(?P<symbol><=>|<=|>=|<>|!=|==|\|\||::|.)
    |(?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|[01][0-7]{2}|.)|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}

_PLAIN = re.compile(r"-?\d{1,18}+(?:\.\d{1,18}+)?(?![\w.])|'[^'\\]*'")
_PLAIN_LIST = re.compile(rf"\s*+(?:(?:{_PLAIN.pattern})\s*+,\s*+)+")
"""Many constants, each with a comma behind it. They are matched all at once, in a tenth of the time.

A possessive quantifier around a group may end within it, in Python before 3.11.5.
"""

_LOOSEST, _OR, _AND, _NOT, _RELATION, _BITS, _SUM, _PRODUCT, _SIGN = range(9)
"""The precedence of operators."""

_BINDING = {"OR": _OR, "AND": _AND, **dict.fromkeys(("+", "-", "||"), _SUM)}
_BINDING |= dict.fromkeys(("*", "/", "%", "DIV"), _PRODUCT)
_BINDING |= dict.fromkeys((*COMPARISONS, "BETWEEN", "IN", "IS", "LIKE", "NOT", "!"), _RELATION)
_KINDS = {_OR: "or", _AND: "and", _SUM: "sum", _PRODUCT: "product"}
_UNKNOWN = {"ILIKE": "ILIKE", "RLIKE": "RLIKE", "REGEXP": "REGEXP", "|": "|", "&": "&", "^": "^", "[": "[…]"}
"""Operators of Spark that predicates do not support."""

_QUERIES = frozenset(["SELECT", "WITH", "VALUES", "FROM", "EXISTS"])
_NO_OPERANDS = frozenset(["AND", "OR", "NOT", "BETWEEN", "IN", "IS", "AS", "DIV", "LIKE", *_UNKNOWN])
_NO_UNITS = _NO_OPERANDS | {"WHEN", "THEN", "ELSE", "END"}
_MOMENTS = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
_MOST_NESTED = 100  # the greatest nesting depth of parentheses, functions and signs


def read_sql(text: str) -> Tree:
    """Return the syntax tree of a text; raise SpecError with the place of an error. Costs about 1 µs per word."""
    if not isinstance(text, str):
        raise wrong_type("predicate", text, "a string", 'SQL, such as "l.a > r.b - 3"')
    if not text.strip():
        raise SpecError(
            'The predicate is empty. Expected a condition, such as "l.a > r.b - 3".', name="JN-PREDICATE-SYNTAX"
        )
    return _Parser(text).read()


class _Parser:
    """A recursive-descent parser. Operators of equal precedence are collected into one tree."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nested = 0
        self._end = self._last = 0
        self._advance()

    def read(self) -> Tree:
        """Return the tree of the whole text."""
        tree = self._expression(_LOOSEST)
        more = not (self._is(";") and not self._text[self._end :].strip())
        if self._kind == "end" or not more:
            return tree
        if self._is(";", *_QUERIES):
            raise self._no_query()
        if self._kind in ("name", "quoted"):
            raise self._error(
                f"{self._text[self._start : self._end]!r} is unexpected here. Expected an operator, such as AND."
            )
        raise self._unreadable(f"{self._text[self._start : self._end]!r} is unexpected here")

    def _advance(self) -> None:
        self._last = self._end
        match = _TOKEN.match(self._text, self._end)
        assert match is not None
        assert match.lastgroup is not None
        self._kind = match.lastgroup
        self._start, self._end = match.span(self._kind)
        self._word = match[self._kind]
        if self._kind == "name":
            self._word = self._word.upper()
        elif self._kind == "open":
            self._start = self._last = len(self._text.rstrip()) - 1
            raise self._unreadable("a quote or comment is not closed")

    def _error(
        self, message: str, start: int | None = None, end: int | None = None, *, name: str = "JN-PREDICATE-SYNTAX"
    ) -> SpecError:
        """Return an error located at a place, by default at the current word."""
        span = self._start if start is None else start, self._end if end is None else end
        return SpecError(f"{message}\n{pointer(self._text, *span)}", name=name)

    def _unreadable(self, why: str) -> SpecError:
        at_end = self._kind == "end"
        start = max(0, self._last - 1) if at_end else self._start
        return self._error(f"The predicate cannot be read: {why}.", start, start + 1 if at_end else None)

    def _no_query(self) -> SpecError:
        return self._error(
            "A predicate is a single condition. Remove SELECT, subqueries and semicolons.", name="JN-PREDICATE-QUERY"
        )

    def _unknown(self, name: str, start: int) -> SpecError:
        return self._error(
            f"{name} is not supported in predicates. Expected columns, literals, + - * / % div ||, comparisons, "
            f"BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, CASE, or one of the functions {', '.join(FUNCTIONS)}.",
            start,
            self._last,
            name="JN-PREDICATE-OPERATOR",
        )

    def _expect(self, symbol: str) -> None:
        if self._word != symbol or self._kind not in ("symbol", "name"):
            start = max(0, self._last - 1)
            raise self._error(f"The predicate cannot be read: expected {symbol!r} here.", start, start + 1)
        self._advance()

    def _is(self, *words: str) -> bool:
        """Return whether one of some words or symbols is next."""
        return self._word in words and self._kind in ("name", "symbol")

    def _take(self, *words: str) -> bool:
        """Skip one of some words or symbols if it is next, and return whether it was."""
        is_next = self._is(*words)
        if is_next:
            self._advance()
        return is_next

    def _inside(self, least: int) -> Tree:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise self._error(
                f"The predicate is nested more than {_MOST_NESTED} levels deep. Compute a part of it as a column "
                "before the join.",
                name="JN-PREDICATE-DEPTH",
            )
        tree = self._expression(least)
        self._nested -= 1
        return tree

    def _expression(self, least: int) -> Tree:
        """Return the expression up to an operator that binds less tightly than ``least``."""
        tree = self._operand(least)
        while self._kind in ("symbol", "name"):
            word = self._word
            if word in _UNKNOWN:
                self._advance()
                if word != "[":
                    self._expression(_SUM)
                raise self._unknown(_UNKNOWN[word], tree.start)
            if word == "::":
                self._advance()
                data_type = self._type()
                tree = Tree("cast", tree.start, self._last, data_type, (tree,))
                continue
            binding = _BINDING.get(word, -1)
            if binding < max(least, 0):
                break
            tree = self._relation(tree) if binding == _RELATION else self._chain(tree, binding)
        return tree

    def _chain(self, first: Tree, binding: int) -> Tree:
        """Return all operands connected by operators of one precedence."""
        operands, operators = [first], []
        while self._kind in ("symbol", "name") and _BINDING.get(self._word) == binding:
            operators.append(self._word)
            self._advance()
            operands.append(self._expression(binding + 1))
        return Tree(_KINDS[binding], first.start, operands[-1].end, tuple(operators), tuple(operands))

    def _relation(self, operand: Tree) -> Tree:
        """Return a comparison, which is an operand of another one only in parentheses."""
        tree = self._one_relation(operand)
        if self._kind in ("symbol", "name") and _BINDING.get(self._word) == _RELATION:
            end = self._one_relation(tree).end
            message = "Comparisons cannot be chained. Connect them with AND, or put one of them in parentheses."
            raise self._error(message, operand.start, end)
        return tree

    def _one_relation(self, operand: Tree) -> Tree:
        start, word = operand.start, self._word
        self._advance()
        if word in COMPARISONS:
            other = self._expression(_BITS)
            return Tree("compare", start, other.end, COMPARISONS[word], (operand, other))
        if word == "IS":
            return self._is_something(operand)
        opposite = word in ("NOT", "!")
        if opposite:
            word = self._word
            if not self._is("BETWEEN", "IN", "LIKE", *_UNKNOWN):
                raise self._unreadable("expected BETWEEN, IN or LIKE after NOT")
            self._advance()
        if word == "BETWEEN":
            tree = self._between(operand)
        elif word == "IN":
            tree = self._in(operand)
        elif word == "LIKE":
            tree = self._like(operand)
        else:
            self._expression(_BITS)
            raise self._unknown(_UNKNOWN[word], start)
        return Tree("not", start, tree.end, None, (tree,)) if opposite else tree

    def _between(self, operand: Tree) -> Tree:
        if self._is("SYMMETRIC"):
            raise self._error(
                "BETWEEN SYMMETRIC is not supported. Order the bounds with least(…) and greatest(…).",
                name="JN-PREDICATE-OPERATOR",
            )
        self._take("ASYMMETRIC")
        low = self._expression(_BITS)
        self._expect("AND")
        high = self._expression(_BITS)
        return Tree("between", operand.start, high.end, None, (operand, low, high))

    def _like(self, operand: Tree) -> Tree:
        pattern, escape = self._expression(_BITS), None
        if self._take("ESCAPE"):
            escape = self._text_literal().value
        return Tree("like", operand.start, self._last, escape, (operand, pattern))

    def _case(self) -> Tree:
        """Return the conditions and values of a CASE. An operand after CASE is compared with each condition."""
        start = self._start
        self._advance()
        operands = () if self._is("WHEN") else (self._inside(_LOOSEST),)
        parts: list[Tree] = []
        while self._take("WHEN"):
            parts.append(self._inside(_LOOSEST))
            self._expect("THEN")
            parts.append(self._inside(_LOOSEST))
        if not parts:
            raise self._unreadable("expected WHEN after CASE")
        otherwise = (self._inside(_LOOSEST),) if self._take("ELSE") else ()
        self._expect("END")
        return Tree("case", start, self._last, (len(operands), len(otherwise)), (*operands, *parts, *otherwise))

    def _in(self, operand: Tree) -> Tree:
        start = self._start
        options: list[Tree] = []
        while not options or self._is(","):
            plain = self._plain_list() if self._is("(", ",") else []
            self._expect("," if options else "(")
            if not options and self._is(")", *_QUERIES):
                raise self._error("IN needs a list of values, such as IN (1, 2).", start)
            options += [*plain, self._inside(_BITS)]
        self._expect(")")
        return Tree("in", operand.start, self._last, None, (operand, *options))

    def _plain_list(self) -> list[Tree]:
        """Return the constants after a parenthesis or comma, without moving past that symbol."""
        match = _PLAIN_LIST.match(self._text, self._end)
        if match is None:
            return []
        self._end = match.end()
        return [Tree("list", match.start(), match.end(), tuple(_PLAIN.findall(match[0])))]

    def _is_something(self, operand: Tree) -> Tree:
        opposite = self._take("NOT", "!")
        if self._take("NULL", "UNKNOWN"):
            tree = Tree("is null", operand.start, self._last, None, (operand,))
        elif self._is("TRUE", "FALSE"):
            truth = self._operand(_SIGN)
            tree = Tree("is", operand.start, truth.end, None, (operand, truth))
        elif self._take("DISTINCT"):
            self._expect("FROM")
            other = self._expression(_BITS)
            tree = Tree("compare", operand.start, other.end, "<=>", (operand, other))
            opposite = not opposite
        else:
            raise self._error(
                "IS must be followed by NULL, TRUE, FALSE or DISTINCT FROM. To compare values, use = or <=>.",
                operand.start,
            )
        return Tree("not", operand.start, tree.end, None, (tree,)) if opposite else tree

    def _operand(self, least: int) -> Tree:
        """Return a single value, or a sign or parenthesis with its operand."""
        start, kind, word = self._start, self._kind, self._word
        if kind in ("text", "raw"):
            return self._text_literal()
        if kind == "number" or kind == "binary":
            self._advance()
            return Tree(kind, start, self._last, word)
        if kind == "quoted":
            return self._column(start, self._names())
        if kind == "name":
            return self._named(least)
        if word in "+-" and kind == "symbol":
            return self._signed(word)
        if word == "!" and least <= _NOT:
            return self._negation()
        if word == "(" and kind == "symbol":
            self._advance()
            tree = self._inside(_LOOSEST)
            self._expect(")")
            return tree._replace(start=start, end=self._last)
        if word == "*":
            raise self._error("'*' is not a column. Write the name of a column.")
        raise self._unreadable("an operand is missing here")

    def _signed(self, sign: str) -> Tree:
        start = self._start
        self._advance()
        if sign == "-" and self._kind == "number":
            number = self._word
            self._advance()
            return Tree("number", start, self._last, f"-{number}")
        operand = self._inside(_SIGN)
        return Tree("neg", start, operand.end, None, (operand,)) if sign == "-" else operand._replace(start=start)

    def _negation(self) -> Tree:
        start = self._start
        self._advance()
        operand = self._inside(_NOT)
        return Tree("not", start, operand.end, None, (operand,))

    def _named(self, least: int) -> Tree:
        """Return what starts with a word: a constant, a function or a column."""
        start, word = self._start, self._word
        if word == "NOT" and least <= _NOT:
            return self._negation()
        if word in _QUERIES and self._peek() in ("number", "text", "name", "quoted", "(", "*"):
            raise self._no_query()
        if word in ("TRUE", "FALSE", "NULL"):
            self._advance()
            return Tree("constant", start, self._last, word)
        if word == "CASE" and self._peek() in ("name", "quoted", "number", "text"):
            return self._case()
        if word in _NO_OPERANDS:
            raise self._unreadable("an operand is missing here")
        if word in _MOMENTS and self._peek() in ("text", "raw"):
            self._advance()
            text = self._text_literal()
            return Tree("moment", start, text.end, (word, text.value))
        if word == "INTERVAL" and self._peek() in ("number", "text", "raw", "-", "+", "name", "quoted", "("):
            return self._interval()
        names = self._names()
        return self._call(start, ".".join(names)) if self._is("(") else self._column(start, names)

    def _peek(self) -> str:
        """Return the symbol after the current word, or the kind of the token there."""
        match = _TOKEN.match(self._text, self._end)
        assert match is not None
        assert match.lastgroup is not None
        return match[0].strip() if match.lastgroup == "symbol" else match.lastgroup

    def _column(self, start: int, names: list[str]) -> Tree:
        while self._take("."):
            if self._is("*"):
                raise self._error("'*' is not a column. Write the name of a column.", start)
            names += self._names()
        return Tree("column", start, self._last, tuple(names))

    def _names(self) -> list[str]:
        """Return a name, or several that are connected by dots."""
        if self._kind not in ("name", "quoted"):
            raise self._unreadable("the name of a column is missing here")
        written = self._text[self._start : self._end]
        names = [written[1:-1].replace("``", "`")] if self._kind == "quoted" else written.split(".")
        self._advance()
        return names

    def _call(self, start: int, name: str) -> Tree:
        self._advance()
        if name.upper() in ("CAST", "TRY_CAST"):
            operand = self._inside(_LOOSEST)
            self._expect("AS")
            data_type = self._type()
            self._expect(")")
            return Tree("cast", start, self._last, data_type, (operand,))
        if self._take(")"):
            return Tree("call", start, self._last, name)
        items = [self._inside(_LOOSEST)]
        while self._take(","):
            items.append(self._inside(_LOOSEST))
        self._expect(")")
        return Tree("call", start, self._last, name, tuple(items))

    def _type(self) -> tuple[str, tuple[str, ...]]:
        """Return the name of a type and its sizes; of an unknown type, all of its text."""
        start, name = self._start, self._word
        if self._kind != "name":
            raise self._unreadable("the name of a type is missing here")
        self._advance()
        sizes: list[str] = []
        if self._take("("):
            while self._kind == "number" and self._word.isdigit():
                sizes.append(self._word)
                self._advance()
                self._take(",")
            self._expect(")")
        nested = 0
        while self._is("<") or nested:
            nested += self._word.count("<") - self._word.count(">")
            name = ""
            if self._kind == "end":
                raise self._unreadable("expected '>' here")
            self._advance()
        return name or self._text[start : self._last], tuple(sizes)

    def _text_literal(self) -> Tree:
        """Return a text; adjacent texts are concatenated."""
        start, parts = self._start, []
        while self._kind in ("text", "raw"):
            parts.append(self._word[2:-1] if self._kind == "raw" else _ESCAPE.sub(_unescaped, self._word[1:-1]))
            self._advance()
        try:
            # Two surrogates, each written as an escape, form one character.
            text = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._error(
                "The text contains half of a surrogate pair. Write both halves, or the character itself.",
                start,
                self._last,
            ) from None
        return Tree("text", start, self._last, text)

    def _interval(self) -> Tree:
        """Return an interval: a text with or without a unit, or numbers with units; or a column named INTERVAL."""
        start, name = self._start, self._text[self._start : self._end]
        self._advance()
        if self._is("(") or (self._kind in ("name", "quoted") and self._word not in _NO_OPERANDS):
            message = "INTERVAL needs a constant length. For a length from a column, write column * INTERVAL 1 SECOND."
            raise self._error(message, start)
        parts: list[tuple[str, str | None]] = []
        while not parts or (parts[-1][1] is not None and self._kind in ("number", "text", "raw")):
            sign = self._word if self._is("-", "+") else ""
            self._take("-", "+")
            is_number = self._kind == "number"
            value = self._word if is_number else self._text_literal().value
            if is_number:
                self._advance()
            unit = self._unit()
            if (is_number and unit is None) or not value:
                if sign and not parts:
                    # A column named INTERVAL, minus something.
                    return self._restart(start, name)
                raise self._unreadable("the unit of the INTERVAL is missing here, such as SECONDS")
            parts.append((f"{sign}{value}", unit))
        if len(parts) == 1:
            return Tree("interval", start, self._last, parts[0])
        return Tree("interval", start, self._last, (" ".join(f"{value} {unit}" for value, unit in parts), None))

    def _restart(self, start: int, name: str) -> Tree:
        """Move back to the end of a name, and return the column."""
        self._end = start + len(name)
        self._advance()
        return Tree("column", start, start + len(name), (name,))

    def _unit(self) -> str | None:
        """Return the unit that is next, or None: a word, or two as in ``HOUR TO MINUTE``."""
        if self._kind != "name" or self._word in _NO_UNITS:
            return None
        unit = self._text[self._start : self._end]
        self._advance()
        if self._take("TO"):
            unit = f"{unit} TO {self._text[self._start : self._end]}"
            self._advance()
        return unit


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return match[0][0]
    if code[0] in "uU" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)
