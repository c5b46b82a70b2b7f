"""Measures what the planner chooses, beside every other algorithm that applies: ``python benchmarks/planner.py``.

Results go to ``benchmarks/results/planner.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from them, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.command import main
from juncture_benchmarks.planner.benchmark import PLANNER

if __name__ == "__main__":
    main(PLANNER, __doc__, Path(__file__).resolve().parent)
