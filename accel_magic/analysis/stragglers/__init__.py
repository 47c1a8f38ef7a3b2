"""Steps and collectives of many ranks: which rank is late, by how much, and what it did instead."""
