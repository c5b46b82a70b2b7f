"""Measures equality joins of Juncture and other libraries: ``python benchmarks/equi.py --scenarios local-limited``.

Results go to ``benchmarks/results/equi-<scale>.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from those of the full scale, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.command import main
from juncture_benchmarks.equi.benchmark import EQUI

if __name__ == "__main__":
    main(EQUI, __doc__, Path(__file__).resolve().parent)
