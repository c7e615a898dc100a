#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what is made of the tables of options and environment variables.

From include/xrt/options.inc: python/openxrt/_load.py (openxrt.load with its keyword arguments,
their types and docstring), python/openxrt/_module_options.py (the same of XRTModule),
python/openxrt/_option_table.py (the table in Python) and tables of docs/reference/options.md; from
the files variables.inc and CMake's options: the other tables of that page. C++ includes the tables
themselves.

    python tools/make_options.py            write
    python tools/make_options.py --check    status 1 if a file is stale, or if a source reads an
                                            environment variable XRT_… that no table has
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
OPTIONS = "include/xrt/options.inc"
PAGE = "docs/reference/options.md"
WIDTH = 100

# C++ type of a row -> kind, annotation in Python.
TYPES = {
    "bool": ("switch", "bool"),
    "int": ("integer", "int"),
    "std::int64_t": ("integer", "int"),
    "std::size_t": ("integer", "int"),
    "double": ("number", "float"),
    "std::string": ("text", "str"),
    "std::filesystem::path": ("path", "str | os.PathLike[str] | None"),
    "OptionalPath": ("path", "str | os.PathLike[str] | None"),
    "PrecisionOrAuto": ("word", "str"),
    "OptionNames": ("list", "str | Sequence[str]"),
    "OptionMap": ("map", "Mapping[str, str] | None"),
    "OptionPairs": ("map", "Mapping[str, str] | Iterable[tuple[str, str]] | None"),
    "OptionsByEngine": ("map", "Mapping[str, Mapping[str, object]] | None"),
}

# Options whose texts Python also takes in other forms: sequences of sizes and names, a number, a
# path.
OTHER_FORMS = {
    "shapes": "Mapping[str, str | Sequence[int | str | None]] | None",
    "ranges": "Mapping[str, str | int | Sequence[int]] | None",
    "int8_calibration": "str | int | os.PathLike[str]",
}

# Where the rows of variables lie -> what docs call them.
VARIABLES = {
    "src/options/variables.inc": "core",
    "src/engines/*/variables.inc": "engines",
    "lite/variables.inc": "OpenXRT Lite",
    "tools/variables.inc": "development",
}


