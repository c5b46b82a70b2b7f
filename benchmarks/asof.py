"""Measures as-of joins of Juncture and other libraries in one run: ``python benchmarks/asof.py --scale small``.

Results go to ``benchmarks/results/asof-<scale>.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from all of them, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.asof.benchmark import ASOF
from juncture_benchmarks.command import main

if __name__ == "__main__":
    main(ASOF, __doc__, Path(__file__).resolve().parent)
