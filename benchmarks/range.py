"""Measures range and overlap joins of Juncture and other libraries: ``python benchmarks/range.py --scenarios local``.

Results go to ``benchmarks/results/range-<scale>.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from those of the full scale, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.command import main
from juncture_benchmarks.range.benchmark import RANGE

if __name__ == "__main__":
    main(RANGE, __doc__, Path(__file__).resolve().parent)
