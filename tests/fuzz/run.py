"""A run: cases one after the other, in several processes, until the time is over."""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from textwrap import indent
from typing import Any

from fuzz.kind import Case, Kind, Outcome
from fuzz.kinds import KINDS
from fuzz.shrink import shrink
from fuzz.tally import Tally
from juncture.planner.decision import Engine

__all__ = ["Settings", "main", "run_cases", "scratch", "try_case"]

Judge = Callable[[Case, Path], Outcome]

SHRUNK_MOST = 2
"""How many cases are shrunk that fail for what looks like one reason."""

REPORT_S = 10.0
HUNG_S = 300.0
"""How long a case may take. The first ones wait for kernels to be compiled."""


@dataclass(frozen=True)
class Settings:
    """What to run.

    Attributes
    ----------
    seed
        What all cases follow from.
    kind
        The name of a kind of case in `fuzz.kinds`.
    engine
        ``local`` or ``spark``.
    cases
        The most cases; None for as many as there is time for.
    until
        When to stop, by the clock.
    shrink_s
        How long to make a case smaller that fails.
    """

    seed: int
    kind: str = "joins"
    engine: Engine = "local"
    cases: int | None = None
    until: float = float("inf")
    shrink_s: float = 20.0

    def draw(self, number: int) -> Case:
        """Return the case of a number."""
        return KINDS[self.kind].draw(self.seed, number, self.engine)

    @property
    def cases_of(self) -> Kind:
        return KINDS[self.kind]


def try_case(
    settings: Settings,
    number: int,
    tally: Tally,
    folder: Path,
    judge: Judge,
    shrunk: Counter[str] | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a case and count it. Of those that fail for one reason, the first few are shrunk.

    Parameters
    ----------
    settings, number
        Which case it is.
    tally
        Where it is counted.
    folder
        An empty folder.
    judge
        What judges cases.
    shrunk
        How many cases have been shrunk, by the reason why they failed.
    beat
        Called before each case is judged.
    """
    kind, case = settings.cases_of, settings.draw(number)
    shrunk = Counter() if shrunk is None else shrunk

    def judged(case: Case) -> Outcome:
        beat()
        return judge(case, folder)

    outcome = judged(case)
    tally.add(number, outcome, {} if outcome.status == "refused" else kind.facts(case))
    if outcome.status != "failed":
        return outcome
    text = ""
    shrunk[outcome.signature] += 1
    if shrunk[outcome.signature] <= SHRUNK_MOST:

        def fails(other: Case) -> bool:
            return judged(other).signature == outcome.signature

        small = shrink(case, kind.smaller, fails, seconds=settings.shrink_s)
        last = judged(small)
        title = f"Case {number} of seed {settings.seed}: {outcome.signature}"
        text = f"# {title}\n{kind.script(small, last)}\n{indent(last.detail, '# ')}"
    tally.fail(number, outcome.signature, text)
    return outcome


def run_cases(settings: Settings, numbers: Iterable[int]) -> Tally:
    """Run some cases in this process."""
    tally, shrunk, judge = Tally(), Counter[str](), settings.cases_of.judge(settings.engine)
    with scratch() as folder:
        for number in numbers:
            try_case(settings, number, tally, folder, judge, shrunk)
    return tally


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for files, in memory where the system has such folders."""
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory if in_memory.is_dir() else None) as folder:
        yield Path(folder)


def work(settings: Settings, first: int, step: int, progress: Any, sent: Connection) -> None:
    """Run every so manieth case until the time is over, and send what was seen now and then.

    ``progress`` holds the number of the case that is under way, and how many cases were begun.
    """
    faulthandler.enable()
    judge = settings.cases_of.judge(settings.engine)
    tally, shrunk, reported = Tally(), Counter[str](), time.monotonic()

    def beat() -> None:
        progress[1] += 1

    number = first
    with scratch() as folder:
        while time.time() < settings.until and (settings.cases is None or number < settings.cases):
            progress[0] = number
            outcome = try_case(settings, number, tally, folder, judge, shrunk, beat)
            if outcome.status == "failed" or time.monotonic() - reported > 1:
                sent.send(tally)
                tally, reported = Tally(), time.monotonic()
            number += step
    sent.send(tally)


