"""One HTML file of a payload: data, styles, modules and libraries, with nothing to be fetched."""

import base64
import json
from html import escape
from importlib.resources import files
from typing import Any

MODULES = "page"  # the folder of our own modules, each imported by others as `views/NAME`
LIBRARIES = ("dagre.min.js", "d3.min.js")

# A page that shows what is in it can load nothing, and send nothing
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
)


def page(payload: dict[str, Any], title: str) -> str:
    """The text of the file."""
    here = files(__package__ or "ge.tools.views")
    own = {f.name: f.read_text("utf-8") for f in (here / MODULES).iterdir() if "." in f.name}
    scripts = "\n".join(
        f"<script>{script(here.joinpath('vendor', name).read_text('utf-8'))}</script>"
        for name in LIBRARIES
    )
    imports = {
        f"views/{name.removesuffix('.js')}": data_url(text)
        for name, text in sorted(own.items())
        if name.endswith(".js")
    }
    parts = {
        "TITLE": escape(title),
        "POLICY": POLICY,
        "STYLE": own["style.css"],
        "LIBRARIES": scripts,
        "IMPORTS": json.dumps({"imports": imports}),
        "PAYLOAD": script(json.dumps(payload, ensure_ascii=False, separators=(",", ":"))),
    }
    pieces = own["page.html"].split("@@")  # text and names of parts in turn
    return "".join(parts[p] if i % 2 else p for i, p in enumerate(pieces))


def data_url(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def script(text: str) -> str:
    """A text as it may stand in a script element: nothing in it ends the element."""
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")
