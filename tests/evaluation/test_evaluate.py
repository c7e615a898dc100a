# SPDX-License-Identifier: Apache-2.0
"""openxrt.evaluate: what NumPy makes of the same scores."""

import json
from pathlib import Path

import numpy as np
import openxrt
import openxrt.quantize
import pytest
from labelled_sets import RNG, labelled, picture, picture_model, save, scores_model, top, xrt
from ofrecord_files import encoded
from onnx import helper, numpy_helper
from openxrt import _core
from PIL import Image

# --- evaluation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("declared", "batch"), [("N", 0), ("N", 4), ("N", 23), (4, 0), (5, 5)])
def test_top_k_is_that_of_numpy(
    tmp_path: Path, scores: tuple[Path, np.ndarray, np.ndarray], declared: int | str, batch: int
) -> None:
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx", declared)
    lines = []
    found = openxrt.evaluate(
        model,
        file,
        top=(1, 3),
        batch=batch,
        engine="native",
        report=lambda *line: lines.append(line),
        metric=lambda outputs, targets: outputs[np.arange(len(targets)), targets],
    )
    assert (found.samples, found.classes, found.skipped) == (23, 7, 0)
    for k in (1, 3):
        assert found.top[k] == pytest.approx(top(values, labels, k))
    assert (found.top_1, found.top_k) == (found.top[1], found.top[3])
    want = np.zeros((7, 7), int)
    np.add.at(want, (labels, values.argmax(1)), 1)
    np.testing.assert_array_equal(found.confusion_matrix(), want)
    assert found.metric == pytest.approx(values[np.arange(23), labels].mean())
    assert lines[-1][1:4] == (23, found.top_1, found.top_k)
    assert len(lines) == -(-23 // found.batch)
    assert 0 < found.busy < 1


def test_the_largest_batch(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")
    assert openxrt.evaluate(model, scores[0], batch="max", engine="native").batch == 16
    assert openxrt.evaluate(model, scores[0], batch="max", limit=9, engine="native").batch == 8
    fixed = scores_model(tmp_path / "f.onnx", 4)
    assert openxrt.evaluate(fixed, scores[0], batch="max", engine="native").batch == 4


@pytest.mark.parametrize("streams", [1, 2, 5])
@pytest.mark.parametrize("compare", [None, "f32"])
def test_streams_change_no_answer(
    tmp_path: Path, scores: tuple, streams: int, compare: str | None
) -> None:
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx")
    seen: list[np.ndarray] = []
    lines = []
    found = openxrt.evaluate(
        model,
        file,
        top=(1, 3),
        batch=2,
        engine="native",
        streams=streams,
        compare=compare,
        report=lambda *line: lines.append(line),
        metric=lambda outputs, _targets: seen.append(outputs) or 0.0,
    )
    assert found.top == {k: pytest.approx(top(values, labels, k)) for k in (1, 3)}
    # In the order of the samples.
    np.testing.assert_array_equal(np.concatenate(seen), values)
    assert [line[0] for line in lines] == list(range(12))
    assert 0 < found.busy <= 1
    if compare:
        assert found.agreement == 1


def test_several_programs_share_the_batches(tmp_path: Path, scores: tuple) -> None:
    """As on several devices."""
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx")
    programs = [openxrt.load(model, engine="native", streams=n) for n in (1, 2)]
    for program in programs:
        program.enable_profile()
    seen: list[np.ndarray] = []
    found = _core.evaluate(
        programs,
        labelled(file),
        batch=1,
        top=[1],
        scores="",
        text=None,
        reference=None,
        judge=lambda outputs, _labels, _counts: seen.append(outputs["y"]),
        report=None,
    )
    assert found["top_1"] == pytest.approx(top(values, labels, 1))
    np.testing.assert_array_equal(np.concatenate(seen), values)
    runs = [len({event.run for event in program.profile()}) for program in programs]
    assert min(runs) > 1
    assert sum(runs) == 23 + 3  # each stream warms up


def test_devices(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")
    assert openxrt.evaluate(model, scores[0], devices=["cpu"], engine="native").samples == 23
    with pytest.raises(openxrt.Error, match="cuda:7"):
        openxrt.evaluate(model, scores[0], devices=["cpu", "cuda:7"], engine="native")
    with pytest.raises(openxrt.InvalidArgument, match="twice"):
        openxrt.evaluate(model, scores[0], devices=["cpu", "cpu"])
    with pytest.raises(openxrt.InvalidArgument, match="no device"):
        openxrt.evaluate(model, scores[0], devices=["cpu"], device="cpu")


def test_the_largest_batch_within_a_bound(tmp_path: Path) -> None:
    """A run of 8 samples takes more than 1 MiB."""
    np.savez(tmp_path / "set.npz", x=np.zeros((64, 2), np.float32), labels=np.zeros(64, int))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["y"]),
    ]
    wide = 1 << 15
    weights = [
        numpy_helper.from_array(np.zeros((2, wide), np.float32), "w"),
        numpy_helper.from_array(np.zeros((wide, 3), np.float32), "v"),
    ]
    model = save(tmp_path / "m.onnx", nodes, ["N", 2], ["N", 3], weights)
    bounded = {"engine": "native", "max_memory_bytes": 1 << 20, "cache_dir": ""}
    assert openxrt.evaluate(model, tmp_path / "set.npz", batch="max", **bounded).batch in (2, 4, 8)
    assert openxrt.evaluate(model, tmp_path / "set.npz", batch="max", engine="native").batch == 64


# --- text -----------------------------------------------------------------------------------------


def edits(a: list, b: list) -> int:
    """Levenshtein's distance, by its definition."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, j in np.ndindex(len(a), len(b)):
        table[i + 1, j + 1] = min(
            table[i, j] + (a[i] != b[j]), table[i, j + 1] + 1, table[i + 1, j] + 1
        )
    return int(table[-1, -1])


def decoded(rows: np.ndarray, symbols: str) -> list[str]:
    texts = []
    for best in rows.argmax(2):
        kept = [b for i, b in enumerate(best) if b and (i == 0 or best[i - 1] != b)]
        texts.append("".join(symbols[b - 1] for b in kept))
    return texts


def test_text_is_judged_by_its_characters_and_words(tmp_path: Path) -> None:
    """Pictures whose rows are the scores of steps."""
    symbols = "aéß7界 "
    (tmp_path / "symbols.txt").write_text("\n".join(symbols[:-1]) + "\n", encoding="utf-8")
    steps, classes = 9, len(symbols) + 1
    texts = ["a é7", "007", "界界", "", "ßa a 7"]
    rows = []
    lines = ["path,text"]
    for i, text in enumerate(texts):
        pixels = RNG.integers(0, 256, (steps, classes, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        rows.append(pixels[:, :, 0])
        lines.append(f"{i}.png,{text}")
    (tmp_path / "lines.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    index = numpy_helper.from_array(np.array(0, np.int64), "red")
    nodes = [helper.make_node("Gather", ["x", "red"], ["y"], axis=1)]
    model = save(
        tmp_path / "m.onnx", nodes, ["N", 3, steps, classes], ["N", steps, classes], [index]
    )
    found = openxrt.evaluate(
        model, tmp_path / "lines.csv", text=tmp_path / "symbols.txt", batch=2, engine="native"
    )
    read = decoded(np.stack(rows), symbols)
    assert found.samples == 5
    wrong = sum(edits(list(a), list(b)) for a, b in zip(texts, read, strict=True))
    assert found.char_error_rate == pytest.approx(wrong / sum(map(len, texts)))
    words = sum(edits(a.split(), b.split()) for a, b in zip(texts, read, strict=True))
    assert found.token_error_rate == pytest.approx(words / sum(len(t.split()) for t in texts))
    assert found.exact == sum(a == b for a, b in zip(texts, read, strict=True))
    done = xrt("eval", model, "--data", tmp_path / "lines.csv", "--text", tmp_path / "symbols.txt",
               "-e", "native", "--json", tmp_path / "r.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "char_error_rate" in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["char_error_rate"] == pytest.approx(found.char_error_rate)
    assert report["token_error_rate"] == pytest.approx(found.token_error_rate)
    (tmp_path / "few.txt").write_text("a\nb\n")
    with pytest.raises(openxrt.InvalidArgument, match=r"\[batch, steps, 3\] is wanted"):
        openxrt.evaluate(model, tmp_path / "lines.csv", text=tmp_path / "few.txt", engine="native")


def test_a_fixed_batch_is_kept(tmp_path: Path, scores: tuple) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=r"a batch of 8 .* made for 4: ask for 4"):
        openxrt.evaluate(scores_model(tmp_path / "m.onnx", 4), scores[0], batch=8)


@pytest.mark.parametrize("label", [7, -1])
def test_labels_beyond_the_classes(tmp_path: Path, scores: tuple, label: int) -> None:
    _, values, labels = scores
    labels[9] = label
    np.savez(tmp_path / "bad.npz", x=values, labels=labels)
    model = scores_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=f"sample 9: label {label} is none of .* 7"):
        openxrt.evaluate(model, tmp_path / "bad.npz", batch=4, engine="native")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers(tmp_path: Path, scores: tuple, value: float) -> None:
    _, values, labels = scores
    values[11, 3] = value
    np.savez(tmp_path / "bad.npz", x=values, labels=labels)
    model = scores_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=r"sample 11: .* NaN or infinity"):
        openxrt.evaluate(model, tmp_path / "bad.npz", batch=4, engine="native")


def test_bad_pictures(tmp_path: Path) -> None:
    for i, data in enumerate((encoded(picture(24, 24), "JPEG"), b"", b"\xff\xd8broken")):
        (tmp_path / "set" / "c").mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / "c" / f"{i}.jpg").write_bytes(data)
    model = picture_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=r"c/1\.jpg: the file is empty"):
        openxrt.evaluate(model, tmp_path / "set", engine="native")
    found = openxrt.evaluate(model, tmp_path / "set", engine="native", batch=3, skip_bad=True)
    assert (found.samples, found.skipped) == (1, 2)
    (tmp_path / "set" / "c" / "0.jpg").unlink()
    with pytest.raises(openxrt.InvalidArgument, match=r"none of .* 2 samples .*2\.jpg"):
        openxrt.evaluate(model, tmp_path / "set", engine="native", skip_bad=True)


def test_a_metric_that_fails_and_one_of_another_shape(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")

    def fails(outputs: np.ndarray, labels: np.ndarray) -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        openxrt.evaluate(model, scores[0], metric=fails, engine="native")
    with pytest.raises(openxrt.InvalidArgument, match=r"shape \(2,\) for 1 samples"):
        openxrt.evaluate(model, scores[0], metric=lambda *_: np.zeros(2), engine="native")


def test_int8_agrees_with_float32(tmp_path: Path) -> None:
    weights = RNG.standard_normal((64, 10)).astype(np.float32)
    values = RNG.standard_normal((200, 64)).astype(np.float32)
    np.savez(tmp_path / "set.npz", x=values, labels=(values @ weights).argmax(1))
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        ["N", 64],
        ["N", 10],
        [numpy_helper.from_array(weights, "w")],
    )
    found = openxrt.evaluate(
        model, tmp_path / "set.npz", batch=16, int8=True, compare="f32", engine="native"
    )
    assert found.reference_top == {1: 1.0}
    assert found.agreement == found.top_1 > 0.95
    assert 0.99 < found.cosine < 1  # it is another model


@pytest.mark.parametrize("far", [0.0, 60.0])
def test_int8_is_what_the_quantiser_writes(tmp_path: Path, far: float) -> None:
    """The file of openxrt.quantize on the same samples, its clipping too."""
    weights = RNG.standard_normal((64, 10)).astype(np.float32)
    values = RNG.standard_normal((40, 64)).astype(np.float32)
    values[:, 0] = far  # which "minmax" would keep
    data = tmp_path / "set.npz"
    np.savez(data, x=values, labels=np.zeros(40, np.int64))
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        ["N", 64],
        ["N", 10],
        [numpy_helper.from_array(weights, "w")],
    )
    openxrt.quantize.quantize(model, tmp_path / "q.onnx", data=data, engine="native")
    program = openxrt.load(tmp_path / "q.onnx", engine="native")
    wanted = np.concatenate([program(row[None]) for row in values])
    seen: list[np.ndarray] = []
    openxrt.evaluate(
        model,
        data,
        int8=True,
        engine="native",
        metric=lambda outputs, _targets: seen.append(np.array(outputs)) or 0.0,
    )
    np.testing.assert_array_equal(np.concatenate(seen), wanted)
    # The command says what it chose.
    said = openxrt.quantize.quantize(model, tmp_path / "q.onnx", data=data, engine="native")
    done = xrt("eval", model, "--data", data, "-e", "native", "--int8")
    assert done.returncode == 0, done.stderr
    assert said.splitlines()[-1] in (
        "clipping: mse",
        "clipping: minmax",
        "clipping: moving_average",
    )
    assert ", " + said.splitlines()[-1].replace(":", "") in done.stdout


# --- real data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_digits_as_scikit_learn_scores_them(tmp_path: Path, engine: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    linear = pytest.importorskip("sklearn.linear_model")
    if not openxrt.doctor([engine])[0].available:
        pytest.skip(f"{engine} is not here")
    digits = datasets.load_digits()
    train, rest = slice(0, 1000), slice(1000, None)
    judge = linear.LogisticRegression(max_iter=3000).fit(
        digits.data[train] * (15 / 255), digits.target[train]
    )
    model = save(
        tmp_path / "digits.onnx",
        [
            helper.make_node("Flatten", ["x"], ["f"]),
            helper.make_node("Gemm", ["f", "w", "b"], ["y"]),
        ],
        ["N", 1, 8, 8],
        ["N", 10],
        [
            numpy_helper.from_array(judge.coef_.T.astype(np.float32), "w"),
            numpy_helper.from_array(judge.intercept_.astype(np.float32), "b"),
        ],
    )
    pairs = zip(digits.images[rest], digits.target[rest], strict=True)
    for i, (pixels, label) in enumerate(pairs):
        folder = tmp_path / "set" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{i}.png")
    found = openxrt.evaluate(model, tmp_path / "set", batch=64, engine=engine, strict=True)
    assert found.top_1 == judge.score(digits.data[rest] * (15 / 255), digits.target[rest])
