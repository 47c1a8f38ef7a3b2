"""The result of an NPU driver trace, as text and HTML."""
