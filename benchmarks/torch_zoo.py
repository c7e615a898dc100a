#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of timm, transformers, torchvision and torchaudio through XRTModule and torch.compile's
backend, judged by PyTorch: small ones with random weights.

    ./dev run python benchmarks/torch_zoo.py                        # all whose package is installed
    ./dev run python benchmarks/torch_zoo.py --package transformers --engine xla
    ./dev run python benchmarks/torch_zoo.py LlamaForCausalLM resnet18 --backend

A line per network: right or wrong with the largest difference against the results' range, or the
refusal; the seconds of the first call; and the times of a call and of PyTorch's. The exit status is
the number of networks that are not right.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from export_models import import_torchvision
from torch.utils import _pytree as pytree

# The largest difference that counts as rounding, of the range of a result. In a network that makes
# more of it, a result may be so many times as far from float64's as PyTorch's is.
TOLERANCE = 2e-3
ROUNDING = 4


@dataclass
class Network:
    """A network, and how it is made with its arguments."""

    package: str
    name: str
    make: Callable[[], tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]]


# --- transformers ---------------------------------------------------------------------------------

_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64}
_SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99}
_IMAGE = {**_SMALL, "image_size": 32, "patch_size": 8, "num_labels": 5}
_STAGES = {"num_channels": 3, "num_labels": 5}
# Class: its configuration's class, and its arguments.
_TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertModel": ("BertConfig", _SMALL),
    "RobertaModel": ("RobertaConfig", _SMALL),
    "ElectraModel": ("ElectraConfig", {**_SMALL, "embedding_size": 32}),
    "AlbertModel": ("AlbertConfig", {**_SMALL, "embedding_size": 16}),
    "DistilBertModel": (
        "DistilBertConfig",
        {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 99},
    ),
    "DebertaV2Model": (
        "DebertaV2Config",
        {**_SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "MPNetModel": ("MPNetConfig", _SMALL),
    "ModernBertModel": ("ModernBertConfig", {**_SMALL, "pad_token_id": 0}),
    "ConvBertModel": ("ConvBertConfig", {**_SMALL, "embedding_size": 32}),
    "FNetModel": ("FNetConfig", {**_SMALL, "use_tpu_fourier_optimizations": False}),
    "GPT2LMHeadModel": ("GPT2Config", _GPT),
    "GPTNeoForCausalLM": (
        "GPTNeoConfig",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 99,
            "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", _SMALL),
    "GPTJForCausalLM": ("GPTJConfig", {**_GPT, "rotary_dim": 4}),
    "OPTForCausalLM": (
        "OPTConfig",
        {**_SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32},
    ),
    "BloomForCausalLM": ("BloomConfig", {**_SMALL, "n_layer": 2, "n_head": 4}),
    "FalconForCausalLM": ("FalconConfig", _SMALL),
    "LlamaForCausalLM": ("LlamaConfig", _GROUPED),
    "MistralForCausalLM": ("MistralConfig", {**_GROUPED, "sliding_window": 8}),
    "MixtralForCausalLM": ("MixtralConfig", {**_GROUPED, "num_local_experts": 4}),
    "Qwen2ForCausalLM": ("Qwen2Config", _GROUPED),
    "Qwen3ForCausalLM": ("Qwen3Config", {**_GROUPED, "head_dim": 8}),
    "GemmaForCausalLM": ("GemmaConfig", {**_GROUPED, "head_dim": 8}),
    "Gemma2ForCausalLM": ("Gemma2Config", {**_GROUPED, "head_dim": 8, "sliding_window": 8}),
    "PhiForCausalLM": ("PhiConfig", _SMALL),
    "Phi3ForCausalLM": ("Phi3Config", {**_GROUPED, "pad_token_id": 0}),
    "StableLmForCausalLM": ("StableLmConfig", _GROUPED),
    "CohereForCausalLM": ("CohereConfig", _GROUPED),
    "OlmoForCausalLM": ("OlmoConfig", _GROUPED),
    "MambaForCausalLM": ("MambaConfig", {**_SMALL, "state_size": 8}),
    "T5Model": ("T5Config", _T5),
    "MT5Model": ("MT5Config", _T5),
    "BartModel": ("BartConfig", _SEQ2SEQ),
    "PegasusModel": ("PegasusConfig", _SEQ2SEQ),
    "MarianMTModel": ("MarianConfig", {**_SEQ2SEQ, "decoder_vocab_size": 99}),
    "ViTForImageClassification": ("ViTConfig", _IMAGE),
    "DeiTForImageClassification": ("DeiTConfig", _IMAGE),
    "BeitForImageClassification": ("BeitConfig", _IMAGE),
    "Dinov2Model": ("Dinov2Config", _IMAGE),
    "ConvNextForImageClassification": (
        "ConvNextConfig",
        {**_STAGES, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
    ),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {**_STAGES, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    ),
    "SegformerForImageClassification": (
        "SegformerConfig",
        {
            **_STAGES,
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 1, 2, 2],
        },
    ),
    "SwinForImageClassification": (
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
            "num_labels": 5,
        },
    ),
    "Wav2Vec2Model": (
        "Wav2Vec2Config",
        {
            **_SMALL,
            "conv_dim": [16, 16],
            "conv_stride": [5, 4],
            "conv_kernel": [10, 5],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 2,
        },
    ),
    "WhisperModel": (
        "WhisperConfig",
        {
            **_SEQ2SEQ,
            "num_mel_bins": 16,
            "max_source_positions": 50,
            "max_target_positions": 32,
        },
    ),
}


