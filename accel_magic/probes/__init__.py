"""From the probe language to a plan: what to trace on this machine, checked before anything is attached."""
