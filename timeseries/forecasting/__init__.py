"""The parts of ``python -m timeseries forecast``."""
