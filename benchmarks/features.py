"""Measures joins of ten tables to one spine, in one pass and one after the other: ``python benchmarks/features.py``.

Results go to ``benchmarks/results/features-<scale>.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from those of the full scale, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.command import main
from juncture_benchmarks.features.benchmark import FEATURES

if __name__ == "__main__":
    main(FEATURES, __doc__, Path(__file__).resolve().parent)
