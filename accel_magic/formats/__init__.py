"""Other tools' file formats: recognition, reading and writing."""
