"""`python -m juncture`: the command line."""

from juncture.cli.main import main

if __name__ == "__main__":
    main()
