# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows does what it says: code blocks compile and run, commands exist.

Python and the command run as written, on models of the names that the blocks use. C and C++ are
compiled against the headers; excerpts of an example are compared with its sources. What another
test runs already is not run again: the examples' own commands (test_custom_engine_example.py,
test_custom_op.py), and what needs a GPU, OneFlow or hours.
"""

import ast
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
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]


@dataclass
class Block:
    """A fenced or indented block of a page."""

    page: str
    line: int
    language: str  # "" where it is indented
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for path in PAGES:
        page = str(path.relative_to(ROOT))
        lines = path.read_text().split("\n")
        at = 0
        while at < len(lines):
            begin = at
            if lines[at].startswith("```"):
                at += 1
                while not lines[at].startswith("```"):
                    at += 1
                language = lines[begin][3:].strip() or "text"
                yield Block(page, begin + 2, language, "\n".join(lines[begin + 1 : at]))
            elif lines[at].startswith("    ") and not (at and lines[at - 1].strip()):
                while at < len(lines) and lines[at].startswith("    "):
                    at += 1
                text = "\n".join(line[4:] for line in lines[begin:at])
                yield Block(page, begin + 1, "", text)
                continue
            at += 1


def of(*languages: str) -> list[Block]:
    return [block for block in blocks() if block.language in languages]


# --- Python ---------------------------------------------------------------------------------------


def save_model(path: Path, size: int = 224, *, scale: bool = False) -> None:
    """float32[1,3,size,size] x to float32[1,5]; with an input `scale` that has a default."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "b"], ["s" if scale else "y"], "fc"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])]
    weights = [weight("w", 8, 3, 4, 4), weight("b", 8, 5)]
    if scale:
        nodes.append(helper.make_node("Mul", ["s", "scale"], ["y"], "scaling"))
        inputs.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, []))
        weights.append(numpy_helper.from_array(np.float32(1), "scale"))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])]
    graph = helper.make_graph(nodes, "model", inputs, outputs, weights)
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


# Statements that other tests run, or that need what a test does not have.
ELSEWHERE = {
    "resnet50_model": "a folder of OneFlow's: test_oneflow_saved.py",
    "openxrt.oneflow": "OneFlow: tests/oneflow",
}
# Pages whose blocks are parts of programs that other tests hold: their syntax alone is looked at.
EXCERPTS = {
    "docs/guides/torch2trt.md": "tests/python/torch/test_torch2trt_examples.py",
    "docs/reference/engines.md": "test_engine_tensorrt.py",
    "docs/guides/engine.md": "test_custom_engine_example.py",
}


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_is_python(block: Block) -> None:
    compile(block.text, str(block), "exec")


def in_order(page: str) -> list[Block]:
    return [block for block in of("python") if block.page == page]


def run_page(page: str, names: dict[str, object]) -> None:
    """All blocks of a page, one after the other, in one namespace."""
    for block in in_order(page):
        if "cuda" in block.text:
            continue  # a GPU: tests/python/torch/test_on_gpu.py
        for statement in ast.parse(block.text).body:
            source = ast.unparse(statement)
            if any(word in source for word in ELSEWHERE):
                continue
            code = compile(ast.Module([statement], []), str(block), "exec")
            try:
                exec(code, names)
            except Exception as error:
                raise AssertionError(f"{block}: {source}") from error


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "model.onnx")
    return tmp_path


def test_python_page(folder: Path) -> None:
    save_model(folder / "model.onnx", scale=True)
    x = np.ones((1, 3, 224, 224), np.float32)
    names = {"x": x, "buffer": np.empty((1, 5), np.float32), "model": "model.onnx"}
    run_page("docs/reference/python.md", names)
    assert (folder / "page.html").is_file()
    assert (folder / "trace.json").is_file()


def test_readme(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    import openxrt.torch

    x = np.ones((1, 3, 224, 224), np.float32)
    run_page("README.md", {"x": x, "module": torch.nn.Linear(3, 4), "openxrt": openxrt})
    assert (folder / "model.html").is_file()
    assert (folder / "model.bin").is_file()


def test_training_page(folder: Path) -> None:
    images = np.random.default_rng(1).random((1, 3, 224, 224), np.float32)
    run_page("docs/guides/training.md", {"images": images, "labels": np.array([2])})
    assert (folder / "run.state").is_file()


def test_custom_op_page(folder: Path) -> None:
    names = {"np": np}
    first, *others = in_order("docs/guides/op.md")
    # Other tests register the op of the page, too.
    exec(first.text.replace('"example"', '"documented"'), names)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("SoftShrink", ["x"], ["y"], domain="documented", lambd=0.25)],
            "test",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        ),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("documented", 1)],
        ir_version=10,
    ).SerializeToString()
    y = openxrt.load(model)(np.array([-1, 0.1, 2], np.float32))
    np.testing.assert_allclose(y, [-0.75, 0, 1.75])
    # The rest registers the same op again, with code for XLA and for TVM: test_custom_op*.py.
    assert all("SoftShrink" in block.text for block in others)


