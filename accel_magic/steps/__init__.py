"""Steps of a program, marked by its code: a static probe in a small library, which any tracer of the process sees."""
