# SPDX-License-Identifier: Apache-2.0
"""The command `xrt` as scripts and people use it: exit codes, output, files."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor

OK, FAILED, USAGE, UNAVAILABLE, MISMATCH = range(5)


def xrt(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    program = next(path for path in _command.programs() if path.is_file())
    clean = {**os.environ, "XRT_CACHE_DIR": ""}
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "XRT_PYTHON": sys.executable, **environment},
        timeout=120,
    )


def save(path: Path, nodes: list, inputs: list, outputs: list, initializers: list = ()) -> Path:
    """Writes a model."""
    model = model_proto(nodes, inputs, outputs, list(initializers))
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """total = a + b and negative = -a, float32[N,3]."""
    return save(
        tmp_path / "small.onnx",
        [
            helper.make_node("Add", ["a", "b"], ["total"], name="add"),
            helper.make_node("Neg", ["a"], ["negative"], name="neg"),
        ],
        [tensor(n, TensorProto.FLOAT, ["N", 3]) for n in "ab"],
        [tensor(n, TensorProto.FLOAT, ["N", 3]) for n in ("total", "negative")],
    )


def identity(path: Path, dtype: int, shape: list) -> Path:
    """y = Identity(x)."""
    return save(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        [tensor("x", dtype, shape)],
        [tensor("y", dtype, shape)],
    )


@pytest.mark.parametrize(
    "command", ["", "run", "doctor", "inspect", "engines", "bench", "cache", "eval", "calibrate"]
)
def test_help_teaches(command: str) -> None:
    result = xrt(*command.split(), "--help")
    assert result.returncode == OK
    assert "xrt " in result.stdout.split("Options:")[-1]  # an example follows the options


def test_version() -> None:
    assert xrt("--version").stdout.strip() == f"xrt {openxrt.__version__}"


def test_the_python_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "openxrt", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("xrt ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], USAGE, ""),
        (["frobnicate"], USAGE, "frobnicate"),
        (["run"], USAGE, "model"),
        (["run", "MODEL", "--no-such-option"], USAGE, "no-such-option"),
        (["run", "MODEL", "--cluster-minimum-node", "2"], USAGE, "mean '--cluster-minimum-nodes'"),
        (["run", "MODEL", "--option", "max_batch_sizes=2"], USAGE, "mean 'max_batch_size'"),
        (
            ["run", "MODEL", "--option", "max_batch_size=two"],
            USAGE,
            "a whole number from 0 on is wanted",
        ),
        (["run", "MODEL", "--option", "max_batch_size"], USAGE, "NAME=VALUE"),
        (["run", "MODEL", "--engine-option", "native.precison=bf16"], USAGE, "mean 'precision'"),
        (["run", "nowhere.onnx", "-e", "native"], FAILED, "nowhere.onnx"),
        (["run", "MODEL", "-e", "warp"], UNAVAILABLE, "warp"),
        (["run", "MODEL", "-e", "native,"], USAGE, "a list of names, is wanted"),
        (["run", "MODEL", "-e", "native", "-i", "c=1"], USAGE, "inputs are a, b"),
        (["run", "MODEL", "-e", "native", "-i", "a"], USAGE, "NAME=SOURCE"),
        (["run", "MODEL", "-e", "native", "-i", "a=x.txt"], USAGE, "x.txt"),
        (["run", "MODEL", "-e", "native", "-i", "a=none.npy"], FAILED, "none.npy"),
        (["run", "MODEL", "-e", "native", "-i", "a=[[1,2],[3]]"], USAGE, "ragged"),
        (["run", "MODEL", "-e", "native", "-i", "a=[[1,2]]"], USAGE, "a"),
        (
            ["run", "MODEL", "-e", "native", "-i", "a=" + "[" * 60000 + "]" * 60000],
            USAGE,
            "too many",
        ),
        (["run", "MODEL", "-e", "native", "--dim", "N=many"], USAGE, "many"),
        (["run", "MODEL", "-e", "native", "--dim", "M=2"], USAGE, "no input has a dimension 'M'"),
        (
            ["run", "MODEL", "-e", "native", "--threads", "100000"],
            USAGE,
            "a whole number from 0 to 4096 is wanted",
        ),
        (["run", "MODEL", "--device", "warp:0"], FAILED, "does not drive the device 'warp:0'"),
        (["run", "MODEL", "-e", "native", "-o", "out.txt"], USAGE, "out.txt"),
        (["run", "MODEL", "-e", "native", "-o", "out.npy"], USAGE, "2 outputs"),
        (["run", "MODEL", "-e", "native", "-i", "a=random:nan:1"], USAGE, "random:LOW:HIGH"),
        (["compare", "MODEL", "-e", "a", "-e", "b", "--tolerance", "nan"], USAGE, "from 0 on"),
        (
            ["compare", "MODEL", "-e", "a", "-e", "b", "--tolerance", "-1"],
            USAGE,
            "'-1' is not a num",
        ),
        (["bench", "MODEL", "-e", "native", "--tolerance", "nan"], USAGE, "from 0 on"),
        (["bench", "MODEL", "-e", "native", "--rounds", "0"], USAGE, "above 0"),
        (["run", "MODEL", "--engine-option", "native"], USAGE, "ENGINE.KEY=VALUE"),
        (["run", "MODEL", "--node-engine", "add"], USAGE, "NODE=ENGINE"),
        (["doctor", "warp"], USAGE, "warp"),
        (["cache", "list"], USAGE, "XRT_CACHE_DIR"),
        (["cache"], USAGE, "subcommand"),
        (["cache", "clear", "--dir", "nowhere"], USAGE, "'nowhere': there is no such folder"),
        (["cache", "list", "--dir", "MODEL"], USAGE, "there is no such folder"),
    ],
)
def test_mistakes(model: Path, arguments: list[str], code: int, message: str) -> None:
    result = xrt(*[str(model) if word == "MODEL" else word for word in arguments])
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "internal error" not in result.stderr


def test_quantize_knows_its_nodes(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    model = save(
        tmp_path / "product.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        [tensor("x", TensorProto.FLOAT, [2, 4])],
        [tensor("y", TensorProto.FLOAT, [2, 4])],
        [weight],
    )
    np.savez(tmp_path / "sample.npz", x=np.ones((2, 4), np.float32))
    output = tmp_path / "int8.onnx"
    arguments = ["quantize", model, "-o", output, "--calibrate", tmp_path, "--keep-float"]
    result = xrt(*arguments, "prodct")
    assert result.returncode == USAGE
    assert "no node 'prodct'; did you mean 'product'?" in result.stderr
    assert not output.exists()
    with pytest.raises(openxrt.InvalidArgument, match="did you mean 'product'"):
        openxrt.quantize.quantize(model, output, calibration=tmp_path, keep_float=["prodct"])


def test_the_model_is_no_output(tmp_path: Path) -> None:
    model = save(
        tmp_path / "product.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2, 4])],
        [tensor("y", TensorProto.FLOAT, [2, 4])],
    )
    before = model.read_bytes()
    np.savez(tmp_path / "sample.npz", x=np.ones((2, 4), np.float32))
    for options in (["--calibrate", tmp_path], ["--weights", "int8"], ["--dynamic"]):
        result = xrt("quantize", model, "-o", model, *options)
        assert result.returncode == USAGE, result.stderr
        assert "it is the file that is read" in result.stderr
    for options in (["run", model, "--profile"], ["bench", model, "--json"]):
        assert xrt(*options, model).returncode == USAGE
    with pytest.raises(openxrt.InvalidArgument, match="it is the file that is read"):
        openxrt.quantize.quantize(model, model, calibration=tmp_path)
    assert model.read_bytes() == before


def test_samples_of_several_lengths(tmp_path: Path) -> None:
    """Where the model leaves a dimension open, each sample has its own."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 3)).astype(np.float32)
    model = save(
        tmp_path / "tokens.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["batch", "tokens", 4])],
        [tensor("y", TensorProto.FLOAT, ["batch", "tokens", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    samples = [rng.normal(size=(n, 5 + n, 4)).astype(np.float32) for n in (1, 2, 3)]
    output = tmp_path / "int8.onnx"
    openxrt.quantize.quantize(model, output, calibration=[{"x": x} for x in samples])
    wanted = samples[2] @ weight
    found = openxrt.load(output, engine="native").run({"x": samples[2]})["y"]
    assert np.abs(found - wanted).max() < 0.03 * np.ptp(wanted)
    bad = [{"x": np.ones((1, 5, 3), np.float32)}]
    with pytest.raises(openxrt.InvalidArgument, match="must be float32"):
        openxrt.quantize.quantize(model, output, calibration=bad)


def test_accuracy_keeps_what_costs_most(tmp_path: Path) -> None:
    """One product reads numbers of very different sizes, which one scale does not suit."""
    rng = np.random.default_rng(0)
    sizes = np.ones(32, np.float32)
    sizes[:2] = 100
    first, second = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(2))
    second[:2] *= 0.01
    model = save(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"], name="harmless"),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("Mul", ["b", "sizes"], ["c"]),
            helper.make_node("MatMul", ["c", "w1"], ["y"], name="delicate"),
        ],
        [tensor("x", TensorProto.FLOAT, [8, 32])],
        [tensor("y", TensorProto.FLOAT, [8, 32])],
        [
            numpy_helper.from_array(v, n)
            for n, v in [("w0", first), ("w1", second), ("sizes", sizes)]
        ],
    )
    samples = [{"x": rng.normal(size=(8, 32)).astype(np.float32)} for _ in range(6)]
    output = tmp_path / "int8.onnx"

    def decibels() -> float:
        x = rng.normal(size=(8, 32)).astype(np.float32)
        wanted = openxrt.load(model, engine="native").run({"x": x})["y"].astype(np.float64)
        found = openxrt.load(output, engine="native").run({"x": x})["y"]
        return 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())

    openxrt.quantize.quantize(model, output, calibration=samples, smooth=0)
    assert decibels() < 20
    said = openxrt.quantize.quantize(model, output, calibration=samples, smooth=0, accuracy=25)
    assert decibels() > 22
    assert "1 of 2 Conv, Gemm and MatMul nodes in int8" in said
    assert "kept in floating point: delicate" in said
    said = openxrt.quantize.quantize(model, output, calibration=samples, smooth=0, accuracy=1)
    assert "2 of 2" in said
    assert "kept" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["engines"],
        ["engines", "--ops"],
        ["run", "MODEL", "-e", "native"],
        ["run", "MODEL", "-e", "native", "--json"],
        ["inspect", "MODEL", "-e", "native", "--graph"],
    ],
)
def test_a_full_disk_is_no_success(model: Path, arguments: list[str]) -> None:
    program = next(path for path in _command.programs() if path.is_file())
    words = [str(model) if word == "MODEL" else word for word in arguments]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [program, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == FAILED
    assert "No space left on device" in result.stderr
    assert "internal error" not in result.stderr


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "0>&- 1>&- 2>&-"])
def test_standard_error_that_cannot_be_written(model: Path, tmp_path: Path, closed: str) -> None:
    """Notes are dropped, results are written; the numbers of closed files are no other file's."""
    program = next(path for path in _command.programs() if path.is_file())

    def status(words: str) -> int:
        command = f"exec {shlex.quote(str(program))} {words} {closed}"
        return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode

    outputs = tmp_path / "outputs.npz"
    code = FAILED if "1>&-" in closed else OK
    assert status(f"run {model} -e native --dim N=2 -o {outputs}") == code
    assert np.load(outputs)["total"].shape == (2, 3)
    assert status(f"inspect {model} -e native --html {tmp_path / 'page.html'}") == code
    assert (tmp_path / "page.html").read_text().startswith("<!")
    assert status("engines") == code
    assert status("run missing.onnx") in (USAGE, FAILED)
    assert status("") == (FAILED if "1>&-" in closed else USAGE)


