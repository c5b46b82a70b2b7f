"""`make demo-changes`: a shop in PostgreSQL, and a query over it that is kept up to date."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from juncture.cli.console import results
from juncture.cli.progress import step
from juncture.cli.show import count, heading

if TYPE_CHECKING:
    from juncture.incremental.follow import FollowProgress

_TABLES = ("customers", "books", "sales")

_QUERY = """
SELECT customers.country AS country, count(*) AS sales, sum(sales.price) AS total
FROM sales
JOIN customers ON sales.customer_id = customers.id
JOIN books ON sales.book_id = books.id
WHERE books.in_print
GROUP BY customers.country
"""

_SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, country text NOT NULL)",
    "CREATE TABLE books (id int PRIMARY KEY, in_print boolean NOT NULL)",
    (
        "CREATE TABLE sales (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int, book_id int, "
        "price numeric(8, 2))"
    ),
    *(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in _TABLES),
    (
        "INSERT INTO customers SELECT i, (ARRAY['Chile', 'France', 'Ghana', 'India', 'Japan', 'Norway'])[1 + i % 6] "
        "FROM generate_series(1, 5000) i"
    ),
    "INSERT INTO books SELECT i, i % 10 > 0 FROM generate_series(1, 500) i",
    (
        "INSERT INTO sales (customer_id, book_id, price) SELECT 1 + i * 7 % 5000, 1 + i * 13 % 500, 5 + i % 2000 * 0.01"
        " FROM generate_series(1, 100000) i"
    ),
)

_SHOWN_S = 0.25
"""Seconds between updates of the display."""


def changes(
    seconds: Annotated[int, typer.Option("--seconds", "-s", min=1, help="Duration of the sales, in seconds.")] = 15,
) -> None:
    """Keep the revenue of a shop in PostgreSQL up to date while it sells.

    A server is started with 100,000 sales of 500 books to 5,000 customers. A query with two joins and a total for each
    country is computed once. Then it is maintained while the shop sells, takes returns and changes prices, customers
    move, and books go out of print. At the end, the maintained table is compared with the result of the query on the
    server.
    """
    from juncture.datasets.postgres_server import temporary_postgres

    console = results()
    with tempfile.TemporaryDirectory(prefix="juncture-") as folder, _started(temporary_postgres()) as dsn:
        with step("Filling the shop"):
            shop = _Shop.of(dsn)
        console.print(heading("The query"), Text(_QUERY.strip(), style="dim"))
        shown = _follow(shop, Path(folder, "state"), seconds, console)
        began_s = time.monotonic()
        expected = shop.rows(f"{_QUERY} ORDER BY country")
        query_s = time.monotonic() - began_s
        if shop.rows("SELECT country, sales, total FROM revenue ORDER BY country") != expected:
            raise RuntimeError("The maintained table differs from the result of the query on the server.")
    console.print(heading(f"Equal to the query on the server: {count(len(expected))}"))
    usual_ms = sorted(shown.took_ms)[len(shown.took_ms) // 2]
    console.print(
        f"{shown.rows:,} changes in {shown.transactions:,} transactions and {shown.epochs:,} epochs. From the change "
        f"to the table an epoch took {usual_ms:.0f} ms; the query takes {query_s * 1000:.0f} ms.",
        soft_wrap=True,
    )


@contextmanager
def _started(server: Any) -> Iterator[str]:
    """Start a server, and report it."""
    with step("Starting PostgreSQL"):
        dsn = server.__enter__()
    try:
        yield dsn
    finally:
        server.__exit__(None, None, None)


@dataclass(frozen=True)
class _Shop:
    """A database, with one connection for queries and one for sales."""

    dsn: str
    looking: Any
    selling: Any

    @classmethod
    def of(cls, dsn: str) -> _Shop:
        """Create and fill a database."""
        import psycopg

        shop = cls(dsn, *(psycopg.connect(dsn, autocommit=True) for _ in range(2)))
        for statement in _SHOP:
            shop.selling.execute(statement)
        return shop

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        found: list[tuple[Any, ...]] = self.looking.execute(query).fetchall()
        return found

    def sell(self, stopped: threading.Event) -> None:
        """Run transactions until stopped, most of them sales."""
        choose = random.Random(7)
        while not stopped.is_set():
            with self.selling.transaction(), self.selling.pipeline():
                for _ in range(choose.randint(1, 20)):
                    self.selling.execute(
                        "INSERT INTO sales (customer_id, book_id, price) VALUES (%s, %s, %s)",
                        [choose.randint(1, 5000), choose.randint(1, 500), choose.randint(500, 3000) / 100],
                    )
                one = choose.randint(1, 100_000)
                match choose.randrange(24):
                    case 0 | 1 | 2:
                        self.selling.execute("DELETE FROM sales WHERE id = %s", [one])
                    case 3 | 4:
                        self.selling.execute("UPDATE sales SET price = price / 2 WHERE id = %s", [one])
                    case 5 | 6:
                        self.selling.execute("UPDATE customers SET country = 'Peru' WHERE id = %s", [one % 5000 + 1])
                    case 7:
                        self.selling.execute("UPDATE books SET in_print = NOT in_print WHERE id = %s", [one % 500 + 1])
            stopped.wait(0.01)


def _follow(shop: _Shop, state: Path, seconds: int, console: Console) -> _Shown:
    """Maintain the query while the shop sells, and until all changes are applied."""
    from juncture.joins.changing import view
    from juncture.joins.following import follow, into_postgres, postgres

    shown, stopped = _Shown(), threading.Event()
    source = postgres(shop.dsn, _TABLES)
    with view(state, _QUERY, sources=source.tables) as kept:
        sink = into_postgres(shop.dsn, "revenue", key="country")
        with follow(kept, source, sink, on_epoch=shown.take) as follower:
            with step("Computing the result once"):
                follower.start()
            shown.first = shop.rows("SELECT country, total FROM revenue")
            seller = threading.Thread(target=shop.sell, args=[stopped], daemon=True)
            seller.start()
            try:
                with _screen(console) as show:
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        follower.run(timeout_s=_SHOWN_S)
                        show(shown.view(shop.rows("SELECT country, sales, total FROM revenue ORDER BY country")))
            finally:
                stopped.set()
                seller.join()
            while follower.step(1.0) is not None:
                pass
    return shown


@contextmanager
def _screen(console: Console) -> Iterator[Any]:
    """Yield a function that displays the result: in place on a terminal, otherwise every two seconds."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda view: live.update(view, refresh=True)
        return
    shown_s = 0.0

    def show(view: RenderableType) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s > 2:
            shown_s = time.monotonic()
            console.print(view)

    yield show


