"""``python -m fuzz``, with the folder of the tests on the path."""

from __future__ import annotations

import sys

from fuzz.run import main

if __name__ == "__main__":
    sys.exit(main())
