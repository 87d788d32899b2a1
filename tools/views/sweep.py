"""Pages of sweeps: what configurations take in time and memory, as a plot that is drawn as it is
written, and as a table."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ge.tools.views.calibration import PAGE, POLICY, section

WIDTH, HEIGHT, MARGIN = 640, 320, 48

Point = tuple[float, float, str, str]  # along, up, the class of the style, its text


def page_of(
    title: str, summary: str, plot: str, head: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Return the text of a page with a plot and a table."""
    style = (files("ge.tools.views") / "page" / "style.css").read_text("utf-8")
    style += "\nsvg text { fill: currentColor; font-size: 11px; }"
    table = section("Configurations", "", head, [[escape(c) for c in row] for row in rows])
    return PAGE.format(
        policy=POLICY, title=escape(title), style=style, summary=escape(summary),
        sections=f"{plot}\n{table}",
    )  # fmt: skip


def scatter(points: Sequence[Point], along: str, up: str, line: bool = False) -> str:
    """Draw points, from zero on, with what each is where one points at it, and a line through
    them."""
    right = max((x for x, *_ in points), default=1.0) or 1.0
    top = max((y for _, y, *_ in points), default=1.0) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            MARGIN + x / right * (WIDTH - 2 * MARGIN),
            HEIGHT - MARGIN - y / top * (HEIGHT - 2 * MARGIN),
        )

    shapes = [f'<rect class="all" width="{WIDTH}" height="{HEIGHT}"/>']
    if line:
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y, *_ in points)
        shapes.append(f'<polyline class="zero" fill="none" points="{path}"/>')
    for x, y, kind, text in points:
        a, b = place(x, y)
        name = f"<title>{escape(text)}</title>"
        shapes.append(f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="5">{name}</circle>')
    shapes.append(f'<text x="{MARGIN}" y="{HEIGHT - 16}">{escape(along)}: 0 to {right:,.4g}</text>')
    shapes.append(f'<text x="{MARGIN}" y="20">{escape(up)}: 0 to {top:,.4g}</text>')
    label = escape(f"{up} by {along}")
    size = f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}"'
    return f"<svg {size}>{''.join(shapes)}</svg>"