class Worker:
    """A process that runs every so manieth case, and is started again where a case brings it down."""

    def __init__(self, settings: Settings, first: int, step: int) -> None:
        self._settings, self._step = settings, step
        self._start(first)

    def _start(self, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._progress = context.Array("q", [first, 0], lock=False)
        self.received, sent = context.Pipe(duplex=False)
        arguments = (self._settings, first, self._step, self._progress, sent)
        self._process = context.Process(target=work, args=arguments, daemon=self._settings.engine == "local")
        self._process.start()
        sent.close()
        self._beat, self._beat_at, self.is_done = 0, time.monotonic(), False

    def take(self, tally: Tally) -> list[str]:
        """Add what the process has sent, and return the scripts of what failed; start it again if it died."""
        scripts = []
        try:
            while self.received.poll():
                found = self.received.recv()
                scripts += [script for failure in found.failures.values() for script in failure.scripts]
                tally.merge(found)
        except EOFError:
            self._process.join()
            if self._process.exitcode == 0:
                self.is_done = True
            else:
                self._note(tally, f"the process ended with {self._process.exitcode}")
        if self._progress[1] != self._beat:
            self._beat, self._beat_at = self._progress[1], time.monotonic()
        elif not self.is_done and time.monotonic() - self._beat_at > HUNG_S:
            self._process.kill()
            self._process.join()
            self._note(tally, "the case does not end")
        return scripts

    def _note(self, tally: Tally, what: str) -> None:
        """Note a case that brought the process down, and go on with the next."""
        number = self._progress[0]
        tally.statuses["failed"] += 1
        kind, case = self._settings.cases_of, self._settings.draw(number)
        tally.fail(number, f"{kind.label(case)}: {what}", kind.script(case, None))
        self._start(number + self._step)


def run(settings: Settings, jobs: int) -> Tally:
    """Run cases in several processes, and print how far they are, and each new failure as it comes."""
    tally, workers = Tally(), [Worker(settings, first, jobs) for first in range(jobs)]
    started = reported = time.monotonic()
    while not all(worker.is_done for worker in workers):
        wait([worker.received for worker in workers if not worker.is_done], timeout=REPORT_S)
        for worker in workers:
            for text in worker.take(tally) if not worker.is_done else []:
                say(f"\n{text}\n")
        if time.monotonic() - reported > REPORT_S:
            reported = time.monotonic()
            say(progress_of(tally, reported - started))
    say(f"\n{tally.summary()}\n\n{progress_of(tally, time.monotonic() - started)}")
    return tally


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def progress_of(tally: Tally, elapsed_s: float) -> str:
    total = tally.statuses.total()
    counts = ", ".join(f"{tally.statuses[status]:,} {status}" for status in ("right", "refused", "failed"))
    return f"{total:,} cases in {elapsed_s:,.0f} s ({total / max(elapsed_s, 1e-9):,.0f}/s): {counts}"


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for, and return its exit status: 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="joins", help="what the cases are about")
    parser.add_argument("--seconds", type=float, default=60, help="how long to run each kind")
    parser.add_argument("--seed", type=int, help="what all cases follow from; by default another one each time")
    parser.add_argument("--engine", choices=["local", "spark"], default="local", help="where the joins run")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--cases", type=int, help="the most cases, however much time is left")
    parser.add_argument("--shrink", type=float, default=20, help="how many seconds to make a case smaller that fails")
    parser.add_argument("--case", type=int, help="run this case alone")
    asked = parser.parse_args(arguments)
    kinds = list(KINDS) if asked.kind == "all" else [asked.kind]
    able = [kind for kind in kinds if asked.engine in KINDS[kind].engines]
    if not able or (asked.case is not None and len(kinds) > 1):
        parser.error(f"Name one kind for --case, and one that runs on {asked.engine}.")
    seed = int(time.time()) if asked.seed is None else asked.seed
    failed = 0
    for kind in able:
        settings = Settings(seed, kind, asked.engine, asked.cases, time.time() + asked.seconds, asked.shrink)
        say(f"seed {seed}, {kind}, {asked.engine}")
        if asked.case is None:
            failed += run(settings, 1 if asked.engine == "spark" else asked.jobs).statuses["failed"]
        else:
            failed += run_one(settings, asked.case).statuses["failed"]
    return min(failed, 1)


def run_one(settings: Settings, number: int) -> Tally:
    """Run one case, and print it as a script."""
    tally = Tally()
    with scratch() as folder:
        outcome = try_case(settings, number, tally, folder, settings.cases_of.judge(settings.engine))
    scripts = [text for failure in tally.failures.values() for text in failure.scripts]
    say("\n".join([settings.cases_of.script(settings.draw(number), outcome), *scripts, tally.summary()]))
    return tally
