"""Pictures of a timeline: a heat map in characters, and one as SVG."""

from __future__ import annotations

from html import escape

from weftjobs.simulation import Played, Timeline

_SHADES = " ░▒▓█"

_CELL = 26
_TOP = 78
_LINE = 17

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.axis { fill: #59636e; }
.count { font-size: 9px; text-anchor: middle; fill: #1f2328; }
.dense { fill: #ffffff; }
.page { fill: #ffffff; }
.cell { fill: #0969da; }
.empty { fill: #eff2f5; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .axis { fill: #9198a1; } .count { fill: #f0f6fc; }
  .page { fill: #0d1117; } .cell { fill: #4493f8; } .empty { fill: #21262d; }
}
"""


def heat_map(timeline: Timeline, width: int) -> list[str]:
    """Return lines that show how many runs start in which hour, a job each.

    Args:
        timeline: What is shown.
        width: How many columns there are.
    """
    label = max(8, min(max((len(job.name) for job in timeline.jobs), default=0), width - 35))
    most = _most(timeline)
    hours = "".join(f"{hour:<6}" for hour in range(0, 24, 6)).rstrip()
    lines = [f"{'':<{label}}  {hours:<24}  runs"]
    for job in timeline.jobs:
        cells = "".join(_shade(count, most) for count in job.hours)
        lines.append(f"{_shortened(job.name, label):<{label}} |{cells}| {job.count:,}")
    return lines


def svg(timeline: Timeline, title: str) -> str:
    """Return a picture of how many runs start in which hour, that reads in light and dark."""
    label = 24 + 7 * max((len(job.name) for job in timeline.jobs), default=0)
    width = label + 24 * _CELL + 96
    height = _TOP + len(timeline.jobs) * _CELL + 40
    most = _most(timeline)
    span = (
        f"{timeline.since:%Y-%m-%d %H:%M} to {timeline.until:%Y-%m-%d %H:%M} {timeline.since:%Z}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        f'<text class="axis" x="16" y="44">Runs by hour of the day, {escape(span)}</text>',
    ]
    for hour in range(24):
        x = label + hour * _CELL + _CELL / 2
        parts.append(f'<text class="axis" x="{x}" y="70" text-anchor="middle">{hour:02}</text>')
    parts.append(f'<text class="axis" x="{label + 24 * _CELL + 12}" y="70">runs</text>')
    for number, job in enumerate(timeline.jobs):
        parts += _row(job, number, label, most)
    parts.append(
        f'<text class="axis" x="{label}" y="{height - 14}">Hour of the day. '
        f"The fuller the colour, the more runs; the most are {most:,}.</text></svg>"
    )
    return "\n".join(parts)


def _row(job: Played, number: int, label: int, most: int) -> list[str]:
    top = _TOP + number * _CELL
    middle = top + _LINE
    parts = [f'<text x="{label - 10}" y="{middle}" text-anchor="end">{escape(job.name)}</text>']
    for hour, count in enumerate(job.hours):
        x = label + hour * _CELL
        shape = f'x="{x + 1}" y="{top + 1}" width="{_CELL - 2}" height="{_CELL - 2}" rx="3"'
        what = f"<title>{escape(job.name)}, {hour:02}:00: {count:,} runs</title>"
        if not count:
            parts.append(f'<rect class="empty" {shape}>{what}</rect>')
            continue
        opacity = 0.15 + 0.85 * count / most
        parts.append(f'<rect class="cell" fill-opacity="{opacity:.2f}" {shape}>{what}</rect>')
        dense = " dense" if opacity > 0.6 else ""
        text = f"{count:,}" if count < 10_000 else f"{count // 1000}k"
        parts.append(f'<text class="count{dense}" x="{x + _CELL / 2}" y="{middle}">{text}</text>')
    parts.append(f'<text x="{label + 24 * _CELL + 12}" y="{middle}">{job.count:,}</text>')
    return parts


def _most(timeline: Timeline) -> int:
    return max((count for job in timeline.jobs for count in job.hours), default=0) or 1


def _shade(count: int, most: int) -> str:
    return _SHADES[-(-4 * count // most)]


def _shortened(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
