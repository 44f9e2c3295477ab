"""Forecasting with patch transformers, linear models and any encoding: an application."""
