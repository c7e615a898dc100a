# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the pages in this folder; `./dev docs` builds them."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project = "OpenXRT"
author = "the OpenXRT authors"
copyright = "the OpenXRT authors"  # noqa: A001
version = release = re.search(
    r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
)[1]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "breathe",
]
exclude_patterns = ["conformance"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_type_aliases = {"LoadOptions": "openxrt.LoadOptions"}
autoclass_content = "class"

breathe_projects = {"openxrt": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "openxrt"
breathe_default_members = ("members",)
breathe_show_include = False
# Every header opens the namespace xrt again.
suppress_warnings = ["duplicate_declaration.cpp"]
cpp_index_common_prefix = ["xrt::"]
cpp_id_attributes = ["XRT_API"]
# Types of members that stand in no header.
nitpick_ignore = [
    ("cpp:identifier", "Index"),
    ("cpp:identifier", "State"),
]
# What other projects document, and names that are not for users.
nitpick_ignore_regex = [
    ("cpp:identifier", r"u?int\d*_t|size_t"),
    ("py:.*", r"(collections|os|typing|types|enum|numpy|np|torch|tensorrt|tvm|relax|trt)\..*"),
    ("py:.*", r"(PathLike|ArrayLike|ndarray|optional)"),
    ("py:.*", r"openxrt\.torch\.graph_module\.TensorSpec"),
]

html_theme = "furo"
html_title = f"OpenXRT {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]


C_HEADERS = ("xrt.h",)


def add_headers(app: Sphinx, docname: str, source: list[str]) -> None:
    """Puts a section per public header into the pages of the C++ and C APIs."""
    headers = sorted(path.name for path in (ROOT / "include" / "xrt").glob("*.h"))
    pages = {
        "reference/cpp": [name for name in headers if name not in C_HEADERS],
        "reference/c-api": list(C_HEADERS),
    }
    sections = [
        f"## xrt/{name}\n\n```{{doxygenfile}} {name}\n```\n" for name in pages.get(docname, [])
    ]
    source[0] += "\n" + "\n".join(sections)


GOOGLE_STYLE = Config(napoleon_google_docstring=True, napoleon_use_rtype=False)


def read_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Reads Google's style, and `code` as Markdown has it. Plain text of C++ is escaped."""
    if getattr(obj, "__module__", "") == "openxrt._core" or what == "property":
        lines[:] = [re.sub(r"(?<![`\\])([*_|])", r"\\\1", line) for line in lines]
        return
    lines[:] = [re.sub(r"(?<![`:])`([^`]+)`(?!`)", r"``\1``", line) for line in lines]
    lines[:] = GoogleDocstring(lines, GOOGLE_STYLE, app, what, name, obj, options).lines()


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_headers)
    app.connect("autodoc-process-docstring", read_docstring)
