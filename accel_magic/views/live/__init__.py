"""The live row of a running cell, for each kind of trace."""
