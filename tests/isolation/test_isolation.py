# SPDX-License-Identifier: Apache-2.0
"""Engines in workers from Python: every engine's results, engines of Python, ends of processes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import helper, numpy_helper

SIZE = 64


def save_model(path: Path) -> Path:
    """Three times Tanh(x · w + b), with a batch that is open."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((SIZE, SIZE), dtype=np.float32) / 8,
        "wide": rng.standard_normal((SIZE, 512), dtype=np.float32) / 8,
        "b": rng.standard_normal(SIZE, dtype=np.float32),
    }
    nodes, value = [], "x"
    for i in range(3):
        nodes += [
            helper.make_node("MatMul", [value, "w"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", "b"], [f"a{i}"]),
            helper.make_node("Tanh", [f"a{i}"], [f"t{i}"]),
        ]
        value = f"t{i}"
    nodes.append(helper.make_node("MatMul", [value, "wide"], ["y"]))
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "tanh",
        [helper.make_tensor_value_info("x", kind, ["n", SIZE])],
        [helper.make_tensor_value_info("y", kind, ["n", 512])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def expected(path: Path, x: np.ndarray) -> np.ndarray:
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    for _ in range(3):
        x = np.tanh(x @ weights["w"] + weights["b"])
    return x @ weights["wide"]


def children() -> list[int]:
    """Processes that this one started and that run."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def python(code: str, *arguments: str, seconds: float = 120, **environment: str) -> str:
    """Standard output of a program that must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "model.onnx")


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_results_of_engines(engine: str, model: Path) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"this build is without {engine}")
    program = openxrt.load(model, engine=[engine], isolation=[engine], cache_dir="")
    for batch in (1, 7, 7, 300, 2, 1):
        x = np.random.default_rng(batch).standard_normal((batch, SIZE), dtype=np.float32)
        np.testing.assert_allclose(program(x), expected(model, x), rtol=2e-3, atol=2e-3)
    assert f"{engine}@process" in str(program.explain())


def test_blobs_are_loaded_in_the_worker(model: Path, tmp_path: Path) -> None:
    if "openvino" not in openxrt.engines():
        pytest.skip("this build is without openvino")
    code = """
        import sys
        import numpy as np
        import openxrt
        program = openxrt.load(sys.argv[1], engine=["openvino"], isolation="process",
                               cache_dir=sys.argv[2])
        program(np.ones((1, 64), np.float32))
        maps = open("/proc/self/maps").read()
        rows = program.explain()["launches"]
        print(sum(row["from_cache"] for row in rows), "libxrt_engine_openvino" in maps)
    """
    cache = str(tmp_path / "cache")
    assert python(code, str(model), cache).split() == ["0", "False"]
    assert python(code, str(model), cache).split() == ["1", "False"]


def test_auto_chooses_among_workers(model: Path) -> None:
    program = openxrt.load(
        model, engine="auto", isolation="process", auto_mode="full", cache_dir=""
    )
    x = np.ones((4, SIZE), np.float32)
    np.testing.assert_allclose(program(x), expected(model, x), rtol=2e-3, atol=2e-3)
    plans = {row["plan"] for row in program.explain()["candidates"]}
    assert plans
    assert not {plan.split(",")[0] for plan in plans} & {"openvino", "onnxruntime", "xla"}


def test_an_engine_of_this_process_cannot_move(model: Path) -> None:
    @openxrt.engine("only_here", version="1.0")
    class OnlyHere:
        def supports(self, node: openxrt.NodeView) -> bool:
            return False

        def compile(self, function: openxrt.FunctionView) -> object:
            raise NotImplementedError

    with pytest.raises(openxrt.Unsupported, match="made in this process"):
        openxrt.load(model, engine=["only_here"], isolation=["only_here"])


def save_engine(folder: Path, code: str) -> None:
    """A package with the engine Fatal of the module fatal_engine, under the name fatal."""
    (folder / "fatal_engine.py").write_text(textwrap.dedent(code))
    info = folder / "fatal-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fatal\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[openxrt.engines]\nfatal = fatal_engine:Fatal\n")


LOAD_FATAL = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    import openxrt
    import onnx
    from onnx import helper
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Tanh", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", kind, [4])],
        [helper.make_tensor_value_info("y", kind, [4])])
    bytes_ = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                               ir_version=8).SerializeToString()
    program = openxrt.load(bytes_, engine=["fatal"], isolation=["fatal"], cache_dir="")
    x = np.ones(4, np.float32)