def test_frontends_page(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    names = {
        "openxrt": openxrt,
        "torch": torch,
        "model": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval(),
        "inputs": (torch.ones(2, 3),),
        "xt": __import__("openxrt.torch").torch,
    }
    first = in_order("docs/guides/pytorch.md")[0]
    exec(compile(first.text, str(first), "exec"), names)
    fast, program = names["fast"], names["program"]
    with torch.no_grad():
        np.testing.assert_allclose(fast(*names["inputs"]), names["model"](*names["inputs"]), 1e-5)
    assert len(program.outputs) == 1


def test_python_of_lite_and_quantize(folder: Path) -> None:
    """Indented blocks."""
    image = np.random.default_rng(2).random((1, 3, 224, 224), np.float32)
    model = onnx.load("model.onnx")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, "model.onnx")
    (lite,) = [block for block in of("") if "openxrt.lite.Model(" in block.text]
    names = {"openxrt": openxrt, "image": image, "samples": [{"x": image}]}
    names["openxrt"].lite = __import__("openxrt.lite").lite
    text = lite.text.replace('precision="int8"', 'precision="int8", dims={"batch": 1}')
    exec(text, names)
    assert names["outputs"]["y"].shape == (1, 5)
    (quantise,) = [block for block in of("") if "import openxrt.quantize" in block.text]
    exec(quantise.text.replace(", …]", "]"), names)
    assert (folder / "int8.onnx").is_file()


def test_every_page_with_python_is_run() -> None:
    pages = {block.page for block in of("python")}
    run = {"README.md", "docs/reference/python.md", "docs/guides/training.md", "docs/guides/op.md"}
    # The fenced block of quantization.md: tests/python/torch/test_int8.py.
    guides = {f"docs/guides/{name}.md" for name in ("pytorch", "oneflow", "quantization")}
    assert pages == run | set(EXCERPTS) | guides


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
    command = [*command, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-"]
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
    if "…" in source:
        source = source.replace("…", "static_cast<void>(lambd + x.data<float>()[0]); y = x;")
    if "xrt_register_ops" not in source:
        source = f'#include "xrt/op.h"\nvoid f(xrt::OpDefinition& op) {{\n{source}\n}}\n'
    check(
        [compiler("g++"), "-std=c++20", "-x", "c++", f"-I{ROOT / 'include'}"],
        source,
    )


def test_cmake_of_an_engine_outside_the_tree() -> None:
    (block,) = of("cmake")
    example = (ROOT / "examples" / "custom_engine" / "cpp" / "CMakeLists.txt").read_text()
    for line in block.text.split("\n"):
        assert line.replace(" elementwise.cc engine.cc executable.cc ...)", "") in example, line


def test_toml() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    (block,) = of("toml")
    assert tomllib.loads(block.text)["project"]["entry-points"]["openxrt.engines"]


def test_c_of_the_lite_runtime() -> None:
    (block,) = [block for block in of("") if "xrt_lite_context_create(" in block.text]
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
        [tool(name), *verb, "--help"], capture_output=True, text=True, check=False
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
    if words[1] == "bench":
        assert (ROOT / "benchmarks" / f"{words[2]}.py").is_file() or list(
            (ROOT / "benchmarks").rglob(f"{words[2]}.*")
        ), line


# What is run, on small models of these names.
RUN = [
    "xrt doctor",
    "xrt run model.onnx --engine openvino,native",
    "xrt inspect model.onnx --html model.html",
    "xrt bench model.onnx --engine native --engine openvino,native",
    "xrt-lite-compile model.onnx -o model.bin --targets=x86,generic",
    "xrt-lite-run model.bin",
    "xrt-lite-compile mobilenet_v2.onnx -o mobilenet_v2.bin --targets=generic",
    "xrt-lite-run mobilenet_v2.bin --input cat.jpg --top 5 --repeat 20 --profile",
    "xrt-lite-run mobilenet_v2.bin --reference mobilenet_v2.onnx",
    "xrt-lite-inspect mobilenet_v2.bin --ops",
]
QUANTISE = "xrt quantize resnet50.onnx -o resnet50_int8.onnx --calibrate pictures"


def test_commands_run(tmp_path: Path) -> None:
    shown = [line for _, line in commands()]
    assert [line for line in RUN if line not in shown] == []
    quantise = next(line for line in shown if line.startswith(QUANTISE))
    for name in ("model", "mobilenet_v2", "resnet50"):
        save_model(tmp_path / f"{name}.onnx")
    picture = ROOT / "examples" / "ocr" / "page.png"
    (tmp_path / "pictures").mkdir()
    shutil.copy(picture, tmp_path / "pictures" / "one.png")
    environment = {**os.environ, "XRT_PYTHON": sys.executable}
    for line in [*RUN, quantise]:
        words = shlex.split(line.replace("cat.jpg", str(picture)))
        if not tool(words[0]).is_file():
            continue
        result = subprocess.run(
            [tool(words[0]), *words[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        # An engine may be missing here; its doctor says so.
        assert result.returncode in ((0, 3) if line == "xrt doctor" else (0,)), (
            line + result.stdout + result.stderr
        )
    for name in ("model.html", "model.bin", "mobilenet_v2.bin", "resnet50_int8.onnx"):
        assert (tmp_path / name).is_file()
