"""What the tests share: tables as text, comparisons, engines."""
