"""What IPython sees: the magics, running the user's cell, and the lab's Jupyter kernel."""
