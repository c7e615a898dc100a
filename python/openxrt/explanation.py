# SPDX-License-Identifier: Apache-2.0
"""Why each node of a program runs where it runs, for reading and for programs."""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._core import write_output_file

if TYPE_CHECKING:
    from ._core import Program


class Explanation(Mapping[str, Any]):
    """The placement of a program: a mapping with the keys of its JSON form.

    Keys: ``nodes`` (one entry per node: name, op, engine, function, types, refusals by engine),
    ``launches`` (one per function: engine, nodes, bytes, compile and run times),
    ``nodes_per_engine``, ``arena_bytes``, ``notes``, ``placement`` (how the engines were chosen),
    ``precision``, ``candidates`` (what there was to choose from). ``print()`` shows a table.
    """

    def __init__(self, text: str, page: Callable[[str], str]) -> None:
        self._text = text
        self._page = page
        self._values: dict[str, Any] = json.loads(text)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def nodes_per_engine(self) -> dict[str, int]:
        """How many nodes each engine runs."""
        return dict(self._values["nodes_per_engine"])

    def to_json(self) -> str:
        """The explanation as JSON text."""
        return self._text

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "") -> str:
        """The explanation, with the graph drawn, as one self-contained HTML page.

        Written to `path` if given. The page needs no network.
        """
        page = self._page(title)
        if path is not None:
            write_output_file(path, page.encode())
        return page

    def _repr_html_(self) -> str:
        """The page in a frame: what a notebook shows."""
        page = html.escape(self._page(""), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 600px; border: 0"></iframe>'

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.nodes_per_engine.items())
        return f"<openxrt.Explanation: {len(self._values['launches'])} launches; nodes: {counts}>"

    def __str__(self) -> str:
        lines = [self.summary(), "", *self._launch_table()]
        if self._values["candidates"]:
            lines += ["", f"placement: {self._values['placement']}", *self._candidate_table()]
        refused = self._refusals()
        if refused:
            lines += ["", "refused:", *refused]
        if self._values["notes"]:
            lines += ["", "notes:", *(f"  {note}" for note in self._values["notes"])]
        return "\n".join(lines)

    def summary(self) -> str:
        """One line: how many nodes each engine runs, and how many launches there are."""
        total = max(sum(self.nodes_per_engine.values()), 1)
        parts = [
            f"{name} {count} of {total} nodes"
            for name, count in sorted(self.nodes_per_engine.items(), key=lambda item: -item[1])
        ]
        launches = len(self._values["launches"])
        return f"{', '.join(parts) or 'no nodes'}; {launches} launch{'es' * (launches != 1)}"

    def _launch_table(self) -> list[str]:
        head = ("function", "engine", "nodes", "in", "out", "compile", "mean")
        rows = [
            (
                launch["function"],
                launch["engine"],
                str(launch["nodes"]),
                _bytes(launch["input_bytes"]),
                _bytes(launch["output_bytes"]),
                "cached" if launch["from_cache"] else f"{launch['compile_ms']:.1f} ms",
                f"{launch['mean_us']:.1f} us" if launch["runs"] else "-",
            )
            for launch in self._values["launches"]
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = []
        for row in [head, *rows]:
            left = f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
            lines.append(
                left + "".join(f"  {cell:>{widths[i + 2]}}" for i, cell in enumerate(row[2:]))
            )
        return lines

    def _candidate_table(self) -> list[str]:
        head = ("  candidate", "precision", "estimated", "measured", "error", "")
        rows = [
            (
                ("* " if row["chosen"] else "  ") + row["plan"],
                row["precision"],
                _microseconds(row["estimated_us"]),
                _microseconds(row["measured_us"]),
                f"{row['error']:.2g}" if row["error"] >= 0 else "-",
                row["note"],
            )
            for row in self._values["candidates"]
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        return [
            f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}"
            f"  {row[3]:>{widths[3]}}  {row[4]:>{widths[4]}}  {row[5]}".rstrip()
            for row in [head, *rows]
        ]

    def _refusals(self) -> list[str]:
        """One line per engine and kind of reason, with how many nodes of which ops it holds for."""
        ops: dict[tuple[str, str], Counter[str]] = {}
        texts: dict[tuple[str, str], set[str]] = {}
        for node in self._values["nodes"]:
            for engine, reason in node["refusals"].items():
                key = (engine, _kind(reason))
                ops.setdefault(key, Counter())[node["op"]] += 1
                texts.setdefault(key, set()).add(reason)
        lines = []
        for key in sorted(ops, key=lambda key: (key[0], -ops[key].total(), key[1])):
            (engine, kind), counts = key, ops[key]
            shown = [f"{op} {count}" for op, count in counts.most_common(_SHOWN_OPS)]
            if len(counts) > _SHOWN_OPS:
                shown.append("…")
            reason = next(iter(texts[key])) if len(texts[key]) == 1 else kind
            nodes = f"{counts.total()} node{'s' * (counts.total() != 1)}"
            lines.append(f"  {engine}: {nodes} ({', '.join(shown)}): {reason}")
        return lines


def program_html(program: Program) -> str:
    """What a notebook shows of a program: its engines, and tables of its inputs and outputs."""
    rows = [
        (kind, port.name, str(port.type))
        for kind, ports in (("input", program.inputs), ("output", program.outputs))
        for port in ports
    ]
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<p><b>openxrt.Program</b>: {html.escape(program.explain().summary())}</p>"
        f"<table><tr><th></th><th>name</th><th>type</th></tr>{body}</table>"
    )


_SHOWN_OPS = 6

# What differs from node to node in one kind of reason: quoted names, and types.
_PARTICULARS = re.compile(r"'[^']*'|\b[a-z]+[0-9]*[a-z0-9_]*\[[^\]]*\]")


def _kind(reason: str) -> str:
    return _PARTICULARS.sub("…", reason)


def _microseconds(count: float) -> str:
    return f"{count:.1f} us" if count else "-"


def _bytes(count: int) -> str:
    if not count:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