"""


def test_an_engine_of_python_that_ends_its_process(tmp_path: Path) -> None:
    save_engine(
        tmp_path,
        """
            import os
            import numpy as np
            import openxrt

            @openxrt.engine("fatal", version="1.0", ops=["Tanh"])
            class Fatal:
                def supports(self, node):
                    return node.op == "Tanh"
                def compile(self, function):
                    return compute

            def compute(x):
                if x.flat[0] == 13:
                    os.abort()
                return np.tanh(x)
        """,
    )
    code = textwrap.dedent(LOAD_FATAL) + textwrap.dedent("""
        assert np.allclose(program(x), np.tanh(x))
        try:
            program(np.full(4, 13, np.float32))
        except openxrt.EngineError as error:
            assert "SIGABRT" in str(error), error
            print("error")
        assert np.allclose(program(x), np.tanh(x))
        assert "fatal_engine" not in sys.modules
        print("works")
    """)
    assert python(code, str(tmp_path)).split() == ["error", "works"]


def has_landlock() -> bool:
    create_ruleset, ask_version = 444, 1
    return ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), ask_version) > 0


def test_an_engine_of_python_reaches_no_other_process(tmp_path: Path) -> None:
    """Of its threads those that NumPy starts when it is imported are no exception."""
    save_engine(
        tmp_path,
        """
            import os
            from pathlib import Path
            import numpy as np
            import openxrt

            @openxrt.engine("fatal", version="1.0", ops=["Tanh"])
            class Fatal:
                def supports(self, node):
                    return node.op == "Tanh"
                def compile(self, function):
                    return compute

            def works(act, *arguments):
                try:
                    act(*arguments)
                except PermissionError:
                    return False
                return True

            def compute(x):
                parent = os.getppid()
                states = [file.read_text() for file in Path("/proc/self/task").glob("*/status")]
                return np.array([
                    works(os.open, f"/proc/{parent}/mem", os.O_RDWR),
                    works(os.kill, parent, 0),
                    works(os.pidfd_open, parent),
                    sum("Seccomp:\\t2" not in state for state in states),
                ], np.float32)
        """,
    )
    code = textwrap.dedent(LOAD_FATAL) + "print(*program(x).astype(int))"
    memory, signal_, descriptor, free_threads = python(code, str(tmp_path)).split()
    assert (signal_, descriptor, free_threads) == ("0", "0", "0")
    if not has_landlock():
        pytest.skip("this kernel is without Landlock, which refuses memory")
    assert memory == "0"


RUNS = """
    import os
    import sys
    import threading
    import numpy as np
    import openxrt
    program = openxrt.load(sys.argv[1], engine=["native"], isolation=["native"], cache_dir="")
    x = np.ones((64, 64), np.float32)
    program(x)
    def run():
        while True:
            program(x)
    for _ in range(8):
        threading.Thread(target=run, daemon=True).start()
"""


def gone(process: int) -> bool:
    """Whether the process ends within some seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_interpreter_ends_while_threads_run(model: Path) -> None:
    code = textwrap.dedent(RUNS) + textwrap.dedent("""
        import time
        time.sleep(0.3)
        print(open(f"/proc/self/task/{os.getpid()}/children").read())
    """)
    (worker,) = python(code, str(model)).split()
    assert gone(int(worker))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_process_and_worker(how: signal.Signals, model: Path) -> None:
    code = textwrap.dedent(RUNS) + textwrap.dedent("""
        import json, signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored behind a shell's &
        print(json.dumps(open(f"/proc/self/task/{os.getpid()}/children").read()), flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    worker = int(json.loads(process.stdout.readline()))
    process.send_signal(how)
    process.wait(30)
    assert gone(worker)


def test_a_program_without_descriptors_left(model: Path) -> None:
    code = """
        import os
        import resource
        import sys
        import numpy as np
        import openxrt
        x = np.ones((2, 64), np.float32)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        used = len(os.listdir("/proc/self/fd"))
        refused = 0
        for more in range(0, 8):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
            try:
                program = openxrt.load(sys.argv[1], engine=["native"], isolation=["native"],
                                       cache_dir="")
                program(x)
            except openxrt.Error:
                refused += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        openxrt.load(sys.argv[1], engine=["native"], isolation=["native"], cache_dir="")(x)
        print(refused > 0)
    """
    assert python(code, str(model)).split() == ["True"]


def test_ctrl_c_ends_a_run(model: Path) -> None:
    """Of a worker that is stopped: nothing comes of it any more."""
    code = textwrap.dedent(RUNS.split("def run")[0]) + textwrap.dedent("""
        import signal, threading
        (worker,) = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        os.kill(int(worker), signal.SIGSTOP)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            program(x)
        except KeyboardInterrupt:
            print("interrupted")
        program(x)
        print("works")
    """)
    assert python(code, str(model)).split() == ["interrupted", "works"]


@pytest.mark.parametrize("closed", ["2", "1, 2", "0, 1, 2"])
def test_standard_files_that_are_closed(closed: str, tmp_path: Path) -> None:
    """Their numbers are neither the socket's nor the memory's: what a library prints goes there."""
    path = save_model(tmp_path / "model.onnx")
    x = np.ones((2, SIZE), np.float32)
    np.save(tmp_path / "x.npy", x)
    code = f"""
        import os, sys
        folder = sys.argv[1]
        for file in ({closed},):
            os.close(file)
        import numpy as np, openxrt
        try:
            program = openxrt.load(
                folder + "/model.onnx", engine=["native"], isolation=["native"], cache_dir=""
            )
            np.save(folder + "/y.npy", program(np.load(folder + "/x.npy")))
            names = [os.path.realpath(f"/proc/self/fd/{{file}}") for file in ({closed},)]
            text = " ".join(name for name in names if "socket" in name or "memfd" in name)
        except openxrt.Error as error:
            text = str(error)
        with open(folder + "/told", "w") as told:
            told.write(text)
        os._exit(0)
    """
    python(code, str(tmp_path), seconds=60)
    assert (tmp_path / "told").read_text() == ""
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(path, x), rtol=1e-3, atol=1e-3)
