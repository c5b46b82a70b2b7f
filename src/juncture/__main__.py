"""The command line: ``juncture``, or ``python -m juncture``."""

import sys

from juncture.errors import PlanError, optional_packages


def main() -> None:
    """Run the command line, or name the extra that installs it."""
    try:
        with optional_packages("The command line"):
            from juncture.cli.main import main as run
    except PlanError as error:
        sys.exit(str(error))
    run()


if __name__ == "__main__":
    main()
