"""The HTML report of a training run: where the time of each batch went. A single file without scripts or external resources."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._timing import COLUMNS, EpochStats, Timings

_SHOWN = 48  # batches in the timeline: more would be too thin to distinguish
_COLUMNS = 240  # columns in the chart of all batches
_LANES = 6  # lanes for overlapping reads
_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1c2430; --soft: #5b6676; --line: #dde2e9;
  --loop: #1f9d68; --wait: #cf3f78; --read: #2674d9; --plan: #8a63c7; --lie: #b4bcc8; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b212a; --text: #e6eaf0; --soft: #9aa6b5; --line: #313a47;
  --loop: #43c28b; --wait: #ec6f9f; --read: #5c9df2; --plan: #ab8be3; --lie: #56616f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 10px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px; margin-top: 16px; }
.verdict { border-left: 5px solid var(--soft); font-size: 17px; }
.facts { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
tr:last-child td { border-bottom: 0; }
svg { display: block; width: 100%; min-width: 760px; height: auto; }
svg rect { shape-rendering: crispEdges; }
svg text { fill: var(--soft); font-size: 11px; }
svg line { stroke: var(--line); }
.loop { fill: var(--loop); } .wait { fill: var(--wait); } .read { fill: var(--read); } .plan { fill: var(--plan); } .lie { fill: var(--lie); }
.key { display: inline-block; width: 11px; height: 11px; margin-right: 7px; }
.entry { white-space: nowrap; margin-right: 14px; }
.note { color: var(--soft); font-size: 13px; margin: 10px 0 0; }
"""


def write_report(path: str | os.PathLike[str], title: str, summary: str, epochs: Sequence[EpochStats], timings: Timings, about: str) -> None:
    """Writes the page to `path`, atomically for regular files. Raises OSError if it cannot be written."""
    page = page_of(title, summary, epochs, timings, about)
    path = os.path.realpath(os.fsdecode(path))  # replaces the target of a link, not the link
    if os.path.exists(path) and not os.path.isfile(path):  # devices and pipes are written to, not replaced
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(page)
        return
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".headrace-report-")
    try:
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(page)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)  # mkstemp makes the file accessible to its owner only
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def page_of(title: str, summary: str, epochs: Sequence[EpochStats], timings: Timings, about: str) -> str:
    rows = timings.rows()
    rows[:, COLUMNS.index("left")] = np.where(np.isnan(rows[:, COLUMNS.index("left")]), rows[:, COLUMNS.index("given")], rows[:, COLUMNS.index("left")])
    verdict = html.escape(summary) + (" " + html.escape(epochs[-1].bottleneck) if epochs else "")
    parts = [_section("Where the time of each batch went", _timeline(rows[-_SHOWN:]) + _key([
        ("loop", "the loop uses the batch"), ("wait", "the loop waits for it"), ("read", "read, decoded and placed"), ("plan", "planned"),
        ("lie", "ready, not yet requested")]) + _note(rows, timings)),
             _section("All of these batches", _columns(rows) + _key([("loop", "the loop uses the batch"), ("wait", "the loop waits for it")])),
             _section("Epochs", _epoch_table(epochs)), _section("Slowest batches", _slowest(rows))] if len(rows) else []
    return ("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{html.escape(title)}</h1>\n"
            f"<p class=\"facts\">{html.escape(about)}</p>\n<section class=\"verdict\">{verdict}</section>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n")


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{html.escape(heading)}</h2>{body}</section>"


def _key(entries: Iterable[tuple[str, str]]) -> str:
    return "<p>" + "".join(f"<span class=\"entry\"><svg class=\"key\" style=\"display: inline-block; width: 11px; min-width: 0\" viewBox=\"0 0 1 1\">"
                           f"<rect class=\"{kind}\" width=\"1\" height=\"1\"/></svg>{html.escape(text)}</span>" for kind, text in entries) + "</p>"


def _note(rows: np.ndarray[Any, Any], timings: Timings) -> str:
    kept = len(rows)
    older = f", of {timings.count:,} in all: older ones were overwritten" if timings.count > kept else ""
    return (f"<p class=\"note\">The last {min(kept, _SHOWN)} of {kept:,} batches{older}. Batches that are read together are one read. Point at a part for "
            "details.</p>")


