#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a header for Doxygen: its plain comments become documentation comments.

    python3 tools/doxygen_filter.py include/xrt/program.h

A comment above a declaration belongs to it, a comment behind one on the same line too. The first
comment describes the file. Lines that are indented within a comment are an example. C's comments
are first written as C++'s. The fields that a header takes from the table of options are written
out; the inline namespace of the engine interface is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import make_options

# Markdown and Doxygen would read these as commands, tags and emphasis.
SPECIAL = re.compile(r"([\\<>@*_#])")
COMMENT = re.compile(r"^(\s*)//( ?)(.*)$")
BEHIND = re.compile(r"^(\s*\S.*?[;,{}]|\s*\w+(?: = [\w']+)?)\s+// (.*)$")
SKIPPED = ("SPDX-License-Identifier", "NOLINT", "clang-format")


def with_line_comments(lines: list[str]) -> list[str]:
    """C's comments as C++'s, in place."""
    result: list[str] = []
    column = -1  # of the comment that goes on
    for line in lines:
        begin = line.find("/*") if column < 0 else -1
        if column < 0 and begin < 0:
            result.append(line)
            continue
        code = line[:begin] if begin >= 0 else " " * column
        text, end, _ = (line[begin + 2 :] if begin >= 0 else line).partition("*/")
        if begin < 0:
            text = re.sub(r"^\s*\* ?", " ", text)
        column = -1 if end else max(begin, column)
        text = text.rstrip()
        result.append("" if re.search(r"---", text) else f"{code}//{text}")
    return result


def comment_text(text: str) -> str:
    """The text of a comment line for Doxygen; an example keeps its indentation."""
    example = text.startswith("  ")
    return f"    {text}" if example else SPECIAL.sub(r"\\\1", text)


def documented(lines: list[str]) -> list[str]:
    """The lines with documentation comments."""
    result: list[str] = []
    column = -1  # of the comment behind the last declaration; its next lines stand there too
    in_file_comment = False
    for number, line in enumerate(lines):
        match = COMMENT.match(line)
        if match:
            indent, _, text = match.groups()
            if any(word in text for word in SKIPPED):
                result.append("")
                in_file_comment = number == 0
                continue
            marker = "///<" if 0 <= column <= len(indent) else "///"
            column = column if marker == "///<" else -1
            if in_file_comment:
                result.append("/// \\file")
                in_file_comment = False
                marker = "///"
            result.append(f"{indent}{marker} {comment_text(text)}")
            continue
        in_file_comment = False
        column = -1
        trailing = BEHIND.match(line)
        if not trailing or line.startswith(("}", "#")):
            result.append(line)
        elif any(word in trailing[2] for word in SKIPPED):
            result.append(trailing[1])
        else:
            column = line.index("// ", len(trailing[1]))
            result.append(f"{trailing[1]}  ///< {comment_text(trailing[2])}")
    return result


def with_fields(lines: list[str]) -> list[str]:
    """The lines, with a field and its comment per row in the place of the table of options."""
    result: list[str] = []
    for line in lines:
        if line.startswith("#define XRT_OPTION("):
            continue
        if line != f'#include "{make_options.OPTIONS.removeprefix("include/")}"':
            result.append(line)
            continue
        table = (make_options.ROOT / make_options.OPTIONS).read_text(encoding="utf-8")
        rows = zip(
            make_options.macro_calls(table, "OPTION"),
            make_options.read_options(table),
            strict=False,
        )
        for (type_name, name, default, *_), option in rows:
            result += [f"  // {option.help}", f"  {type_name} {name} = {default};"]
    return result


def main() -> int:
    """Command line."""
    lines = with_fields(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    if lines and lines[0].startswith("/*"):
        lines = with_line_comments(lines)
    # Breathe does not look through inline namespaces.
    lines = ["" if "namespace XRT_ENGINE_NAMESPACE" in line else line for line in lines]
    # Sphinx's parser of C++ knows no designated initialisers.
    lines = [re.sub(r" = \{\..*\};", ";", line) for line in lines]
    print("\n".join(documented(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
