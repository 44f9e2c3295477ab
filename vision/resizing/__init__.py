"""A trained vision transformer at sizes that it was not trained at."""
