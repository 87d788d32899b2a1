"""Composites found again from what exporters write out: one family a file."""
