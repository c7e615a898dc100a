# SPDX-License-Identifier: Apache-2.0
"""The disk cache as several processes, full disks, read-only folders and kills leave it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

SIZE = 2048  # 16 MB a layer: writing an entry takes a while
LAYERS = 4

# A process that loads a model when it is told to, runs it, and says what came of it.
WORKER = """
import json, sys
import numpy as np
import openxrt
model, cache, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
program = openxrt.load(model, engine="native", cache_dir=cache, **options)
x = np.ones([1, program.inputs[0].shape[1]], np.float32)
y = program.run({"x": x})["y"]
rows = program.explain()["launches"]
print(json.dumps({"y": float(y.sum()), "from_cache": [row["from_cache"] for row in rows]}),
      flush=True)
"""


def write_model(path: Path, scale: float = 1.0, size: int = SIZE) -> float:
    """A chain of products, float32[1,size]; returns the sum of its output for ones."""
    rng = np.random.default_rng(5)
    nodes, weights = [], []
    value = np.ones([1, size], np.float64)
    for i in range(LAYERS):
        weight = (scale * rng.standard_normal((size, size)) / size**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        name = "y" if i == LAYERS - 1 else f"h{i}"
        nodes.append(
            helper.make_node("MatMul", [nodes[-1].output[0] if i else "x", f"w{i}"], [name])
        )
        value = value @ weight
    ports = [[tensor(name, TensorProto.FLOAT, [1, size])] for name in ("x", "y")]
    path.write_bytes(make_model(nodes, *ports, weights))
    return float(value.sum())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A model whose entry takes a while to be written, and the sum of its output."""
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    return path, write_model(path)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """One of half a megabyte."""
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    return path, write_model(path, size=192)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder for a cache."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


def start(
    model: Path, cache: Path, prefix: tuple[str, ...] = (), log: str = "warning", **options: object
) -> subprocess.Popen[str]:
    """A worker that waits for a line before it loads."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", WORKER, str(model), str(cache), json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XRT_LOG": log},
    )


def finish(worker: subprocess.Popen[str]) -> tuple[dict, str]:
    """What a worker found, and what went to its log."""
    out, log = worker.communicate("go\n", timeout=120)
    assert worker.returncode == 0, log
    return json.loads(out.splitlines()[-1]), log


def run(model: Path, cache: Path, **how: object) -> tuple[dict, str]:
    """One worker from start to end."""
    return finish(start(model, cache, **how))


def entries(cache: Path) -> list[str]:
    """Names of all files but locks."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_processes_that_start_at_once_compile_once(model: tuple[Path, float], cache: Path) -> None:
    path, total = model
    workers = [start(path, cache) for _ in range(4)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = [finish(worker) for worker in workers]
    for found, log in results:
        assert found["y"] == pytest.approx(total, rel=1e-3)
        assert "warning" not in log
    assert sum(not all(found["from_cache"]) for found, _ in results) == 1
    assert not [name for name in entries(cache) if ".tmp" in name]
    found, log = run(path, cache)
    assert all(found["from_cache"])
    assert "warning" not in log


@pytest.mark.parametrize("victim", ["native-", "plan-"])
def test_a_process_killed_while_it_writes_leaves_nothing_that_lies(
    model: tuple[Path, float], cache: Path, victim: str
) -> None:
    path, total = model
    worker = start(path, cache)
    worker.stdin.write("go\n")
    worker.stdin.flush()
    deadline = time.monotonic() + 60
    while not any(name.startswith(victim) and ".tmp" in name for name in entries(cache)):
        assert time.monotonic() < deadline, f"no {victim} entry was written"
        assert worker.poll() is None, "the entry was written too quickly to be caught"
    worker.kill()
    worker.communicate()
    half_written = [name for name in entries(cache) if ".tmp" in name]
    assert half_written
    for _ in range(2):
        found, log = run(path, cache)
        assert found["y"] == pytest.approx(total, rel=1e-3)
        assert "warning" not in log
    assert all(found["from_cache"])


def mounted(size: str) -> tuple[str, ...]:
    """A command before the worker's: {} becomes a file system of its own of `size`.

    The folder's own content is copied into it first; it is mounted for the worker alone.
    """
    if shutil.which("unshare") is None:
        pytest.skip("the command unshare is missing")
    command = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("this process may not make mounts of its own")
    script = (
        'cache=$1; shift; held=$(mktemp -d); cp -a "$cache/." "$held"; '
        f'mount -t tmpfs -o mode=700,size={size} xrt "$cache" || exit 77; '
        'cp -a "$held/." "$cache"; rm -r "$held"; '
        '[ -z "$XRT_TEST_READ_ONLY" ] || mount -o remount,ro "$cache"; exec "$@"'
    )
    return (*command, "bash", "-c", script, "bash")


def run_mounted(
    monkeypatch: pytest.MonkeyPatch, model: Path, cache: Path, size: str, *, read_only: bool, **how
) -> tuple[dict, str]:
    """One worker whose cache folder is a small file system, or a read-only one."""
    monkeypatch.setenv("XRT_TEST_READ_ONLY", "1" if read_only else "")
    worker = start(model, cache, prefix=(*mounted(size), str(cache)), **how)
    out, log = worker.communicate("go\n", timeout=120)
    if worker.returncode == 77:
        pytest.skip("this process may not mount a tmpfs")
    assert worker.returncode == 0, log
    return json.loads(out.splitlines()[-1]), log


def test_a_full_disk_costs_one_warning(
    small_model: tuple[Path, float], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, total = small_model
    found, log = run_mounted(monkeypatch, path, cache, "64k", read_only=False)
    assert found["y"] == pytest.approx(total, rel=1e-3)
    assert found["from_cache"] == [False]
    assert log.count("warning") == 1
    assert "No space left on device" in log


def test_a_read_only_folder_is_read_from(
    small_model: tuple[Path, float], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, total = small_model
    run(path, cache)
    found, log = run_mounted(monkeypatch, path, cache, "64m", read_only=True)
    assert found == {"y": pytest.approx(total, rel=1e-3), "from_cache": [True]}
    assert "warning" not in log
    found, log = run_mounted(monkeypatch, path, cache, "64m", read_only=True, num_threads=1)
    assert found == {"y": pytest.approx(total, rel=1e-3), "from_cache": [False]}
    assert log.count("warning") == 1
    assert "Read-only file system" in log


def test_a_named_pipe_in_the_place_of_an_entry_is_not_waited_for(
    small_model: tuple[Path, float], cache: Path
) -> None:
    path, total = small_model
    run(path, cache)
    entries = list(cache.glob("*.xrtc"))
    assert entries
    for entry in entries:
        entry.unlink()
        os.mkfifo(entry)
    found, _ = run(path, cache)
    assert found == {"y": pytest.approx(total, rel=1e-3), "from_cache": [False]}


def test_the_log_says_that_a_model_changed(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "model.onnx"
    write_model(path, size=32)
    _, log = run(path, cache, log="info")
    assert "no entry for" in log
    assert "has changed" not in log
    found, log = run(path, cache, log="info")
    assert found["from_cache"] == [True]
    assert "no entry for" not in log
    total = write_model(path, scale=2, size=32)
    found, log = run(path, cache, log="info")
    assert found["y"] == pytest.approx(total, rel=1e-3)
    assert f"'{path}' has changed since it was loaded the last time" in log
    assert "no entry for" in log
