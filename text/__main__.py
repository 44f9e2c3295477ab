"""``python -m text``: train, test, generate, compare, probe and extend."""

from text.cli import main

if __name__ == "__main__":
    main()
