"""How ``text extend`` stretches, measures, searches, tunes and tells."""