def _transformer(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    # It imports both where they are installed.
    for package, load in (("torchvision", import_torchvision), ("torchaudio", import_audio_models)):
        if importlib.util.find_spec(package) is not None:
            load()
    import transformers

    kind, arguments = _TRANSFORMERS[name]
    config = getattr(transformers, kind)(**arguments)
    model = getattr(transformers, name)(config)
    ids = torch.randint(3, 90, (2, 12))
    main = model.main_input_name
    if main == "pixel_values":
        return model, (), {main: torch.randn(2, 3, 32, 32)}
    if main == "input_values":
        return model, (), {main: torch.randn(2, 800)}
    if main == "input_features":
        return model, (), {main: torch.randn(2, 16, 100), "decoder_input_ids": ids}
    if config.is_encoder_decoder:
        return model, (), {"input_ids": ids, "decoder_input_ids": ids[:, :5]}
    return model, (), {"input_ids": ids}


# --- timm -----------------------------------------------------------------------------------------

_PICTURES = """
    resnet18 resnet50d resnext26ts seresnext26d_32x4d res2net50_14w_8s resnest14d
    regnetx_002 regnety_002 regnetz_b16 densenet121 dla34 dla46x_c dpn48b vgg11 vgg13_bn
    mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small mnasnet_small
    efficientnet_lite0 efficientnet_b0 efficientnetv2_rw_t tinynet_e ghostnet_050
    ghostnetv2_100 fbnetc_100 spnasnet_100 lcnet_035 hardcorenas_a mixnet_s rexnet_100
    semnasnet_075 hrnet_w18_small cspresnet50 cspdarknet53 darknet53 selecsls42b repvgg_a0
    repghostnet_050 mobileone_s0 fastvit_t8 starnet_s1 convnext_atto convnextv2_atto
    edgenext_xx_small inception_next_tiny poolformer_s12 poolformerv2_s12 caformer_s18
    convformer_s18 inception_v3 inception_v4 xception41 nfnet_l0 eca_nfnet_l0 dm_nfnet_f0
    skresnet18 ese_vovnet19b_dw gernet_s tresnet_m
"""
# Network: further arguments of timm.create_model(); an img_size is the pictures' too.
_TIMM: dict[str, dict[str, Any]] = {
    **{name: {} for name in _PICTURES.split()},
    "vit_tiny_patch16_224": {"img_size": 64},
    "deit_tiny_patch16_224": {"img_size": 64},
    "deit3_small_patch16_224": {"img_size": 64},
    "cait_xxs24_224": {"img_size": 64},
    "swin_tiny_patch4_window7_224": {"img_size": 64, "window_size": 2},
    "mixer_s32_224": {"img_size": 64},
    "gmixer_12_224": {"img_size": 64},
    "resmlp_12_224": {"img_size": 64},
    "gmlp_ti16_224": {"img_size": 64},
    "beit_base_patch16_224": {"img_size": 64, "depth": 2},
    "eva02_tiny_patch14_224": {"img_size": 56},
    "xcit_nano_12_p16_224": {"img_size": 64},
    "pit_ti_224": {"img_size": 64},
    "mobilevit_xxs": {},
    "mobilevitv2_050": {},
}


def _timm(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    import_torchvision()
    import timm

    options = _TIMM[name]
    size = options.get("img_size", 96)
    model = timm.create_model(name, pretrained=False, num_classes=10, **options)
    return model, (torch.randn(2, 3, size, size),), {}


# --- torchvision and torchaudio -------------------------------------------------------------------

_VISION = """
    alexnet squeezenet1_1 resnet18 resnext50_32x4d wide_resnet50_2 densenet121 googlenet
    inception_v3 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5
    efficientnet_b0 regnet_y_400mf convnext_tiny swin_t swin_v2_t vgg11 fcn_resnet50
    deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large
"""


def _vision(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    torchvision = import_torchvision()
    options: dict[str, Any] = {"weights": None}
    if any(part in name for part in ("fcn", "deeplab", "lraspp")):
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        # The second classifiers, of training alone, want pictures of 299.
        options.update(init_weights=False, aux_logits=False)
    size = 96 if "inception" in name else 64
    return torchvision.models.get_model(name, **options), (torch.randn(2, 3, size, size),), {}


def import_audio_models() -> Any:
    """torchaudio.models beside a CPU build of PyTorch.

    The wheel's compiled operators want CUDA, and the package loads them when it starts. No network
    used here calls them.
    """
    if "torchaudio" not in sys.modules:
        spec = importlib.util.find_spec("torchaudio")
        if spec is None:
            raise ModuleNotFoundError("No module named 'torchaudio'")
        sys.modules["torchaudio"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("torchaudio.models")


def _audio(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    models = import_audio_models()
    if name == "Conformer":
        return (
            models.Conformer(16, 4, 32, 1, 3),
            (torch.randn(2, 12, 16), torch.tensor([12, 9])),
            {},
        )
    if name == "ConvTasNet":
        model = models.ConvTasNet(
            enc_num_feats=16, msk_num_feats=16, msk_num_hidden_feats=16, msk_num_layers=2
        )
        return model, (torch.randn(2, 1, 400),), {}
    if name == "DeepSpeech":
        return models.DeepSpeech(16, n_hidden=32), (torch.randn(2, 1, 20, 16),), {}
    return models.Wav2Letter(num_classes=10, num_features=16), (torch.randn(2, 16, 1000),), {}


def networks() -> Iterator[Network]:
    """All of them, whether their package is installed or not."""
    for package, names, make in (
        ("transformers", list(_TRANSFORMERS), _transformer),
        ("timm", list(_TIMM), _timm),
        ("torchvision", _VISION.split(), _vision),
        ("torchaudio", ["Conformer", "ConvTasNet", "DeepSpeech", "Wav2Letter"], _audio),
    ):
        for name in names:
            yield Network(package, name, lambda name=name, make=make: make(name))


# --- judging --------------------------------------------------------------------------------------


def tensors(result: Any) -> list[torch.Tensor]:
    """The float tensors of a result, also those in its caches."""
    found = []
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "layers"):
            for layer in leaf.layers:
                found += [t for t in vars(layer).values() if isinstance(t, torch.Tensor)]
    return [tensor.float() for tensor in found if tensor.is_floating_point()]


def difference(found: Any, wanted: Any) -> float:
    """The largest difference of two results, of the range of each tensor."""
    pairs = list(zip(tensors(found), tensors(wanted), strict=True))
    assert pairs
    return max(
        ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item() for a, b in pairs if b.numel()
    )


def settle(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Gives batch normalisations the statistics of eight times as many samples as these arguments
    are, so that values keep the size that they have in a trained network, and no channel is divided
    by nearly nothing."""

    def more(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
            return leaf
        leaf = leaf.repeat(8, *[1] * (leaf.dim() - 1))
        return torch.randn_like(leaf) if leaf.is_floating_point() else leaf

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
    args, kwargs = pytree.tree_map(more, (args, kwargs))
    model.train()(*args, **kwargs)


def in_float64(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """PyTorch's result, computed in float64."""

    def wide(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.double() if is_float else leaf

    args, kwargs = pytree.tree_map(wide, (args, copy.deepcopy(kwargs)))
    return copy.deepcopy(model).double()(*args, **kwargs)


def seconds(call: Callable[[], Any]) -> float:
    """The least of ten."""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def judge(network: Network, engine: list[str], by_backend: bool) -> str:
    """A line about the network; begins with "right" where it is."""
    import openxrt.torch

    torch.manual_seed(0)
    model, args, kwargs = network.make()
    with torch.no_grad():
        settle(model, args, kwargs)
        model.eval()
        wanted = model(*args, **copy.deepcopy(kwargs))
        begin = time.perf_counter()
        fast: Any
        if by_backend:
            fast = torch.compile(model, backend="openxrt", options={"engine": engine})
        else:
            fast = openxrt.torch.XRTModule(model, engine=engine)
        found = fast(*args, **copy.deepcopy(kwargs))
        first = time.perf_counter() - begin
        apart = difference(found, wanted)
        ours = seconds(lambda: fast(*args, **kwargs))
        theirs = seconds(lambda: model(*args, **kwargs))
    right = apart <= TOLERANCE
    if not right:
        with torch.no_grad():
            exact = in_float64(model, args, kwargs)
        right = difference(found, exact) <= ROUNDING * difference(wanted, exact)
    word = "right" if right else "WRONG"
    return (
        f"{word}  {apart:.1e}  first {first:5.1f} s  {ours * 1e3:6.2f} ms, PyTorch "
        f"{theirs * 1e3:6.2f} ms"
    )


def main() -> int:
    """Judges the networks that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="networks; without them all")
    parser.add_argument("--package", action="append", help="those of this package only")
    parser.add_argument("--engine", default="native", help="engines, with commas between them")
    parser.add_argument("--backend", action="store_true", help="by torch.compile")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failures: list[str] = []
    count = 0
    for network in networks():
        if arguments.names and network.name not in arguments.names:
            continue
        if arguments.package and network.package not in arguments.package:
            continue
        torch._dynamo.reset()
        try:
            line = judge(network, arguments.engine.split(","), arguments.backend)
        except (ModuleNotFoundError, OSError) as error:  # absent, or built for another PyTorch
            line = f"skipped: {error}"
        except Exception as error:  # one network's failure is its line
            line = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"
        count += not line.startswith("skipped")
        if not line.startswith(("right", "skipped")):
            failures.append(network.name)
        print(f"{network.package:12} {network.name:34} {line}", flush=True)
    print(f"{count - len(failures)} of {count} right", *failures)
    return min(len(failures), 125)


if __name__ == "__main__":
    sys.exit(main())
