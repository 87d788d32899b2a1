"""Pages that need neither a display nor a script, as all is drawn as it is written: of a
calibration, how sensitive layers are and how far activations reach, as bars; of a sweep, what
configurations take in time and memory, as points."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from ge.transforms.quantization.table import LayerFacts, Table

WIDTH, HEIGHT = 260, 12  # of a bar

PLOT_WIDTH, PLOT_HEIGHT, MARGIN = 640, 320, 48

Point = tuple[float, float, str, str]  # along, up, the class of the style, its text

MOST = 80.0  # dB that fill a bar: more is no noise to speak of

LITTLE, SOME = 25.0, 40.0  # dB: below them a bar is that of an error, or of a warning

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}
body {{ display: block; overflow: auto; height: auto; padding: 16px 24px; }}
td, th {{ padding: 3px 12px 3px 0; text-align: left; white-space: nowrap; }}
td:last-child {{ white-space: normal; }}
svg {{ vertical-align: middle; margin-right: 8px; }}
svg text {{ fill: currentColor; font-size: 11px; }}
svg .all {{ fill: rgba(128, 128, 128, 0.18); }}
svg .good {{ fill: #3a8f5c; }} svg .fair {{ fill: #c9962e; }} svg .bad {{ fill: #c4453c; }}
svg .span {{ fill: #4b78b8; }} svg .zero {{ stroke: currentColor; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
{sections}
</body>
</html>
"""


def page(title: str, summary: str, *sections: str) -> str:
    """Return the text of a page."""
    style = (files("ge.tools.views") / "page" / "style.css").read_text("utf-8")
    return PAGE.format(
        policy=POLICY, title=escape(title), style=style, summary=escape(summary),
        sections="\n".join(sections),
    )  # fmt: skip


def page_of(title: str, scheme: str, facts: Iterable[LayerFacts], table: Table,
            left: Mapping[str, float]) -> str:  # fmt: skip
    """The text of a page: layers that add most noise first, and the ranges of the table."""
    ordered = sorted(facts, key=lambda f: math.inf if f.alone_db is None else f.alone_db)
    outputs = ", ".join(f"{db:.1f} dB of '{name}'" for name, db in sorted(left.items()))
    count = sum(f.scheme not in ("float", "") for f in ordered)
    summary = f"{scheme}: {count} of {len(ordered)} layers are quantized"
    summary += f"; {outputs} are left on the samples." if outputs else "."
    return page(title, summary, sensitivity(ordered), ranges(table))


def sensitivity(facts: Sequence[LayerFacts]) -> str:
    rows = [
        (
            escape(f.name), escape(f.op.removeprefix("graph.")), escape(f.scheme),
            decibel_bar(f.alone_db), decibel_bar(f.accumulated_db),
            "" if not f.saturated else f"{100 * f.saturated:.3g} %",
            "" if f.extra_us is None else f"{f.extra_us:.2f}", escape(f.reason),
        )
        for f in facts
    ]  # fmt: skip
    about = (
        "Alone: signal to noise of the outputs where this layer alone is quantized. Accumulated: "
        "of its own result where all are. Saturated: share of its inputs beyond their range. "
        "Extra us: how much longer it takes in floats, by the model of time."
    )
    head = ("layer", "op", "in", "alone", "accumulated", "saturated", "extra us", "why")
    return section("Sensitivity", about, head, rows)


def ranges(table: Table) -> str:
    reach = max((max(map(abs, r)) for r in table.ranges.values()), default=0.0)
    rows = [
        (escape(name), range_bar(low, high, reach), f"{low:.4g}", f"{high:.4g}")
        for name, (low, high) in table.ranges.items()
    ]
    about = (
        f"From the smallest to the largest value of an activation, on a scale from {-reach:.4g} to "
        f"{reach:.4g} that is logarithmic but around zero. Far longer ones are those of outliers."
        if rows else "No activation has a range in this scheme."
    )  # fmt: skip
    return section("Ranges", about, ("activation", "range", "smallest", "largest"), rows)


def section(title: str, about: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a part of a page: a table under a title, with a line about it."""
    lines = [f"<h2>{title}</h2>", f'<p class="note">{escape(about)}</p>']
    if rows:
        lines.append("<table><thead><tr>" + cells("th", head) + "</tr></thead><tbody>")
        lines += [f"<tr>{cells('td', row)}</tr>" for row in rows]
        lines.append("</tbody></table>")
    return "\n".join(lines)


def cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def drawing(label: str, *shapes: str) -> str:
    whole = f'<rect class="all" width="{WIDTH}" height="{HEIGHT}"/>'
    size = f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(label)}"'
    return f"<svg {size}>{whole}{''.join(shapes)}</svg>"


def decibel_bar(db: float | None) -> str:
    """A bar that is short where there is much noise, and its number."""
    if db is None:
        return ""
    text = "no noise" if db == math.inf else f"{db:.1f} dB"
    kind = "bad" if db < LITTLE else "fair" if db < SOME else "good"
    width = WIDTH * min(max(db, 0.0), MOST) / MOST
    return drawing(text, f'<rect class="{kind}" width="{width:.1f}" height="{HEIGHT}"/>') + text


def range_bar(low: float, high: float, reach: float) -> str:
    def place(value: float) -> float:
        """Return where a value is: zero in the middle, a thousandth of the reach near it."""
        share = math.asinh(1000 * value / reach) / math.asinh(1000) if reach else 0.0
        return WIDTH * (1 + share) / 2

    first, last = place(low), place(high)
    span = f'x="{first:.1f}" width="{max(last - first, 1):.1f}" height="{HEIGHT}"'
    middle = f'x1="{WIDTH / 2}" x2="{WIDTH / 2}" y2="{HEIGHT}"'
    shapes = f'<rect class="span" {span}/>', f'<line class="zero" {middle}/>'
    return drawing(f"from {low:.4g} to {high:.4g}", *shapes)


def scatter(points: Sequence[Point], along: str, up: str, line: bool = False) -> str:
    """Draw points, from zero on, with what each is where one points at it, and a line through
    them."""
    right = max((x for x, *_ in points), default=1.0) or 1.0
    top = max((y for _, y, *_ in points), default=1.0) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            MARGIN + x / right * (PLOT_WIDTH - 2 * MARGIN),
            PLOT_HEIGHT - MARGIN - y / top * (PLOT_HEIGHT - 2 * MARGIN),
        )

    shapes = [f'<rect class="all" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}"/>']
    if line:
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y, *_ in points)
        shapes.append(f'<polyline class="zero" fill="none" points="{path}"/>')
    for x, y, kind, text in points:
        a, b = place(x, y)
        name = f"<title>{escape(text)}</title>"
        shapes.append(f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="5">{name}</circle>')
    for name, end, y in ((along, right, PLOT_HEIGHT - 16), (up, top, 20)):
        shapes.append(f'<text x="{MARGIN}" y="{y}">{escape(name)}: 0 to {end:,.4g}</text>')
    label = escape(f"{up} by {along}")
    size = f'width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" role="img" aria-label="{label}"'
    return f"<svg {size}>{''.join(shapes)}</svg>"
