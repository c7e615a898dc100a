# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows does what it says: examples run, C and C++ compile, commands, flags
and links exist.

Every page of docs/start and docs/guides, and some others, is run: its Python and shell blocks, one
after the other, in a process and an empty folder of its own, which holds model.onnx and a folder of
pictures. A block below a comment `<!-- not run: REASON -->` is only looked at. C and C++ are
compiled against the headers; excerpts of an example are compared with its sources.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
# Pages that are run from top to bottom.
RUN = [
    "README.md",
    *(
        str(page.relative_to(ROOT))
        for folder in ("start", "guides", "reference", "background")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    ),
]
# A page whose examples continue those of another one.
CONTINUES = {"docs/start/explain.md": "docs/start/first-model.md"}
NOT_RUN = re.compile(r"<!-- not run( here)?: (.+) -->")


@dataclass
class Block:
    """A fenced or indented block of a page."""

    page: str
    line: int
    language: str  # "" where it is indented
    text: str
    not_run: str = ""  # why it is not run

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for path in PAGES:
        page = str(path.relative_to(ROOT))
        lines = path.read_text(encoding="utf-8").split("\n")
        at = 0
        while at < len(lines):
            begin = at
            if lines[at].startswith("```"):
                at += 1
                while not lines[at].startswith("```"):
                    at += 1
                language = lines[begin][3:].strip() or "text"
                mark = NOT_RUN.fullmatch(lines[begin - 1]) if begin else None
                text = "\n".join(lines[begin + 1 : at])
                yield Block(page, begin + 2, language, text, mark[2] if mark else "")
            elif lines[at].startswith("    ") and not (at and lines[at - 1].strip()):
                while at < len(lines) and lines[at].startswith("    "):
                    at += 1
                text = "\n".join(line[4:] for line in lines[begin:at])
                yield Block(page, begin + 1, "", text)
                continue
            at += 1


def of(*languages: str) -> list[Block]:
    return [block for block in blocks() if block.language in languages]


# --- examples that run ----------------------------------------------------------------------------


def save_model(path: Path, size: int = 224, batch: int | str = 1) -> None:
    """float32[batch,3,size,size] x to float32[batch,5] y."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "b"], ["y"], "fc"),
    ]
    inputs = [tensor("x", TensorProto.FLOAT, [batch, 3, size, size])]
    outputs = [tensor("y", TensorProto.FLOAT, [batch, 5])]
    weights = [weight("w", 8, 3, 4, 4), weight("b", 8, 5)]
    onnx.save(model_proto(nodes, inputs, outputs, weights), path)


# Runs blocks [[language, line, text], …] of a page; a traceback names the page and its line.
DRIVER = """
import json, subprocess, sys
page, blocks = json.loads(sys.stdin.read())
names = {"__name__": "__main__"}
for language, line, text in blocks:
    if language == "python":
        exec(compile("\\n" * (line - 1) + text, page, "exec"), names)
    elif subprocess.run(["bash", "-euo", "pipefail", "-c", text]).returncode:
        sys.exit(f"{page}:{line}: {text}")
