"""Run pyright on the project: link the top-level folders under one root first."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dialects", "transforms", "lowering", "runtime", "tools")


def link_tree(root: Path = ROOT) -> Path:
    """Create build/typecheck/ge/<folder> -> <folder>, and return build/typecheck."""
    tree = root / "build" / "typecheck"
    (tree / "ge").mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        link = tree / "ge" / folder
        if not link.is_symlink():
            link.symlink_to(Path("..", "..", "..", folder), target_is_directory=True)
    face = tree / "ge" / "__init__.py"
    if not face.is_symlink():
        face.symlink_to(Path("..", "..", "..", "ge", "__init__.py"))
    return tree


def main() -> int:
    link_tree()
    pyright = Path(sys.executable).with_name("pyright")
    command = str(pyright) if pyright.exists() else "pyright"
    return subprocess.call([command, "--pythonpath", sys.executable, *sys.argv[1:]], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
