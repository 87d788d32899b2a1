"""Pages that show a compilation and its run: plain data made here, drawn by `page/` in a browser."""
