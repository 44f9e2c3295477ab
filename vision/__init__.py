"""Image classification with timm networks and any positional encoding: an application."""
