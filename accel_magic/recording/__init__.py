"""What was recorded: reading, decoding, results, files."""
