"""``python -m vision``: train, test, compare and resize."""

from vision.cli import main

if __name__ == "__main__":
    main()