def _column(rows: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    return rows[:, COLUMNS.index(name)]


def _rect(kind: str, x: float, y: float, width: float, height: float, says: str) -> str:
    return f"<rect class=\"{kind}\" x=\"{x:.2f}\" y=\"{y:.2f}\" width=\"{max(width, 0.6):.2f}\" height=\"{height:.2f}\"><title>{html.escape(says)}</title></rect>"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.0f} B"


def _timeline(rows: np.ndarray[Any, Any]) -> str:
    """Timeline of the last batches: a lane for the loop, one for waiting, and lanes for the reads."""
    begin, end = float(min(_column(rows, "asked").min(), _column(rows, "planned").min())), float(_column(rows, "left").max())
    left, width = 90.0, 1100.0
    span = max(end - begin, 1e-9)

    def x_of(at: float) -> float:
        return left + width * (min(max(at, begin), end) - begin) / span

    def bar(kind: str, lane: float, first: float, last: float, says: str) -> str:
        return _rect(kind, x_of(first), 8 + 26 * lane, x_of(last) - x_of(first), 20, says) if last >= begin else ""

    shapes = []
    lanes: list[float] = []  # when each read lane becomes free
    for row in rows:
        at = dict(zip(COLUMNS, row.tolist(), strict=True))
        which = f"epoch {at['epoch']:.0f}, batch {at['number']:.0f}"
        shapes.append(bar("loop", 0, at["given"], at["left"], f"{which}: the loop had it for {_seconds(at['left'] - at['given'])}"))
        shapes.append(bar("wait", 1, at["asked"], at["given"], f"{which}: waited for {_seconds(at['given'] - at['asked'])}"))
    _, first_of_read = np.unique(_column(rows, "planned"), return_index=True)
    for row in rows[np.sort(first_of_read)]:
        at = dict(zip(COLUMNS, row.tolist(), strict=True))
        lane = next((number for number, free in enumerate(lanes) if free <= at["planned"]), len(lanes))
        lane = min(lane, _LANES - 1)
        lanes[lane:lane + 1] = [max(at["asked"], at["ready"])]
        together = f", and {at['together'] - 1:.0f} read together with it" if at["together"] > 1 else ""
        which = f"epoch {at['epoch']:.0f}, batch {at['number']:.0f}{together}"
        shapes.append(bar("plan", lane + 2, at["planned"], at["begun"], f"{which}: planned in {_seconds(at['begun'] - at['planned'])}"))
        shapes.append(bar("read", lane + 2, at["begun"], at["ready"], (
            f"{which}: read in {_seconds(at['ready'] - at['begun'])}; {at['chunks'] + at['kept_chunks']:.0f} chunks, {at['kept_chunks']:.0f} of them kept decoded; "
            f"{_bytes(at['read_bytes'])} read, {_bytes(at['decoded_bytes'])} delivered; threads: reading {_seconds(at['read_seconds'])}, decoding "
            f"{_seconds(at['decode_seconds'])}, placing {_seconds(at['place_seconds'])}")))
        shapes.append(bar("lie", lane + 2, at["ready"], at["asked"], f"{which}: lay ready for {_seconds(max(0.0, at['asked'] - at['ready']))}") if at["asked"] > at["ready"] else "")
    names = ["the loop", "waiting"] + [f"read {number + 1}" for number in range(len(lanes))]
    texts = "".join(f"<text x=\"0\" y=\"{22 + 26 * lane}\">{name}</text>" for lane, name in enumerate(names))
    height = 8 + 26 * len(names)
    ticks = "".join(f"<line x1=\"{left + width * tick / 5:.1f}\" y1=\"0\" x2=\"{left + width * tick / 5:.1f}\" y2=\"{height}\"/>"
                    f"<text x=\"{left + width * tick / 5:.1f}\" y=\"{height + 14}\" text-anchor=\"{'start' if tick < 5 else 'end'}\">{_seconds(span * tick / 5)}</text>"
                    for tick in range(6))
    return f"<div class=\"wide\"><svg viewBox=\"0 0 1190 {height + 20}\">{ticks}{texts}{''.join(shapes)}</svg></div>"