def option_class() -> Any:
    """openxrt's Option, without the package, which needs to be built."""
    path = ROOT / "python" / "openxrt" / "_option.py"
    spec = importlib.util.spec_from_file_location("_option", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["_option"] = module
    spec.loader.exec_module(module)
    return module.Option


Option = option_class()


def macro_calls(text: str, macro: str) -> Iterator[list[str]]:
    """The arguments of each call of the macro XRT_`macro`, as written."""
    text = re.sub(r"^\s*(//|#).*$", "", text, flags=re.MULTILINE)
    token = re.compile(r'"(?:\\.|[^"\\])*"|[(){}<>,]|[^"(){}<>,]+')
    for call in re.finditer(rf"\bXRT_{macro}\(", text):
        depth, arguments = 0, [""]
        for found in token.finditer(text, call.end()):
            piece = found.group()
            if piece in "({<":
                depth += 1
            elif piece in ")}>":
                depth -= 1
                if depth < 0:
                    break
            if piece == "," and depth == 0:
                arguments.append("")
            else:
                arguments[-1] += piece
        yield [argument.strip() for argument in arguments]


def literal(text: str) -> Any:
    """The value of a C++ literal: true, a number, "adjacent" "strings", {}, Enum::kWord."""
    if text in ("true", "false"):
        return text == "true"
    if text == "{}":
        return None
    if text.startswith("{"):
        return literal(text[1:-1])
    if enumerator := re.fullmatch(r"\w+::k(\w+)", text):
        return enumerator[1].lower()
    return ast.literal_eval(f"({text})")


def words_of(details: dict[str, Any], key: str) -> tuple[str, ...]:
    """A detail that is a list separated by commas."""
    return tuple(word.strip() for word in details.get(key, "").split(",") if word)


def read_options(text: str) -> list[Option]:
    """The rows of include/xrt/options.inc."""
    rows = []
    for kind_of_row in ("OPTION", "RETIRED_OPTION"):
        for type_name, name, *rest in macro_calls(text, kind_of_row):
            if type_name not in TYPES:
                raise SystemExit(f"{OPTIONS}: option {name}: type {type_name} is not in TYPES")
            kind, annotation = TYPES[type_name]
            annotation = OTHER_FORMS.get(name, annotation)
            retired = ""
            if kind_of_row == "RETIRED_OPTION":
                retired, default = literal(rest[0]), None
                details = {"help": retired, "flags": "", "environment": True}
            else:
                default = literal(rest[0])
                if kind == "list" and default is None:
                    default = ()
                details = {}
                for detail in rest[1:]:
                    key, _, value = detail.partition("=")
                    details[key.strip().removeprefix(".")] = literal(value.strip())
            words = words_of(details, "words")
            if words:
                kind = "word"
                allowed = ", ".join(f'"{word}"' for word in dict.fromkeys((default, *words)))
                annotation = f"Literal[{allowed}]"
            names = (name, *words_of(details, "other_names"))
            flags = tuple("--" + own.replace("_", "-") for own in names)
            variables = tuple("XRT_" + own.upper() for own in names)
            rows.append(
                Option(
                    name=name,
                    keyword=details.get("keyword", name),
                    kind=kind,
                    annotation=annotation,
                    default=default,
                    words=words,
                    least=details.get("least"),
                    most=details.get("most"),
                    help=details["help"],
                    other_names=names[1:],
                    flags=words_of(details, "flags") if "flags" in details else flags,
                    variables=variables if details.get("environment") else (),
                    trainer=details.get("trainer", True),
                    module=details.get("module", True),
                    cached=details.get("cached", False),
                    retired=retired,
                )
            )
    return rows


def formatted(source: str) -> str:
    """`source` as ruff formats it."""
    return subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", "x.py", "-"],
        input=source,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def table_source(options: list[Option]) -> str:
    """python/openxrt/_option_table.py."""
    rows = ",\n".join(map(repr, options))
    return formatted(
        f"{LICENCE}# Made of {OPTIONS} by tools/make_options.py; do not edit.\n"
        f"# ruff: noqa: E501\n"
        f'"""The table of options."""\n\n'
        f"from ._option import Option\n\n"
        f"TABLE: tuple[Option, ...] = ({rows},)\n"
    )


def argument_help(name: str, text: str, indent: int = 8) -> str:
    """One entry of a docstring's Args."""
    return textwrap.fill(
        f"{name}: {text}",
        WIDTH - 1,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
    )


def leading_first(options: list[Option]) -> tuple[list[Option], list[Option]]:
    """The options that may be positional arguments, and the others; none without effect."""
    live = [option for option in options if not option.retired]
    leading = [option for name in ("engines", "device") for option in live if option.name == name]
    return leading, [option for option in live if option not in leading]


def other_names_of(options: list[Option]) -> str:
    """What is accepted beside the keywords, for docstrings."""
    live = [option for option in options if not option.retired]
    names = {name for o in live for name in (o.name, *o.other_names)} - {o.keyword for o in live}
    return ", ".join((*sorted(names), *(o.name for o in options if o.retired)))


def load_source(options: list[Option]) -> str:
    """python/openxrt/_load.py."""
    leading, others = leading_first(options)
    parameters = [f"{o.keyword}: {o.annotation} = {o.default!r}" for o in leading]
    parameters += ["*", *(f"{o.keyword}: {o.annotation} = {o.default!r}" for o in others)]
    passed = [f'"{o.keyword}": {o.keyword}' for o in (*leading, *others)]
    fields = [f"{o.keyword}: {o.annotation}" for o in (*leading, *others)]
    arguments = [
        argument_help(
            "model",
            "path of an ONNX model or of a folder that OneFlow saved, the bytes of an ONNX model "
            "(which cannot refer to files of external data), or a Graph.",
        ),
        *(argument_help(option.keyword, option.help) for option in (*leading, *others)),
        argument_help("other_names", f"other names of options: {other_names_of(options)}."),
    ]
    return formatted(
        f"{LICENCE}# Made of {OPTIONS} by tools/make_options.py; do not edit.\n"
        '"""openxrt.load and the types of its options."""\n\n'
        "from __future__ import annotations\n\n"
        "import os\n"
        "from collections.abc import Iterable, Mapping, Sequence\n"
        "from typing import Literal, TypedDict\n\n"
        "from . import _arguments\n"
        "from ._core import Graph, Program\n"
        "from ._core import load as _load\n\n\n"
        "class LoadOptions(TypedDict, total=False):\n"
        '    """Keyword arguments of :func:`openxrt.load`, for functions that hand them on."""\n\n'
        + "".join(f"    {field}\n" for field in fields)
        + "\n\ndef load(\n"
        "    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Graph,\n"
        + "".join(f"    {parameter},\n" for parameter in parameters)
        + "    **other_names: object,\n) -> Program:\n"
        '    """Loads a model, places it on engines and compiles it.\n\n'
        '    >>> program = openxrt.load("model.onnx", engine=["openvino", "native"])\n\n'
        "    An option left at its default is what its variable ``XRT_<NAME>`` says, if any.\n\n"
        "    Args:\n" + "\n".join(arguments) + "\n\n"
        "    Raises:\n"
        "        InvalidArgument: an option is unknown or has a value that does not fit.\n"
        "        NotFound: the file or an engine does not exist.\n"
        "        InvalidModel: the model is damaged or breaks a rule.\n"
        "        Unsupported: no permitted engine can run a node; the message says why each "
        "refused it.\n"
        "        EngineError: a named engine cannot be loaded, or failed to compile.\n"
        '    """\n'
        "    return _load(\n"
        "        _arguments.source_of(model),\n"
        "        {" + ", ".join((*passed, "**other_names")) + "},\n"
        "    )\n"
    )


def help_with_default(option: Option) -> str:
    """The help of an option whose signature does not show the default."""
    if option.default in (None, "", ()):
        return option.help
    default = option.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{option.help} Default: {shown}."


def module_source(options: list[Option]) -> str:
    """python/openxrt/_module_options.py.

    Options are None by default: what is given is told from what is not, also where it is the
    table's default.
    """
    leading, others = leading_first([o for o in options if o.module or o.retired])
    annotations = {
        o.keyword: o.annotation if "None" in o.annotation else f"{o.annotation} | None"
        for o in (*leading, *others)
    }
    optional = [f"{o.keyword}: {annotations[o.keyword]} = None" for o in (*leading, *others)]
    parameters = [
        *("self", "module: Any", *optional[: len(leading)], "*"),
        *("use_fp16: bool = False", "use_bf16: bool = False"),
        *("use_int8: bool = False", "int8_calibration: object = None"),
        *optional[len(leading) :],
        "**other_names: object",
    ]
    passed = [f'"{o.keyword}": {o.keyword}' for o in (*leading, *others)]
    helps = [
        ("module", "what is wrapped; it stays usable by itself."),
        *((option.keyword, help_with_default(option)) for option in leading),
        ("use_fp16", 'engines that can do so compute float32 in float16: precision="f16".'),
        ("use_bf16", 'engines that can do so compute float32 in bfloat16: precision="bf16".'),
        (
            "use_int8",
            "evaluation computes convolutions and products by constants in int8. What is "
            "quantised is made at the first call, and anew at the next call after weights have "
            "changed.",
        ),
        (
            "int8_calibration",
            "samples, a function, a number of calls, or the path of samples or of a table: see "
            "openxrt.quantize.Calibration, which may be given itself.",
        ),
        *((option.keyword, help_with_default(option)) for option in others),
        (
            "other_names",
            f"other names of options: {other_names_of(options)}; and arguments of the framework's "
            "XRTModule.",
        ),
    ]
    return formatted(
        f"{LICENCE}# Made of {OPTIONS} by tools/make_options.py; do not edit.\n"
        '"""The arguments of every XRTModule."""\n\n'
        "from __future__ import annotations\n\n"
        "import os\n"
        "from abc import ABC, abstractmethod\n"
        "from collections.abc import Mapping, Sequence\n"
        "from typing import Any, Literal\n\n\n"
        "class ModuleOptions(ABC):\n"
        '    """Takes the arguments of an XRTModule, and hands them to _set_up()."""\n\n'
        f"    def __init__({', '.join(parameters)}) -> None:\n"
        '        """Wraps a module. None stands for the default of an option.\n\n'
        "        Args:\n"
        + "\n".join(argument_help(name, text, indent=12) for name, text in helps)
        + "\n\n        Raises:\n"
        "            InvalidArgument: arguments contradict each other.\n"
        '        """\n'
        "        self._set_up(module, {" + ", ".join((*passed, "**other_names")) + "}, use_fp16, "
        "use_bf16, use_int8, int8_calibration)\n\n"
        "    @abstractmethod\n"
        "    def _set_up(self, module: Any, options: dict[str, Any], use_fp16: bool, "
        "use_bf16: bool, use_int8: bool, int8_calibration: object) -> None:\n"
        '        """Begins the module. `options` holds every option, those not given as None."""\n'
    )


def read_variables(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Environment variables with their help, by what reads them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for pattern, group in VARIABLES.items():
        for path in sorted(root.glob(pattern)):
            for name, text in macro_calls(path.read_text(encoding="utf-8"), "VARIABLE"):
                found.setdefault(group, []).append((name, literal(text)))
    return found


def read_build_options(root: Path) -> list[tuple[str, str, str]]:
    """CMake's options of this project: name, default, help."""
    options = []
    for path in (root / "CMakeLists.txt", *sorted(root.glob("src/engines/*/CMakeLists.txt"))):
        text = path.read_text(encoding="utf-8")
        for name, about, default in re.findall(
            r'^\s*option\((XRT_\w+) "([^"]*)" (\w+)\)', text, re.M
        ):
            options.append((name, default, about))
        for name, default, about in re.findall(
            r'^\s*set\((XRT_\w+) (\S+) CACHE STRING "([^"]*)"\)', text, re.M
        ):
            options.append((name, default.strip('"'), about))
    return options


def code(words: tuple[str, ...]) -> str:
    """Words as code, separated by commas."""
    return ", ".join(f"`{word}`" for word in words)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def values_of(option: Option) -> str:
    """The values that an option takes, for the page."""
    if option.words:
        return code(option.words)
    if option.kind not in ("integer", "number"):
        return {"switch": "true, false", "list": "names", "map": "map"}.get(
            option.kind, option.kind
        )
    least = "" if option.least is None else f"{option.least:g}"
    return (
        f"{option.kind}, {least} to {option.most}" if option.most else f"{option.kind}, ≥ {least}"
    )


def default_of(option: Option) -> str:
    """The default of an option, for the page."""
    if option.default in (None, "", ()):
        return ""
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    return f"`{option.default}`"


def page_tables(root: Path, options: list[Option]) -> dict[str, str]:
    """The tables of the page, by name."""
    live = [option for option in options if not option.retired]
    without = {
        "`openxrt.Trainer`": [o.keyword for o in live if not o.trainer],
        "`openxrt.torch.XRTModule`": [o.keyword for o in live if not o.module],
    }
    rows = [
        (
            code(
                (
                    option.keyword,
                    *(n for n in (option.name, *option.other_names) if n != option.keyword),
                )
            ),
            values_of(option),
            default_of(option),
            option.help,
            code(option.flags),
            code(option.variables),
        )
        for option in live
    ]
    where = "Of these, " + "; ".join(
        f"{who} has all but {code(tuple(names))}" for who, names in without.items()
    )
    cached = code(tuple(option.name for option in live if option.cached))
    tables = {
        "options": table(("option", "values", "default", "what it does", "flag", "variable"), rows)
        + f"\n\n{where}.\n\nWhat is compiled and kept in a cache depends on {cached}.",
        "retired": table(
            ("name", "why"), [(f"`{o.name}`", o.retired) for o in options if o.retired]
        ),
        "build": table(
            ("CMake option", "default", "what it does"),
            [
                (f"`{name}`", f"`{default}`" if default else "", about)
                for name, default, about in read_build_options(root)
            ],
        ),
    }
    for group, variables in read_variables(root).items():
        tables[f"variables: {group}"] = table(
            ("variable", "what it says"), [(f"`{name}`", about) for name, about in variables]
        )
    return tables


def filled(page: str, tables: dict[str, str]) -> str:
    """The page with each `<!-- table: NAME -->` … `<!-- end of table -->` filled."""
    for name, text in tables.items():
        begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
        if begin not in page:
            raise SystemExit(f"{PAGE}: there is no '{begin.strip()}'")
        before, rest = page.split(begin, 1)
        page = before + begin + "\n" + text + "\n\n" + end + rest.split(end, 1)[1]
    return page


def make(root: Path) -> dict[str, str]:
    """The files that are made of the tables of `root`, with their contents."""
    options = read_options((root / OPTIONS).read_text(encoding="utf-8"))
    page = (root / PAGE).read_text(encoding="utf-8")
    return {
        "python/openxrt/_load.py": load_source(options),
        "python/openxrt/_module_options.py": module_source(options),
        "python/openxrt/_option_table.py": table_source(options),
        PAGE: filled(page, page_tables(root, options)),
    }


# An environment variable in C, C++ and Python is a literal of its own; shells and CMake name it.
LITERAL = re.compile(r"""["'](XRT_[A-Z0-9_]+)["']""")
SHELL = re.compile(r"\$\{?(XRT_[A-Z0-9_]+)|\$ENV\{(XRT_[A-Z0-9_]+)\}")


MACROS = frozenset({"XRT_API"})


def unknown_variables(root: Path, files: list[str]) -> list[str]:
    """Places that read an environment variable XRT_… of no table, as "file:line: name"."""
    known = {name for rows in read_variables(root).values() for name, _ in rows}
    for option in read_options((root / OPTIONS).read_text(encoding="utf-8")):
        known.update(option.variables)
    places = []
    for name in files:
        if name.startswith("tests/"):  # they also read what they set themselves
            continue
        if name.endswith((".cc", ".h", ".c", ".py")):
            pattern = LITERAL
        elif name.endswith(".sh") or name in ("dev", ".ci/run"):
            pattern = SHELL
        else:
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1):
            for found in pattern.finditer(line):
                variable = next(group for group in found.groups() if group)
                if variable not in known | MACROS:
                    places.append(f"{name}:{number}: {variable}")
    return places


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="the source tree")
    arguments = parser.parse_args()
    root = arguments.root
    clean = True
    for name, text in make(root).items():
        path = root / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            print(f"{name} is stale: run tools/make_options.py")
            clean = False
        else:
            path.write_text(text, encoding="utf-8")
    if arguments.check:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        files = [name for name in listed if (root / name).is_file()]
        for place in unknown_variables(root, files):
            print(f"{place} is in no table of environment variables (src/options/variables.inc)")
            clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
