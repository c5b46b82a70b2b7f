"""What the guide to features says of real flights is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "features.md"


def test_examples_of_the_guide_give_what_it_says() -> None:
    # Fences close where the output of the last example would go on.
    text = GUIDE.read_text(encoding="utf-8").replace("```\n", "\n").replace("```python\n", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, GUIDE.name, str(GUIDE), 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 25
    assert results.failed == 0
