"""`juncture bench`: the benchmarks, ours beside the peers that are installed."""

from __future__ import annotations

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Measure joins beside those of other libraries.")