def _columns(rows: np.ndarray[Any, Any]) -> str:
    """Bar chart of all batches (means of neighbours if there are many): the time waited for a batch and the time the loop had it."""
    groups = np.array_split(np.arange(len(rows)), min(len(rows), _COLUMNS))
    wait, loop = _column(rows, "given") - _column(rows, "asked"), _column(rows, "left") - _column(rows, "given")
    means = [(float(wait[group].mean()), float(loop[group].mean()), group) for group in groups]
    # A quantile, since one pause of the loop, such as a checkpoint, would flatten the other bars.
    top = max(float(np.quantile([a + b for a, b, _ in means], 0.98)), 1e-9)
    left, width, height = 90.0, 1100.0, 160.0
    each = width / len(means)
    shapes = []
    for number, (waited, looped, group) in enumerate(means):
        low = min(height, height * looped / top)
        high = min(height - low, height * waited / top)
        first, last = rows[group[0]], rows[group[-1]]
        which = f"epoch {first[0]:.0f}, batch {first[1]:.0f}" + (f" to epoch {last[0]:.0f}, batch {last[1]:.0f}, mean" if len(group) > 1 else "")
        says = f"{which}: waited for {_seconds(waited)}, the loop had it for {_seconds(looped)}"
        x, thick = left + number * each, max(each - 1, 0.6)
        shapes.append(_rect("loop", x, 8 + height - low, thick, low, says) + _rect("wait", x, 8 + height - low - high, thick, high, says))
    axis = "".join(f"<line x1=\"{left}\" y1=\"{8 + height * (1 - part):.1f}\" x2=\"{left + width}\" y2=\"{8 + height * (1 - part):.1f}\"/>"
                   f"<text x=\"0\" y=\"{12 + height * (1 - part):.1f}\">{_seconds(top * part)}</text>" for part in (0.0, 0.5, 1.0))
    return f"<div class=\"wide\"><svg viewBox=\"0 0 1190 {height + 20}\">{axis}{''.join(shapes)}</svg></div>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=\"wide\"><table><tr>{head}</tr>{body}</table></div>"


def _epoch_table(epochs: Sequence[EpochStats]) -> str:
    heads = ["epoch", "batches", "seconds", "waiting", "chunks", "kept decoded", "read", "delivered", "read by path", "bottleneck"]
    return _table(heads, ([str(one.epoch), f"{one.batches:,}", f"{one.seconds:.1f}", f"{one.wait_share:.0%}", f"{one.chunks:,}", f"{one.kept_share:.0%}",
                           _bytes(one.read_bytes), _bytes(one.decoded_bytes),
                           ", ".join(f"{_bytes(count)} {path}" for path, count in one.bytes_by_path.items()) or "nothing", one.bottleneck]
                          for one in epochs[-100:]))


def _slowest(rows: np.ndarray[Any, Any]) -> str:
    wait = _column(rows, "given") - _column(rows, "asked")
    chosen = rows[np.argsort(-wait, kind="stable")[:10]]
    heads = ["batch", "waited", "planned in", "read in", "threads: reading", "decoding", "placing", "chunks", "kept decoded", "read", "delivered"]
    at = [dict(zip(COLUMNS, row.tolist(), strict=True)) for row in chosen]
    return _table(heads, ([f"epoch {one['epoch']:.0f}, batch {one['number']:.0f}", _seconds(one["given"] - one["asked"]), _seconds(one["begun"] - one["planned"]),
                           _seconds(max(0.0, one["ready"] - one["begun"])), _seconds(one["read_seconds"]), _seconds(one["decode_seconds"]),
                           _seconds(one["place_seconds"]), f"{one['chunks'] + one['kept_chunks']:.0f}", f"{one['kept_chunks']:.0f}",
                           _bytes(one["read_bytes"]), _bytes(one["decoded_bytes"])] for one in at))