def test_files_that_are_written(model: Path, tmp_path: Path) -> None:
    """Links stay links, pipes stay pipes, the process's mask decides who may read."""
    link, page = tmp_path / "link.html", tmp_path / "page.html"
    link.symlink_to(page)
    before = os.umask(0o022)
    try:
        assert xrt("inspect", model, "-e", "native", "--html", link).returncode == OK
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert page.stat().st_mode & 0o777 == 0o644

    output = xrt("run", model, "-e", "native", "--profile", "/dev/stdout").stdout
    assert '"traceEvents"' in output

    missing = xrt("inspect", model, "-e", "native", "--html", tmp_path / "no" / "page.html")
    assert missing.returncode == USAGE
    assert f"'{tmp_path}/no/page.html'" in missing.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.html", "page.html", "small.onnx"]


@pytest.mark.parametrize(
    ("dtype", "value", "ok"),
    [
        (TensorProto.UINT8, "255", True),
        (TensorProto.UINT8, "300", False),
        (TensorProto.UINT8, "-1", False),
        (TensorProto.INT32, "0.5", False),
        (TensorProto.INT32, "1e30", False),
        (TensorProto.INT32, "-2147483648", True),
        (TensorProto.INT32, "nan", False),
        (TensorProto.FLOAT, "nan", True),
        (TensorProto.FLOAT16, "-inf", True),
    ],
)
def test_numbers_that_do_not_fit(tmp_path: Path, dtype: int, value: str, ok: bool) -> None:
    model = identity(tmp_path / "identity.onnx", dtype, [2])
    result = xrt("run", model, "-e", "native", "-i", f"x={value}")
    assert result.returncode == (OK if ok else USAGE), result.stderr
    assert f" {value}, {value}\n" in result.stdout.replace("2.1475e+09", "2147483648") or not ok
    assert "x" in result.stderr or ok


