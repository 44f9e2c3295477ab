"""Language models of characters and bytes, with any encoding: python -m text."""
