"""Writing pages: of a compilation that ends well, and of one that does not."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from ge.dialects.text.errors import diagnose
from ge.runtime.data.files import Outputs
from ge.tools.views.make import Seen, payload
from ge.tools.views.page import page
from ge.tools.views.watch import Watcher
from ge.transforms.rewriting import remarks


def write_page(out: Outputs, path: str, seen: Seen) -> None:
    out.text(path, page(payload(seen), f"{Path(seen.path).stem} - ge"))


@contextmanager
def watching(
    source: str, output: str, inputs: Iterable[Path | str], tell: Callable[[str], object]
) -> Generator[Watcher]:
    """What watches a compilation for a page. If it raises an exception, the page is written all the
    same, with what stopped it, and `tell` gets a line about it; where nothing was read there is
    none."""
    with remarks.collecting() as found:
        watcher = Watcher(found)
        try:
            yield watcher
        except Exception as error:
            watcher.note_remarks()
            tell(failed_page(source, output, inputs, watcher, error))
            raise


def failed_page(
    source: str, output: str, inputs: Iterable[Path | str], watcher: Watcher, error: Exception
) -> str:
    """Write what is known of a compilation that failed; what became of it."""
    try:
        shown = payload(Seen(source, watcher, failure=str(diagnose(error))))
        if "levels" not in shown:
            return f"{output} was not written: nothing was read"
        with Outputs([source, *inputs]) as out:
            out.text(output, page(shown, f"{Path(source).stem} - ge"))
        return f"{output} shows how far it got"
    except Exception as second:  # the first one is what the user is to see
        return f"{output} was not written: {second}"
