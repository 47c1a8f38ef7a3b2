"""Traces for users without privilege: a service that loads and attaches programs for them, and its client."""
