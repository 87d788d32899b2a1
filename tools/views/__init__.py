"""Pages that show a compilation and its run: plain data, drawn by `page/` in a browser."""
