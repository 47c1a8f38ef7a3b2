"""What shows that a rule applies: one small function per rule, from tables and events to numbers, or to nothing."""
