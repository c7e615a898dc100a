# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the pages in this folder; `./dev docs` builds them."""

import re
from pathlib import Path

from sphinx.application import Sphinx

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
    "sphinx.ext.napoleon",
    "breathe",
]
exclude_patterns = ["conformance"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

breathe_projects = {"openxrt": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "openxrt"
breathe_default_members = ("members",)
breathe_show_include = False
# Every header opens the namespace xrt again.
suppress_warnings = ["duplicate_declaration.cpp"]
cpp_index_common_prefix = ["xrt::"]
cpp_id_attributes = ["XRT_API"]
# Types of members that stand in no header.
nitpick_ignore = [("cpp:identifier", "Index"), ("cpp:identifier", "State")]

html_theme = "furo"
html_title = f"OpenXRT {release}"
html_static_path: list[str] = []
html_theme_options = {"source_directory": "docs/"}


def add_headers(app: Sphinx, docname: str, source: list[str]) -> None:
    """Puts a section per public header into the page of the C++ API."""
    if docname != "reference/cpp":
        return
    sections = [
        f"## xrt/{header.name}\n\n```{{doxygenfile}} {header.name}\n```\n"
        for header in sorted((ROOT / "include" / "xrt").glob("*.h"))
    ]
    source[0] += "\n" + "\n".join(sections)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_headers)
