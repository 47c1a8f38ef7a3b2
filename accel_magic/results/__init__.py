"""What traces return and `accel_magic.open` opens: one base class, `Result`, and a module for each kind."""
