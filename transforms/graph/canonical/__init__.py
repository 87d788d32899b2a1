"""Local rules that bring ops to their simplest form, a family a file."""
