"""What was recorded, and the files that it is kept in."""