def test_options_of_oneflow_xrt(model: Path, tmp_path: Path) -> None:
    names = ["cluster_max_iteration=20", "cluster_ignore_pipeline=true", "strict_types=true"]
    result = xrt(
        *["run", model, "-e", "native", "--cluster-minimum-nodes", "1", "--force-compile"],
        *["--max-workspace-size", "1000000000", "--dump-subgraph-dir", tmp_path / "dump"],
        *[word for name in names for word in ("--option", name)],
    )
    assert result.returncode == OK, result.stderr
    for name in names:
        assert result.stderr.count(f"'{name.split('=')[0]}' has no effect here") == 1
    assert list((tmp_path / "dump").glob("*.txt"))
    result = xrt("run", model, "-e", "native", XRT_CLUSTER_MAXIMUM_NODES="none")
    assert result.returncode == USAGE
    assert "XRT_CLUSTER_MAXIMUM_NODES" in result.stderr


def test_damaged_models_fail_with_their_name(tmp_path: Path, model: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    for content in (b"", model.read_bytes()[:-20], b"not a model at all"):
        damaged.write_bytes(content)
        result = xrt("run", damaged, "-e", "native")
        assert result.returncode == FAILED
        assert "damaged.onnx" in result.stderr


def test_run_prints_results_and_who_ran_what(model: Path) -> None:
    result = xrt("run", model, "-e", "native", "-i", "a=[[1,2,3]]", "-i", "b=10")
    assert result.returncode == OK, result.stderr
    assert "total: float32[1,3] 11, 12, 13" in result.stdout
    assert "negative: float32[1,3] -1, -2, -3" in result.stdout
    assert "native 2 of 2 nodes; 1 launch" in result.stdout


def test_random_inputs_follow_the_seed(model: Path) -> None:
    def run(*options: object) -> str:
        result = xrt("run", model, "-e", "native", *options)
        assert result.returncode == OK, result.stderr
        return result.stdout.split("\n\n")[0]

    assert run("--seed", 1) == run("--seed", 1)
    assert run("--seed", 1) != run("--seed", 2)
    assert "float32[5,3]" in run("--dim", "N=5")
    assert "dimension N is taken as 1" in xrt("run", model, "-e", "native").stderr


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    """A size that only a user can know is no guess; the message holds a command that works."""
    path = tmp_path / "a picture.onnx"
    path.write_bytes(
        model_proto(
            [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "z"], ["y"])],
            [
                tensor("x", TensorProto.FLOAT, ["N", 3, "H", None]),
                tensor("z", TensorProto.FLOAT, ["N", 3, "H", None]),
            ],
            [tensor("y", TensorProto.FLOAT, None)],
        ).SerializeToString()
    )
    for command in (["run"], ["bench", "--rounds", "1"], ["inspect", "--runs", "1"]):
        asked = xrt(*command, path, "-e", "native")
        assert asked.returncode == USAGE
        assert "input 'x' is float32[N,3,H,?]: dimension 2 is open" in asked.stderr
        assert "--dim x.3=SIZE" in asked.stderr and "--dim z.3=SIZE" in asked.stderr
        advice = asked.stderr.splitlines()[-1]
        result = xrt(*shlex.split(advice)[1:])
        assert result.returncode == OK, result.stderr
    given = xrt(
        *(
            "run",
            path,
            "-e",
            "native",
            "-i",
            "x=[[[[1,2]],[[3,4]],[[5,6]]],[[[1,2]],[[3,4]],[[5,6]]]]",
        ),
        *("--dim", "z.3=2"),
    )
    assert given.returncode == OK, given.stderr
    assert "float32[2,3,1,2]" in given.stdout


