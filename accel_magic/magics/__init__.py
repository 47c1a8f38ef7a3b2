"""What IPython sees: the magics, and running the user's cell."""
