#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no modules of the Python package import each other in a circle.

Imports inside functions count: what is imported late is still a dependency. Those under
``if TYPE_CHECKING`` do not, and neither does what a package's __init__ hands on, since every module
of a package comes after it.

    python tools/check_imports.py [FOLDER]
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

Imports = dict[str, dict[str, int]]  # module -> module that it imports -> line


def modules_of(root: Path) -> dict[str, Path]:
    """The modules of the package in `root`, by dotted name; a package has its own name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class Collector(ast.NodeVisitor):
    """The modules of a package that one module imports."""

    def __init__(self, module: str, is_package: bool, known: set[str]) -> None:
        self.package = module.split(".") if is_package else module.split(".")[:-1]
        self.known = known
        self.found: dict[str, int] = {}

    def add(self, name: str, line: int) -> None:
        """Notes a name, if it is a module of the package."""
        if name in self.known:
            self.found.setdefault(name, line)

    def visit_If(self, node: ast.If) -> None:
        """Leaves out what is for type checkers alone."""
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """As in `import a.b`."""
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """As in `from .a import b`, where b may be a module too."""
        start = self.package[: len(self.package) - node.level + 1] if node.level else []
        base = ".".join([*start, *(node.module.split(".") if node.module else [])])
        named = [f"{base}.{alias.name}" for alias in node.names]
        if not all(name in self.known for name in named):
            self.add(base, node.lineno)
        for name in named:
            self.add(name, node.lineno)


def imports_of(root: Path) -> Imports:
    """What every module of the package in `root` imports of it."""
    modules = modules_of(root)
    imports = {}
    for module, path in modules.items():
        collector = Collector(module, path.name == "__init__.py", set(modules))
        collector.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
        # A package above the module is there before it.
        imports[module] = {
            name: line
            for name, line in collector.found.items()
            if name != module and not module.startswith(f"{name}.")
        }
    return imports


def circles(imports: Imports) -> list[list[str]]:
    """Sets of modules that reach each other, as strongly connected components (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for name in imports[module]:
            if name not in order:
                visit(name)
                low[module] = min(low[module], low[name])
            elif name in stack:
                low[module] = min(low[module], order[name])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in imports:
        if module not in order:
            visit(module)
    return found


def main() -> int:
    """Command line."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "python/openxrt"
    imports = imports_of(root.resolve())
    modules = modules_of(root.resolve())
    found = circles(imports)
    for circle in found:
        print(f"{' <-> '.join(circle)}: these modules import each other:")
        for module in circle:
            for name in circle:
                if name in imports[module]:
                    path = modules[module].relative_to(root.resolve().parent.parent)
                    print(f"  {path}:{imports[module][name]}: imports {name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