def test_files_in_and_out(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 3)).astype(np.float32)
    b = np.asfortranarray(rng.standard_normal((4, 3)).astype(">f4"))
    np.save(tmp_path / "a.npy", a)
    np.savez_compressed(tmp_path / "in.npz", a=a, b=b)
    np.save(tmp_path / "b.npy", b)
    out = tmp_path / "out.npz"
    for given in (
        ["-i", tmp_path / "in.npz"],
        ["-i", f"a={tmp_path / 'a.npy'}", "-i", f"b={tmp_path / 'b.npy'}"],
    ):
        result = xrt("run", model, "-e", "native", *given, "-o", out)
        assert result.returncode == OK, result.stderr
        with np.load(out) as arrays:
            assert set(arrays) == {"total", "negative"}
            np.testing.assert_array_equal(arrays["total"], (a + b).astype(np.float32))
            np.testing.assert_array_equal(arrays["negative"], -a)
    same = xrt("run", model, "-e", "native", "-i", tmp_path / "in.npz", "--expect", out)
    assert same.returncode == OK, same.stderr
    np.savez(tmp_path / "wrong.npz", total=a + b + 1)
    other = xrt(
        "run", model, "-e", "native", "-i", tmp_path / "in.npz", "--expect", tmp_path / "wrong.npz"
    )
    assert other.returncode == MISMATCH
    assert "12 of 12 elements differ" in other.stderr


