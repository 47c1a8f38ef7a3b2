"""The result of a trace of the NPU driver, as text and HTML."""
