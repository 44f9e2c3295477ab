"""``python -m timeseries``: train, test, compare and forecast."""

from timeseries.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
