"""Ours and the peers, side by side in one process, as ratios."""
