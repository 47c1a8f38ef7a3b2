"""The result of a GPU trace, as text, HTML and figures."""
