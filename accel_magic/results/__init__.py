"""Results of traces and of `accel_magic.open`: one base class, `Result`, and a module for each kind."""
