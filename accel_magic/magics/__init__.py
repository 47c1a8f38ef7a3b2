"""The IPython side: the magics, running the user's cell, and the lab's Jupyter kernel."""
