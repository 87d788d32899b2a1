"""Build the documentation site: `make docs`. It is also mkdocs' hook that adds the pages which are
made from the code, so that `mkdocs serve` shows them too."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from ge.tools.reference.pages import generated_pages

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to those in docs/; mkdocs calls this."""
    file = import_module("mkdocs.structure.files").File  # of the extra `docs`
    for path, text in generated_pages().items():
        files.append(file.generated(config, path, content=text))
    return files


def main() -> int:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    return subprocess.call([*command, *sys.argv[1:]], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
