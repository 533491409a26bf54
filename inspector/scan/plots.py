"""The plots of a scan's report: pictures as markup, whose colours the page's style sheet gives. No script, no numbers of their own.

Colour is never the only cue: the second line of a picture is dashed, and every mark says its value when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from inspector.exports.markup import Markup, tag

WIDTH, HEIGHT = 720, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 26, 40
STYLE = """
.plot { width: 100%; max-width: 60rem; height: auto; display: block; font: 12px system-ui, sans-serif; }
.plot text { fill: var(--ink); } .plot .name { fill: var(--soft); } .plot .rule { stroke: var(--line); stroke-width: 1; }
.plot .axis { stroke: var(--soft); stroke-width: 1; } .plot .bar { fill: var(--mark); stroke: var(--soft); stroke-width: .6; }
.plot a:hover .bar, .plot a:focus .bar { fill: var(--hot); } .plot .line { fill: none; stroke: var(--first); stroke-width: 2.5; }
.plot .second { stroke: var(--other-line); stroke-dasharray: 7 4; stroke-width: 2; } .plot .mark { stroke: var(--bad); stroke-dasharray: 4 3; stroke-width: 1.2; }
.plot .dot { fill: var(--paper); stroke: var(--bad); stroke-width: 2; } .plot a:hover .dot, .plot a:focus .dot { fill: var(--bad); }
.plot .key { fill: none; stroke-width: 2.5; }
"""


def histogram(bars: Sequence[tuple[str, int, str, str | None]], x_name: str, y_name: str, label: str) -> Markup:
    """Draw bars side by side: (name of the lower edge, value, what it says, where it leads)."""
    most = max((value for _name, value, _said, _to in bars), default=0)
    y, rules = _y_axis(most, y_name, lambda value: f"{value:,}")
    wide = (WIDTH - _LEFT - _RIGHT) / max(1, len(bars))
    marks, names, free = [], [], 0.0
    for k, (name, value, said, to) in enumerate(bars):
        x = _LEFT + k * wide
        if value:
            top = min(y(value), y(0) - 1)  # a bar of one row among a million can be seen
            rect = _svg(
                "rect", _title(said), x=x + wide * 0.06, y=top, width=wide * 0.88, height=y(0) - top, class_="bar"
            )
            marks.append(_linked(rect, to, said))
        if x - len(name) * 3.4 > free:
            names.append(_text(x + wide / 2, HEIGHT - _BOTTOM + 16, name, "middle"))
            free = x + len(name) * 3.4 + 10
    return _picture([*rules, *marks, *names, _x_name(x_name)], label)


def curve(
    lines: Sequence[tuple[str, Sequence[tuple[int, float]]]],
    given: Sequence[tuple[int, float, str, str | None]],
    x_name: str,
    y_name: str,
    label: str,
) -> Markup:
    """Draw shares (0 to 1) over windows on a doubling axis; `given`: (window, share, what it says, where it leads)."""
    windows = [window for _name, line in lines for window, _share in line] + [window for window, *_rest in given]
    low, high = max(1, min(windows)), max(2, *windows)
    span = math.log2(high / low) or 1.0
    top = max((share for _name, line in lines for _window, share in line), default=0.0)
    y, rules = _y_axis(
        min(1.0, top), y_name, lambda value: f"{value:.0%}" if value >= 0.05 or not value else f"{value:.2%}"
    )

    def x(window: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * math.log2(max(window, low) / low) / span

    step = max(1, math.ceil(span / 9))
    ticks = [2**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1, step)]
    names = [
        _text(x(tick), HEIGHT - _BOTTOM + 16, f"{tick:,}", "middle")
        for tick in ticks
        if _LEFT + 12 < x(tick) < WIDTH - 28
    ]
    drawn = [
        _svg("polyline", points=" ".join(f"{x(window):.1f},{y(share):.1f}" for window, share in line),
             class_="line" if not k else "line second")
        for k, (_name, line) in enumerate(lines)
    ]  # fmt: skip
    marks = [
        part
        for window, share, said, to in given
        for part in (
            _svg("line", x1=x(window), x2=x(window), y1=_TOP, y2=HEIGHT - _BOTTOM, class_="mark"),
            _linked(_svg("circle", _title(said), cx=x(window), cy=y(share), r=5, class_="dot"), to, said),
        )
    ]
    legend, at = [], float(_LEFT)
    for k, (name, _line) in enumerate(lines):
        legend.append(_svg("line", x1=at, x2=at + 26, y1=10, y2=10, class_="line" if not k else "line second"))
        legend.append(_text(at + 32, 14, name, "start"))
        at += 60 + 7 * len(name)
    return _picture([*rules, *drawn, *marks, *names, *legend, _x_name(x_name)], label)


def _y_axis(most: float, name: str, spell: Callable[[float], str]) -> tuple[Callable[[float], float], list[Markup]]:
    """Give the scale of an axis from 0 to at least `most`, and its rules with their names."""
    whole = isinstance(most, int)
    raw = max(most, 1 if whole else 1e-4) / 4
    power = 10 ** math.floor(math.log10(raw))
    step = max(1 if whole else 0, next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= raw * (1 - 1e-9)))
    count = max(1, math.ceil(most / step - 1e-9))

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / (step * count)

    rules = []
    for k in range(count + 1):
        value = round(step * k) if whole else step * k
        rules.append(
            _svg("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y(value), y2=y(value), class_="rule" if k else "axis")
        )
        rules.append(_text(_LEFT - 6, y(value) + 4, spell(value), "end"))
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    rules.append(_text(12, middle, name, "middle", class_="name", transform=f"rotate(-90 12 {middle:.0f})"))
    return y, rules


def _x_name(name: str) -> Markup:
    return _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, name, "middle", class_="name")


def _picture(parts: Sequence[Markup], label: str) -> Markup:
    return tag("svg", parts, class_="plot", role="img", viewBox=f"0 0 {WIDTH} {HEIGHT}", **{"aria-label": label})


def _linked(node: Markup, to: str | None, said: str) -> Markup:
    return node if to is None else tag("a", node, href=to, **{"aria-label": said})


def _title(said: str) -> Markup:
    return tag("title", said)


def _text(x: float, y: float, words: str, anchor: str, **more: str) -> Markup:
    return _svg("text", words, x=x, y=y, **{"text-anchor": anchor}, **more)


def _svg(name: str, *children: str, **attributes: float | str) -> Markup:
    spelled = {key: value if isinstance(value, str) else f"{value:.1f}" for key, value in attributes.items()}
    return tag(name, *children, **spelled)