"""


def runnable(page: str) -> list[Block]:
    own = [b for b in of("python", "sh") if b.page == page and not b.not_run]
    return [*runnable(CONTINUES[page]), *own] if page in CONTINUES else own


@pytest.mark.parametrize("page", [page for page in RUN if runnable(page)])
def test_page_runs(page: str, tmp_path: Path) -> None:
    wanted = runnable(page)
    for package in ("torch", "transformers"):
        if any(re.search(rf"^(import|from) {package}\b", b.text, re.MULTILINE) for b in wanted):
            pytest.importorskip(package)
    save_model(tmp_path / "model.onnx")
    save_model(tmp_path / "any_batch.onnx", batch="N")
    (tmp_path / "pictures").mkdir()
    picture = ROOT / "examples" / "ocr" / "page.png"
    shutil.copy(picture, tmp_path / "pictures" / "one.png")
    (tmp_path / "run.py").write_text(DRIVER)  # a file: engines in Python name theirs
    result = subprocess.run(
        [sys.executable, "run.py"],
        input=json.dumps([page, [[b.language, b.line, b.text] for b in wanted]]),
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{build_folder() / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "XRT_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_is_python(block: Block) -> None:
    compile(block.text, str(block), "exec")


# --- links ----------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub and Sphinx name them, and explicit targets."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings)
    return {*plain, *re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", ["start", "guides", "reference", "background"])
def test_every_page_is_in_its_index(page: str) -> None:
    folder = ROOT / "docs" / page
    index = (folder / "index.md").read_text(encoding="utf-8").split("\n")
    names = {path.stem for path in folder.glob("*.md")} - {"index"}
    assert names - set(index) == set()


def test_pages_build_without_warnings(tmp_path: Path) -> None:
    """What `./dev docs` does, which installs Sphinx and Doxygen."""
    pytest.importorskip("sphinx")
    pytest.importorskip("torch")
    (ROOT / "build" / "docs").mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler("doxygen"), "docs/Doxyfile"], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "docs", tmp_path]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]


# Words that tell of the past, which is CHANGELOG.md's.
PAST = re.compile(
    r"\b(since then|at the last run|no longer|used to be|formerly|previously)\b", re.I
)


@pytest.mark.parametrize(
    "path", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_page_tells_history(path: Path) -> None:
    assert not PAST.findall(path.read_text(encoding="utf-8"))


# --- C and C++ ------------------------------------------------------------------------------------


def build_folder() -> Path:
    program = next(path for path in _command.programs() if path.is_file())
    return program.parent.parent


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


def check(command: list[str], source: str) -> None:
    command = [
        *command,
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        "-",
    ]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, source + result.stderr


@cache
def template_sources() -> str:
    """The sources of src/engines/template, without spaces at the ends of lines."""
    files = sorted((ROOT / "src" / "engines" / "template").glob("*.*"))
    text = "\n".join(line.strip() for file in files for line in file.read_text().split("\n"))
    return re.sub(r"(?<=<)xrt::template_engine::", "", text)


@pytest.mark.parametrize("block", of("cpp"), ids=str)
def test_cpp(block: Block) -> None:
    if block.page == "docs/guides/engine.md":  # excerpts
        for line in block.text.split("\n"):
            assert "…" in line or line.strip() in template_sources(), line
        return
    source = block.text
    if "#include" not in source:
        source = f"void f(xrt::OpDefinition& op) {{\n{source}\n}}\n"
        source = f'#include "xrt/op.h"\n#include "xrt/program.h"\n{source}'
    check(
        [compiler("g++"), "-std=c++20", "-x", "c++", f"-I{ROOT / 'include'}"],
        source,
    )


def test_cmake_of_an_engine_outside_the_tree() -> None:
    block = next(b for b in of("cmake") if b.page == "docs/guides/engine.md")
    example = (ROOT / "examples" / "custom_engine" / "cpp" / "CMakeLists.txt").read_text()
    for call in re.findall(r"^\w+\(\w+", block.text, re.MULTILINE):
        assert call in example, call


def test_toml() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    (block,) = of("toml")
    assert tomllib.loads(block.text)["project"]["entry-points"]["openxrt.engines"]


def test_c_of_the_lite_runtime() -> None:
    (block,) = [block for block in of("c") if "xrt_lite_context_create(" in block.text]
    source = (
        '#include "xrt_lite.h"\n#include "xrt_lite_hal.h"\n'
        "int f(const void* pixels, size_t pixel_bytes, void* scores, size_t score_bytes) {\n"
        "xrt_lite_model* model;\nxrt_lite_context* context;\n"
        f"{block.text}\nreturn 0;\n}}\n"
    )
    check(
        [compiler("gcc"), "-std=c11", "-x", "c", f"-I{ROOT / 'lite/runtime/include'}"],
        source,
    )


# --- commands -------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[Block, str]]:
    """Command lines of blocks, without comments; a line that ends in a backslash goes on."""
    for block in of("", "sh", "text"):
        for line in block.text.replace("\\\n", " ").split("\n"):
            for part in re.split(r";|\s{4,}(?=xrt )", re.sub(r"\s+# .*", "", line)):
                words = part.split()
                while words and re.fullmatch(r"[A-Z_]+=\S+", words[0]):
                    words.pop(0)
                if words and re.fullmatch(r"xrt|xrt-lite-\w+|\./dev|make|cmake", words[0]):
                    yield block, part.strip()


def tool(name: str) -> Path:
    return build_folder() / "bin" / name


@cache
def flags_of(command: str) -> set[str]:
    name, *verb = command.split()
    result = subprocess.run(
        [tool(name), *verb, "--help"],
        env={**os.environ, "XRT_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", result.stdout + result.stderr))


def check_flags(line: str) -> None:
    # Values in quotes or braces may hold anything.
    words = shlex.split(line, comments=True)
    begin = next(i for i, word in enumerate(words) if re.fullmatch(r"xrt|xrt-lite-\w+", word))
    words = words[begin:]
    verb = [words[0]]
    if words[0] == "xrt" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
        verb.append(words[1])
    if not tool(words[0]).is_file():
        pytest.skip(f"{words[0]} was not built")
    for word in words[len(verb) :]:
        flag = word.split("=")[0]
        if re.fullmatch(r"--[a-z][\w-]*|-[a-z]", flag):
            assert flag in flags_of(" ".join(verb)), f"{line}: no {flag}"


SHOWN = [(block, line) for block, line in commands() if "xrt" in line.split("./dev")[0]]


@pytest.mark.parametrize(("block", "line"), SHOWN, ids=[f"{b}: {c}" for b, c in SHOWN])
def test_flags_exist(block: Block, line: str) -> None:
    if line.startswith(("cmake", "make")):
        pytest.skip("test_custom_engine_example.py, tests/lite")
    check_flags(line)


def test_flags_within_text_exist() -> None:
    """`xrt inspect MODEL --html page.html --runs 20` and the like."""
    found = 0
    for path in PAGES:
        for code in re.findall(r"(?<!`)`((?:xrt|xrt-lite-\w+) [^`]+)`", path.read_text()):
            check_flags(code.replace("…", ""))
            found += 1
    assert found > 20


@pytest.mark.parametrize("line", [c for _, c in commands() if c.startswith("./dev")])
def test_dev_has_the_command(line: str) -> None:
    words = line.split()
    script = (ROOT / "dev").read_text()
    assert re.search(rf"^cmd_{words[1]}\(\)", script, re.MULTILINE), line
    for word in words[2:]:
        is_placeholder = re.search(r"/[A-Z]+(/|\.|$)", word)  # examples/FOLDER/FILE.py
        if re.fullmatch(r"(examples|benchmarks|tests|tools)/\S+", word) and not is_placeholder:
            assert (ROOT / word).exists(), line
    if words[1] == "bench" and words[2] != "--help":
        assert (ROOT / "benchmarks" / f"{words[2]}.py").is_file() or list(
            (ROOT / "benchmarks").rglob(f"{words[2]}.*")
        ), line
