"""Evidence for each rule: one small function that returns numbers from tables and events, or None."""
