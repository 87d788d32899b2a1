"""Composites recognized in the ops that exporters write out: one family a file."""
