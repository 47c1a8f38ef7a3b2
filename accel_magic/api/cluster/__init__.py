"""`accel_magic.trace(..., on=CLIENT)`: one trace on all workers of a cluster."""