@pytest.mark.parametrize(
    ("onnx_type", "values"),
    [
        (TensorProto.FLOAT16, np.array([1.5, -2, 65504], np.float16)),
        (TensorProto.DOUBLE, np.array([1e300, -0.0, np.inf])),
        (TensorProto.BOOL, np.array([True, False, True])),
        (TensorProto.INT8, np.array([-128, 0, 127], np.int8)),
        (TensorProto.UINT64, np.array([0, 2**64 - 1, 5], np.uint64)),
        (TensorProto.COMPLEX64, np.array([1 + 2j, -3j, 0], np.complex64)),
        (TensorProto.BFLOAT16, np.array([1.5, -2, 3], ml_dtypes.bfloat16)),
        (TensorProto.FLOAT8E5M2, np.array([1.5, -2, 3], ml_dtypes.float8_e5m2)),
        (TensorProto.STRING, np.array(["a", "日本語", ""])),
    ],
    ids=lambda value: TensorProto.DataType.Name(value) if isinstance(value, int) else "",
)
def test_npy_keeps_every_dtype(tmp_path: Path, onnx_type: int, values: np.ndarray) -> None:
    model = identity(tmp_path / "identity.onnx", onnx_type, [3])
    np.save(tmp_path / "x.npy", values)
    out = tmp_path / "y.npy"
    result = xrt("run", model, "-e", "native", "-i", f"x={tmp_path / 'x.npy'}", "-o", out)
    assert result.returncode == OK, result.stderr
    written = np.load(out)
    assert written.tobytes() == values.tobytes()
    if values.dtype.isbuiltin == 1:  # NumPy has no name for the others
        assert written.dtype == values.dtype


