"""The parts of ``python -m text probe``."""
