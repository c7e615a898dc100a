# SPDX-License-Identifier: Apache-2.0
"""use_int8 and int8_calibration: judged by PyTorch in floating point, and by ONNX Runtime."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch as xt  # noqa: E402
from openxrt.quantize import Calibration  # noqa: E402

ENGINES = ["native", "openvino", "onnxruntime", "xla"]


class Net(torch.nn.Module):
    """A small CNN with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 16, 3, padding=1)
        self.head = torch.nn.Linear(16 * 16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        x = F.relu(self.norm(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.conv2(x) + x), 2)
        return self.head(x.flatten(1))


@pytest.fixture(scope="module")
def digits() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A network that was trained on scikit-learn's digits, and those it never saw."""
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_digits(return_X_y=True)
    pictures = torch.tensor(x / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(y)
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for step in range(120):
        at = torch.arange(step * 64, step * 64 + 64) % 1300
        optimizer.zero_grad()
        F.cross_entropy(net(pictures[at]), labels[at]).backward()
        optimizer.step()
    return net.eval(), pictures, labels


def decibels(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Signal over noise."""
    return float(10 * torch.log10(wanted.square().sum() / (found - wanted).square().sum()))


def small() -> tuple[torch.nn.Module, list[torch.Tensor]]:
    torch.manual_seed(1)
    net = Net().eval()
    return net, [torch.randn(4, 1, 8, 8) for _ in range(4)]


def skip_without_vnni() -> None:
    """ONNX Runtime adds pairs of 8-bit products in 16 bits there, which saturate."""
    if "avx512_vnni" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("without VNNI, ONNX Runtime's products of 8 bits saturate")


@pytest.mark.parametrize("engine", ENGINES)
def test_digits_in_int8(engine: str, digits: Any) -> None:
    if engine == "onnxruntime":
        skip_without_vnni()
    net, pictures, labels = digits
    samples, test = pictures[:128].split(32), pictures[1300:]
    fast = xt.XRTModule(net, engine=engine, use_int8=True, int8_calibration=samples)
    with torch.no_grad():
        wanted, found = net(test), fast(test)
    top, top8 = wanted.argmax(1), found.argmax(1)
    assert (top == labels[1300:]).float().mean() > 0.95
    assert (top8 == top).float().mean() > 0.99
    assert 30 < decibels(found, wanted) < 60  # 60: nothing was quantised
    (program,) = fast.programs()
    ops = [row["op"] for row in program.explain()["nodes"]]
    assert ops.count("QuantizeLinear") >= 4


def test_onnx_runtimes_own_quantiser_does_no_better(digits: Any, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    import onnxruntime

    net, pictures, _ = digits
    samples, test = [p[None] for p in pictures[:64]], pictures[1300:1301]
    exported = torch.export.export(net, (test,))
    model = tmp_path / "net.onnx"
    graph = xt.import_exported(exported).graph
    graph.finish(simplify=True)
    model.write_bytes(graph.to_onnx())
    (name,) = (i.name for i in onnxruntime.InferenceSession(model).get_inputs())

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self.rest, None)
            return None if sample is None else {name: sample.numpy()}

    quantized = tmp_path / "int8.onnx"
    quantization.quantize_static(
        str(model),
        str(quantized),
        Reader(),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    session = onnxruntime.InferenceSession(quantized)
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=samples)
    theirs, ours, wanted = [], [], []
    with torch.no_grad():
        for x in pictures[1300:1400].split(1):
            theirs.append(torch.tensor(session.run(None, {name: x.numpy()})[0]))
            ours.append(fast(x))
            wanted.append(net(x))
    reference = torch.cat(wanted)
    assert decibels(torch.cat(ours), reference) > decibels(torch.cat(theirs), reference) - 1


def test_engines_agree_with_onnx_runtime() -> None:
    skip_without_vnni()
    net, xs = small()
    runs = {}
    for engine in ENGINES:
        fast = xt.XRTModule(net, engine=engine, use_int8=True, int8_calibration=xs)
        runs[engine] = fast(xs[0])
    for engine in ENGINES:
        # The same Q/DQ graph: a rounding here and there is one step of 256 over few layers.
        torch.testing.assert_close(runs[engine], runs["onnxruntime"], rtol=0, atol=0.03)


def sources(xs: list[torch.Tensor], folder: Path) -> dict[str, Any]:
    arrays = folder / "arrays"
    arrays.mkdir()
    named = folder / "named"
    named.mkdir()
    for i, x in enumerate(xs):
        np.save(arrays / f"{i}.npy", x.numpy())
        np.savez(named / f"{i}.npz", x=x.numpy())

    def run_all(module: torch.nn.Module) -> None:
        for x in xs:
            module(x)

    return {
        "tensors": xs,
        "arrays": [x.numpy() for x in xs],
        "tuples": [(x,) for x in xs],
        "names": [{"x": x} for x in xs],
        "generator": (x for x in xs),
        "loader": torch.utils.data.DataLoader(torch.cat(xs), batch_size=4),
        "function": run_all,
        "folder of arrays": arrays,
        "folder of names": str(named),
        "object": Calibration(xs),
    }


def test_every_kind_of_source_gives_the_same(tmp_path: Path) -> None:
    net, xs = small()
    wanted = None
    for kind, source in sources(xs, tmp_path).items():
        fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=source)
        found = fast(xs[0])
        assert decibels(found, net(xs[0]).detach()) < 60, kind
        wanted = found if wanted is None else wanted
        assert torch.equal(found, wanted), kind


def test_the_first_calls_calibrate() -> None:
    net, xs = small()
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=3)
    for x in xs[:3]:
        assert torch.equal(fast(x), net(x))  # PyTorch's own
        assert not list(fast.programs())
    assert not torch.equal(fast(xs[0]), net(xs[0]))
    of_samples = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=xs[:3])
    assert torch.equal(fast(xs[0]), of_samples(xs[0]))


def test_calibration_mode_and_its_table(tmp_path: Path) -> None:
    net, xs = small()
    fast = xt.XRTModule(net, engine="native", use_int8=True)
    with pytest.raises(openxrt.InvalidArgument, match="needs calibration"):
        fast(xs[0])
    with xt.ptq_calibration_mode(tmp_path):
        for x in xs:
            assert torch.equal(fast(x), net(x))
    again = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=tmp_path)
    assert torch.equal(again(xs[0]), fast(xs[0]))
    # Also for a graph of another batch size, whose values have other names.
    assert decibels(again(torch.cat(xs)), net(torch.cat(xs)).detach()) > 30
    file = xt.XRTModule(
        net, engine="native", use_int8=True, int8_calibration=tmp_path / "calibration.table"
    )
    assert torch.equal(file(xs[0]), fast(xs[0]))

    @xt.ptq_calibration_mode()
    def calibrate() -> None:
        fast(xs[0])

    calibrate()
    assert not torch.equal(fast(xs[1]), again(xs[1]))
    two = [xt.XRTModule(net, use_int8=True) for _ in range(2)]
    with (
        pytest.raises(openxrt.InvalidArgument, match="2 modules"),
        xt.ptq_calibration_mode(tmp_path / "two"),
    ):
        [module(xs[0]) for module in two]


def test_damaged_tables_are_told(tmp_path: Path) -> None:
    net, xs = small()
    table = tmp_path / "calibration.table"
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=table)
    with pytest.raises(openxrt.NotFound, match=r"calibration\.table"):
        fast(xs[0])
    calibrated = xt.XRTModule(net, engine="native", use_int8=True)
    with xt.ptq_calibration_mode(tmp_path):
        calibrated(xs[0])
    good = table.read_text()
    for text in ("{", "", good[:-30], good.replace("Relu", "Relv")):
        table.write_text(text)
        with pytest.raises(openxrt.InvalidModel, match="calibration table"):
            fast(xs[0])
    table.write_text(good)
    assert torch.equal(fast(xs[0]), calibrated(xs[0]))
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(xs[0][0].numel(), 3)).eval()
    with pytest.raises(openxrt.InvalidArgument, match="not of this graph"):
        xt.XRTModule(other, engine="native", use_int8=True, int8_calibration=table)(xs[0])


def test_changed_weights_are_quantised_anew() -> None:
    net, xs = small()
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=xs)
    assert decibels(fast(xs[0]), net(xs[0]).detach()) > 30
    for change in ("in place", "replaced", "loaded", "trained"):
        if change == "in place":
            with torch.no_grad():
                net.conv1.weight.mul_(3)
        elif change == "replaced":
            net.conv2.weight = torch.nn.Parameter(net.conv2.weight.detach() * 2)
        elif change == "loaded":
            fast.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})
        else:
            fast.train()
            optimizer = torch.optim.SGD(fast.parameters(), 0.01)
            before = copy.deepcopy(net)
            fast(xs[0]).square().mean().backward()
            # Training is in floating point.
            before(xs[0]).square().mean().backward()
            torch.testing.assert_close(net.conv1.weight.grad, before.conv1.weight.grad)
            optimizer.step()
            fast.eval()
        wanted = net(xs[0]).detach()
        assert decibels(fast(xs[0]), wanted) > 30, change
    # A call that wants gradients is in floating point.
    x = xs[0].clone().requires_grad_()
    torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)


def test_the_module_is_otherwise_what_it_was() -> None:
    net, xs = small()
    keys = list(net.state_dict())
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=xs)
    found = fast(xs[0])
    assert list(fast.state_dict()) == keys
    assert all(a is b for a, b in zip(fast.parameters(), net.parameters(), strict=True))
    assert not fast.training
    assert fast.train().training
    assert torch.equal(fast.eval().to("cpu")(xs[0]), found)
    assert torch.equal(copy.deepcopy(fast)(xs[0]), found)
    stored = io.BytesIO(pickle.dumps(fast))
    assert torch.equal(pickle.load(stored)(xs[0]), found)


def test_samples_of_several_sizes() -> None:
    net, xs = small()
    samples = [xs[0], xs[1][:3], xs[2][:1]]
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=samples)
    for x in (samples[2], samples[0], torch.cat(samples)):
        assert decibels(fast(x), net(x).detach()) > 30


def test_what_is_quantised_can_be_chosen() -> None:
    net, xs = small()
    wanted = net(xs[0]).detach()
    found = {}
    for clipping in ("minmax", "percentile", "entropy", "mse"):
        how = Calibration(xs, clipping=clipping, percentile=99)
        fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=how)
        found[clipping] = fast(xs[0])
        assert decibels(found[clipping], wanted) > 12
    assert not torch.equal(found["minmax"], found["percentile"])
    fast = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=xs)
    fast(xs[0])
    (program,) = fast.programs()
    sums = [
        row["name"] for row in program.explain()["nodes"] if row["op"] in ("Conv", "MatMul", "Gemm")
    ]
    how = Calibration(xs, keep_float=sums[1:])
    fewer = xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=how)
    assert decibels(fewer(xs[0]), wanted) > decibels(found["minmax"], wanted)


def test_ranges_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, xs = small()
    options = {"engine": "native", "use_int8": True, "cache_dir": tmp_path}
    found = xt.XRTModule(net, int8_calibration=xs, **options)(xs[0])
    entries = [e.key for e in openxrt.cache_list(tmp_path) if e.key.startswith("calibration-")]
    assert len(entries) == 1
    assert torch.equal(xt.XRTModule(net, int8_calibration=xs, **options)(xs[0]), found)
    assert [e.key for e in openxrt.cache_list(tmp_path) if "calibration-" in e.key] == entries
    xt.XRTModule(net, int8_calibration=xs[:1], **options)(xs[0])
    assert len([e for e in openxrt.cache_list(tmp_path) if "calibration-" in e.key]) == 2
    # A damaged entry is made anew.
    (file,) = (p for p in tmp_path.rglob(f"*{entries[0]}*") if p.is_file())
    file.write_bytes(file.read_bytes()[:-8] + b"\0" * 8)
    assert torch.equal(xt.XRTModule(net, int8_calibration=xs, **options)(xs[0]), found)


def test_bad_calibration_is_told(tmp_path: Path) -> None:
    net, xs = small()

    def run(calibration: object, match: str, kind: type = openxrt.InvalidArgument) -> None:
        with pytest.raises(kind, match=match):
            xt.XRTModule(net, engine="native", use_int8=True, int8_calibration=calibration)(xs[0])

    run(0, "at least one call")
    run(1.5, "float")
    run([], "no sample")
    run(lambda module: None, "no sample")
    run([(xs[0], torch.zeros(4))], "leave labels out")
    run([xs[0], xs[0].double()], "more than sizes")
    run([xs[0] * float("nan")], "nan")
    run(tmp_path / "missing", "missing", openxrt.NotFound)
    run(tmp_path, r"no calibration\.table", openxrt.NotFound)
    (tmp_path / "a.npy").write_bytes(b"junk")
    run(tmp_path, r"a\.npy")
    with pytest.raises(openxrt.InvalidArgument, match="clipping"):
        Calibration(xs, clipping="other")
    no_weights = torch.nn.ReLU().eval()
    with pytest.raises(openxrt.InvalidArgument, match="no Conv"):
        xt.XRTModule(no_weights, use_int8=True, int8_calibration=xs)(xs[0])
