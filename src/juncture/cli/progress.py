"""Progress of a command: one line per step, with a bar if the total is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from juncture.cli.console import messages


@dataclass(frozen=True)
class Step:
    """The progress of a step, updated from any thread."""

    progress: Progress
    task: TaskID
    description: str

    def advance(self, amount: int) -> None:
        """Add to the completed amount."""
        self.progress.advance(self.task, amount)

    def update(self, done: int, total: int) -> None:
        """Set the completed and the total amount."""
        self.progress.update(self.task, completed=done, total=total or None)

    def phase(self, name: str, done: int, total: int) -> None:
        """Set the completed and the total amount of a phase."""
        self.progress.update(self.task, description=f"{self.description}: {name}", completed=done, total=total or None)


@contextmanager
def step(description: str, *, total: int | None = None) -> Iterator[Step]:
    """Show a step on standard error while the block runs: a bar on a terminal, elsewhere a line at the end."""
    console = messages()
    progress = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<27}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    started_s = time.monotonic()
    with progress:
        task = progress.add_task(description, total=total)
        yield Step(progress, task, description)
        done = progress.tasks[0].total or 1
        progress.update(task, description=description, completed=done, total=done)
    if not console.is_terminal:
        console.print(f"{description}: {time.monotonic() - started_s:.1f} s", soft_wrap=True)
