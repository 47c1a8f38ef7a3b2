"""Checks of the rules (`rules.py`) on a trace of the NPU driver, by their subject."""
