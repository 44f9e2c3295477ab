"""One transformer over speech, pictures and text on one clock: python -m multimodal."""