@dataclass
class _Shown:
    """Counts of the applied changes."""

    first: list[tuple[Any, ...]] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    epochs: int = 0
    transactions: int = 0
    rows: int = 0

    def take(self, epoch: FollowProgress) -> None:
        """Add the counts of an epoch."""
        if epoch.transactions:
            self.epochs += 1
            self.transactions += epoch.transactions
            self.rows += epoch.input_rows
            self.took_ms.append(epoch.duration_s * 1000)

    def view(self, rows: list[tuple[Any, ...]]) -> Group:
        """Return the current result, compared with the first one."""
        table = Table(box=None, header_style="dim")
        table.add_column("country")
        for name in ("sales", "total", "since the start"):
            table.add_column(name, justify="right")
        before = dict(self.first)
        for country, sales, total in rows:
            table.add_row(country, f"{sales:,}", f"{total:,.2f}", f"{total - before.get(country, 0):+,.2f}")
        everything = sum(row[2] for row in rows)
        gained = everything - sum(before.values())
        table.add_row("all", f"{sum(row[1] for row in rows):,}", f"{everything:,.2f}", f"{gained:+,.2f}", style="bold")
        epochs = f"{self.transactions:,} transactions, {self.rows:,} changes, {self.epochs:,} epochs"
        return Group(table, Text(epochs, style="dim"))
