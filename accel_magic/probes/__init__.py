"""From the probe language to a plan: what to trace on this machine, validated before anything is attached."""