def test_pickles_and_damaged_archives_are_refused(tmp_path: Path) -> None:
    model = identity(tmp_path / "identity.onnx", TensorProto.FLOAT, [3])
    pickle = tmp_path / "pickle.npy"
    np.save(pickle, np.array([{}, None, 1], dtype=object), allow_pickle=True)
    result = xrt("run", model, "-e", "native", "-i", f"x={pickle}")
    assert result.returncode == USAGE
    assert "pickle" in result.stderr
    good = tmp_path / "good.npz"
    np.savez(good, x=np.ones(3, np.float32))
    content = good.read_bytes()
    bad = tmp_path / "bad.npz"
    for i in (30, 150, len(content) // 2, len(content) - 30):
        damaged = bytearray(content)
        damaged[i] ^= 0xFF
        bad.write_bytes(damaged)
        assert xrt("run", model, "-e", "native", "-i", bad).returncode in (OK, FAILED, USAGE)
    bad.write_bytes(content[: len(content) // 2])
    assert xrt("run", model, "-e", "native", "-i", bad).returncode == USAGE


def test_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "x.png")
    model = identity(tmp_path / "identity.onnx", TensorProto.FLOAT, [1, 3, "H", "W"])
    out = tmp_path / "y.npy"
    options = ["--mean", 0.5, 0.4, 0.3, "--std", 0.2, 0.3, 0.4]
    result = xrt("run", model, "-e", "native", "-i", f"x={tmp_path / 'x.png'}", "-o", out, *options)
    assert result.returncode == OK, result.stderr
    expected = (pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    np.testing.assert_allclose(np.load(out)[0], expected.transpose(2, 0, 1), rtol=1e-4, atol=1e-5)

    # Resizing is Pillow's bilinear filter, up to rounding.
    model = identity(tmp_path / "bytes.onnx", TensorProto.UINT8, [1, 4, 5, 3])
    photo = tmp_path / "x.jpg"
    smooth = np.add.outer(np.arange(60) * 2, np.arange(80)).astype(np.uint8)
    image.fromarray(np.stack([smooth] * 3, axis=-1)).save(photo, quality=95)
    result = xrt("run", model, "-e", "native", "-i", photo, "-o", out)  # the only input
    assert result.returncode == OK, result.stderr
    resized = np.asarray(image.open(photo).resize((5, 4), image.Resampling.BILINEAR))
    assert np.abs(np.load(out)[0].astype(int) - resized.astype(int)).max() <= 2

    (tmp_path / "broken.png").write_bytes((tmp_path / "x.png").read_bytes()[:60])
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    for name in ("broken.png", "broken.jpg"):
        result = xrt("run", model, "-e", "native", "-i", f"x={tmp_path / name}")
        assert result.returncode == USAGE
        assert name in result.stderr


def test_run_json_and_trace(model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = xrt("run", model, "-e", "native", "--json", "--runs", 3, "--profile", trace)
    assert result.returncode == OK, result.stderr
    summary = json.loads(result.stdout)
    assert summary["nodes_per_engine"] == {"native": 2}
    assert summary["runs"] == 3
    assert {output["name"] for output in summary["outputs"]} == {"total", "negative"}
    json.loads(trace.read_text())


def test_top(tmp_path: Path) -> None:
    model = identity(tmp_path / "identity.onnx", TensorProto.FLOAT, [4])
    result = xrt("run", model, "-e", "native", "-i", "x=[0.1,0.7,0.05,0.15]", "--top", 2)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "0.7"] in rows
    assert ["3", "0.15"] in rows
    assert ["0", "0.1"] not in rows


def test_doctor() -> None:
    result = xrt("doctor", "native")
    assert result.returncode == OK, result.stdout
    assert "ran one op" in result.stdout
    report = json.loads(xrt("doctor", "--json").stdout)
    native = next(engine for engine in report["engines"] if engine["name"] == "native")
    assert native["available"]
    assert report["threads"] >= 1


def test_doctor_says_why_an_engine_is_missing(tmp_path: Path) -> None:
    if "xla" not in openxrt.engines():
        pytest.skip("built without the xla engine")
    result = xrt("doctor", "xla", XRT_PJRT_PLUGIN=str(tmp_path / "no_plugin.so"))
    assert result.returncode == UNAVAILABLE
    assert "no_plugin.so" in result.stdout
    assert "to do" in result.stdout


def test_engines() -> None:
    listed = xrt("engines")
    assert listed.returncode == OK
    assert "native" in listed.stdout
    ops = xrt("engines", "--ops").stdout.splitlines()
    assert any(line.split()[:1] == ["Add"] and "native" in line for line in ops)
    assert "Add" in json.loads(xrt("engines", "--ops", "--json").stdout)[0]["ops"]


def test_inspect(model: Path, tmp_path: Path) -> None:
    page, dump = tmp_path / "page.html", tmp_path / "dump"
    result = xrt("inspect", model, "-e", "native", "--html", page, "--dump-dir", dump)
    assert result.returncode == OK, result.stderr
    for text in ("native 2 of 2 nodes", "float32[N,3]", "Add", "launches"):
        assert text in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert any(path.is_file() for path in dump.rglob("*"))
    explanation = json.loads(xrt("inspect", model, "-e", "native", "--json").stdout)
    assert {node["op"] for node in explanation["nodes"]} == {"Add", "Neg"}
    assert explanation["nodes"][0]["inputs"] == ["a", "b"]
    assert "Add" in xrt("inspect", model, "-e", "native", "--graph").stdout
    assert "neg" in xrt("inspect", model, "-e", "native", "--nodes").stdout


def test_bench(model: Path, tmp_path: Path) -> None:
    figures = tmp_path / "bench.json"
    result = xrt(
        *("bench", model, "-e", "native", "-e", "native", "--rounds", 5),
        *("--json", figures, "--tolerance", 0),
    )
    assert result.returncode == OK, result.stderr
    assert "ratio" in result.stdout
    rows = json.loads(figures.read_text())["configurations"]
    assert [row["name"] for row in rows] == ["native", "native"]
    assert rows[0]["ratio"] == 1
    assert rows[1]["difference"] == 0
    assert all(0 < row["minimum_ms"] <= row["median_ms"] for row in rows)


def test_bench_with_a_peer(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    result = xrt(
        *("bench", model, "-e", "native", "--peer", "onnxruntime", "--rounds", 3),
        *("--json", "-", "--tolerance", 1e-5),
    )
    assert result.returncode == OK, result.stderr
    rows = json.loads(result.stdout)["configurations"]
    assert [row["peer"] for row in rows] == [False, True]
    missing = xrt(
        *("bench", model, "-e", "native", "--peer", "onnxruntime", "--rounds", 3),
        XRT_PYTHON="/no/python",
    )
    assert missing.returncode == UNAVAILABLE
    assert "/no/python" in missing.stderr


def test_bench_with_a_peer_from_python(model: Path) -> None:
    """The process is then the Python interpreter, which does not lie beside the package."""
    pytest.importorskip("onnxruntime")
    arguments = ["bench", str(model), "-e", "native", "--peer", "onnxruntime", "--rounds", "3"]
    result = subprocess.run(
        [sys.executable, "-m", "openxrt", *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == OK, result.stderr


def test_conformance_runs_in_python() -> None:
    listed = xrt("conformance", "--list")
    assert listed.returncode == OK, listed.stderr
    assert listed.stdout.startswith("engine ")
    assert "usage: xrt conformance" in xrt("conformance", "--help").stdout
    small = xrt("conformance", "-e", "native", "--check", "sizes", "-k", "^sizes/Relu/7$")
    assert small.returncode == OK, small.stderr
    assert "1 checks passed" in small.stdout
    assert xrt("conformance", "-e", "no_such_engine").returncode == UNAVAILABLE
    missing = xrt("conformance", "--list", XRT_PYTHON="/no/python")
    assert missing.returncode == FAILED
    assert "/no/python" in missing.stderr and "XRT_PYTHON" in missing.stderr


def test_cache(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    model = save(
        tmp_path / "matmul.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1, 3])],
        [tensor("y", TensorProto.FLOAT, [1, 3])],
        [weight],
    )
    folder = tmp_path / "cache"
    run = xrt("run", model, "-e", "openvino,native", XRT_CACHE_DIR=str(folder))
    if run.returncode == UNAVAILABLE:
        pytest.skip("the openvino engine is not available")
    assert run.returncode == OK, run.stderr
    entries = json.loads(xrt("cache", "list", "--dir", folder, "--json").stdout)["entries"]
    assert entries
    assert all(entry["valid"] for entry in entries)
    cleared = xrt("cache", "clear", XRT_CACHE_DIR=str(folder))
    assert cleared.returncode == OK
    assert "removed" in cleared.stdout
    assert json.loads(xrt("cache", "list", "--dir", folder, "--json").stdout)["entries"] == []
