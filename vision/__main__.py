"""``python -m vision``: train, test and compare."""

from vision.cli import main

if __name__ == "__main__":
    main()
