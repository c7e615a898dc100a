# SPDX-License-Identifier: Apache-2.0
"""PyTorch in training mode, TensorRT in evaluation mode.

The plan is built by TensorRT's own builder from the layers that GraphModule adds; what a user
wants to set on the network or the build configuration, functions of the user set.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._core import EngineError, Error, InvalidArgument
from ..engines import _cuda
from ..engines._tensorrt_library import write_record
from ._evaluation import EvaluationModule, Forward, Weights
from .convert import torch2trt
from .graph_module import GraphModule
from .inference import InferenceContext, TorchInferenceContext

LOG = logging.getLogger("openxrt.torch")


class _InDtype(torch.nn.Module):
    """A module that computes in another floating dtype; its inputs and outputs keep theirs."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).to(dtype)
        self.dtype = dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        wide = next((x.dtype for x in leaves if _is_floating(x)), torch.float32)
        args, kwargs = pytree.tree_map(
            lambda x: x.to(self.dtype) if _is_floating(x) else x, (args, kwargs)
        )
        result = self.module(*args, **kwargs)
        return pytree.tree_map(lambda x: x.to(wide) if _is_floating(x) else x, result)


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _dtype_of(dtype: Any) -> torch.dtype:
    """A torch dtype from one, or from TensorRT's DataType. Raises InvalidArgument."""
    if dtype is None:
        return torch.float32
    name = getattr(dtype, "name", None)
    named = {"FLOAT": torch.float32, "HALF": torch.float16, "BF16": torch.bfloat16}
    wanted = dtype if isinstance(dtype, torch.dtype) else named.get(str(name))
    if wanted not in named.values():
        raise InvalidArgument(
            f"dtype is float32, float16 or bfloat16, not {dtype}; for int8 quantise the graph and "
            "use openxrt.load(engine='tensorrt')"
        )
    return wanted


@dataclass
class Plan:
    """What the builder gave, and which arguments it is for."""

    data: bytes
    graph: GraphModule
    max_batch: int  # 0: shapes are fixed


class TensorRTModule(EvaluationModule):
    """To derive from: forward() runs in PyTorch in training mode and through TensorRT in eval mode.

    >>> class Net(TensorRTModule):
    ...     def __init__(self):
    ...         super().__init__(max_batchsize=8, workspace=1 << 30)
    ...         self.net = torchvision.models.resnet50()
    ...     def forward(self, x):
    ...         return self.net(x)

    The first call in eval mode with arguments of a new kind builds a plan; so does the first one
    after the weights have changed. A batch larger than max_batchsize builds a plan for it, and the
    log says so. CUDA tensors stay on their device, whichever it is; CPU tensors are copied to the
    current GPU and back.

    Args:
        max_batchsize: the largest first dimension that a plan serves. With 1 shapes are fixed.
        workspace: the most device memory that layers may use for scratch, in bytes.
        dtype: what it computes in: torch.float32, float16 or bfloat16, or TensorRT's name of it.
        builder_config_fn: called with the builder and its configuration before the build.
        net_post_fn: called with the network before the build; it may add layers and outputs. The
            outputs that were marked first are the results.
        input_names: of the network's inputs.
        verbose: prints each node that becomes layers.
        fallback: where TensorRT cannot run it, PyTorch does and the log says so once; otherwise
            that is an error.
        compute_capability: for example (8, 9): with TensorRT-RTX, the GPU to build for.
        cache_dir: a folder for plans; they are found again by weights, shapes, versions and GPU.
            Not used with functions of the user.
    """

    def __init__(
        self,
        max_batchsize: int = 1,
        workspace: int = 1 << 30,
        dtype: Any = None,
        builder_config_fn: Callable[[Any, Any], None] | None = None,
        net_post_fn: Callable[[Any], None] | None = None,
        input_names: Sequence[str] | None = None,
        verbose: bool = False,
        *,
        fallback: bool = False,
        compute_capability: tuple[int, int] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if max_batchsize < 1:
            raise InvalidArgument(f"max_batchsize is at least 1, not {max_batchsize}")
        self.max_batchsize = max_batchsize
        self.workspace = workspace
        self.dtype = _dtype_of(dtype)
        self.builder_config_fn = builder_config_fn
        self.net_post_fn = net_post_fn
        self.input_names = input_names
        self.verbose = verbose
        self.fallback = fallback
        self.compute_capability = compute_capability
        self.cache_dir = None if cache_dir is None else Path(cache_dir)

    # --- plans ----------------------------------------------------------------------------------

    def build(self, *args: Any, **kwargs: Any) -> Plan:
        """A plan for arguments like these, with the weights as they are now. Needs no GPU with
        TensorRT-RTX if compute_capability is set.

        Raises:
            Unsupported: a node cannot become layers; names the source line.
            EngineError: TensorRT cannot be used, or its builder gives no plan.
        """
        from .handlers.tensorrt import library_of, trt_package

        graph, batch = self._trace(args, kwargs)
        library = library_of(trt_package())
        with library.exclusive():
            path = self._cache_path(library, graph, batch)
            if path is not None and path.is_file():
                return Plan(path.read_bytes(), graph, batch)
            flags = 0
            kinds = library.trt.NetworkDefinitionCreationFlag
            if hasattr(kinds, "STRONGLY_TYPED"):
                flags = 1 << int(kinds.STRONGLY_TYPED)
            network = library.builder.create_network(flags)
            torch2trt(graph, network=network, input_names=self.input_names, verbose=self.verbose)
            if self.net_post_fn is not None:
                self.net_post_fn(network)
            config = library.config([self.compute_capability] if self.compute_capability else [])
            config.set_memory_pool_limit(library.trt.MemoryPoolType.WORKSPACE, self.workspace)
            if batch:
                profile = library.builder.create_optimization_profile()
                for i in range(network.num_inputs):
                    tensor = network.get_input(i)
                    shapes = [
                        [size if size >= 0 else wanted for size in tensor.shape]
                        for wanted in (1, batch, batch)
                    ]
                    profile.set_shape(tensor.name, *shapes)
                config.add_optimization_profile(profile)
            if self.builder_config_fn is not None:
                self.builder_config_fn(library.builder, config)
            data = library.builder.build_serialized_network(network, config)
            if data is None:
                raise EngineError(f"TensorRT's builder: {library.cause('it gives no plan')}")
            if path is not None:
                write_record(path, bytes(data))
            return Plan(bytes(data), graph, batch)

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GraphModule, int]:
        """The graph, and the largest batch that it takes; 0 where its shapes are fixed."""
        module: torch.nn.Module = Forward(self)
        if self.dtype != torch.float32:
            module = _InDtype(module, self.dtype).eval()
        leaves = pytree.tree_leaves((args, kwargs))
        sizes = {x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0}
        if self.max_batchsize == 1 or len(sizes) != 1:
            return GraphModule(module, *args, keywords=kwargs), 0
        (size,) = sizes
        batch = torch.export.Dim.AUTO

        # torch.export takes a size of 1 for one that never changes.
        def widened(x: Any) -> Any:
            is_batched = isinstance(x, torch.Tensor) and x.dim() > 0
            return torch.cat([x, x]) if is_batched and size == 1 else x

        def dynamic(x: Any) -> Any:
            return {0: batch} if isinstance(x, torch.Tensor) and x.dim() > 0 else None

        wide_args, wide_kwargs = pytree.tree_map(widened, (args, kwargs))
        dynamic_args, dynamic_kwargs = pytree.tree_map(dynamic, (args, kwargs))
        shapes = {"args": dynamic_args} if args else {}
        graph = GraphModule(
            module,
            *wide_args,
            keywords=wide_kwargs,
            dynamic_shapes={**shapes, **dynamic_kwargs},
        )
        if all(isinstance(spec.shape[0], str) for spec in graph.inputs if spec.shape):
            return graph, max(size, self.max_batchsize)
        LOG.warning("%s: its batch cannot vary; plans are for one size", type(self).__name__)
        return GraphModule(module, *args, keywords=kwargs), 0

    def _cache_path(self, library: Any, graph: GraphModule, batch: int) -> Path | None:
        if self.cache_dir is None or self.builder_config_fn or self.net_post_fn:
            return None
        digest = hashlib.sha256()
        for part in (
            library.trt.__name__,
            library.trt.__version__,
            str(self.compute_capability or _device_name()),
            str((self.workspace, batch, list(self.input_names or ()))),
            "\n".join(map(str, graph.inputs)),
            graph.code,
        ):
            digest.update(part.encode() + b"\0")
        for name, tensor in sorted(graph.net.state_dict().items()):
            digest.update(f"{name}{tensor.dtype}{list(tensor.shape)}".encode())
            dense = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(dense.view(torch.uint8).numpy().data if dense.numel() else b"")
        return self.cache_dir / f"{digest.hexdigest()}.plan"

    # --- runs -----------------------------------------------------------------------------------

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """forward() through TensorRT."""
        try:
            return self._through_engine(args, kwargs)
        except Error as error:
            if not self.fallback:
                raise
            if not self.__dict__.get("_engine_has_warned"):
                self.__dict__["_engine_has_warned"] = True
                LOG.warning("%s runs in PyTorch: %s", type(self).__name__, error)
            with torch.no_grad():
                return self.forward(*args, **kwargs)

    def _through_engine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with self.__dict__["_engine_lock"]:
            plan, context = self._context(args, kwargs, leaves, tensors)
        if isinstance(context, InferenceContext):
            named = context.inference_async(*[t.detach().numpy() for t in tensors])
            outputs = [torch.from_numpy(array) for array in named.values()]
        else:
            outputs = list(context.inference_async(*tensors).values())
        tensors_of_plan = iter(outputs)
        results = [
            next(tensors_of_plan) if is_tensor else known for is_tensor, known in plan.graph.results
        ]
        return pytree.tree_unflatten(results, plan.graph.exported.call_spec.out_spec)

    def _context(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        tensors: list[torch.Tensor],
    ) -> tuple[Plan, Any]:
        """The plan for these arguments and weights, and what runs it; built where there is none."""
        weights: Weights | None = self.__dict__.get("_engine_weights")
        if weights is None or not weights.are_current(self):
            self.__dict__["_engine_weights"] = Weights(self)
            self.__dict__["_engine_contexts"] = {}
        contexts: dict[Any, tuple[Plan, Any]] = self.__dict__["_engine_contexts"]
        key = tuple(
            (leaf.dtype, leaf.device, tuple(leaf.shape[1:]), leaf.dim())
            if isinstance(leaf, torch.Tensor)
            else repr(leaf)
            for leaf in leaves
        )
        batch = max((t.shape[0] for t in tensors if t.dim() > 0), default=0)
        sizes = tuple(t.shape[0] for t in tensors if t.dim() > 0)
        for place in (key, (key, sizes)):
            found = contexts.get(place)
            if found is not None and (not found[0].max_batch or batch <= found[0].max_batch):
                return found
        if key in contexts:
            LOG.warning(
                "%s: a plan for batches of %d is built, max_batchsize is %d",
                type(self).__name__,
                batch,
                self.max_batchsize,
            )
        plan = self.build(*args, **kwargs)
        found = plan, self.make_context(plan, tensors)
        contexts[key if plan.max_batch else (key, sizes)] = found
        return found

    def make_context(self, plan: Plan, tensors: Sequence[torch.Tensor]) -> Any:
        """What runs a plan: for tensors on a GPU there, for others by way of copies.

        Raises:
            EngineError: there is no GPU, or it does not take the plan.
        """
        from .handlers.tensorrt import library_of, trt_package

        device = next((t.device for t in tensors), torch.device("cpu"))
        library = library_of(trt_package())
        _check_gpu()
        with library.exclusive():
            runtime = library.trt.Runtime(library.logger)
            if device.type == "cuda":
                torch.cuda.set_device(device)
            engine = runtime.deserialize_cuda_engine(plan.data)
            if engine is None:
                raise EngineError(f"TensorRT: {library.cause('it does not take the plan')}")
            context = engine.create_execution_context()
        if device.type == "cuda":
            return TorchInferenceContext(context, device)
        return InferenceContext(context)


class TensorRTModuleWrapper(TensorRTModule):
    """A module that runs in PyTorch in training mode and through TensorRT in eval mode."""

    def __init__(self, net: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.net = net
        self.train(net.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results."""
        return self.net(*args, **kwargs)


def _check_gpu() -> None:
    try:
        _cuda.driver()
    except EngineError as error:
        raise EngineError(f"a plan of TensorRT runs on a GPU: {error}") from error


def _device_name() -> str:
    return "sm{}{}".format(*_cuda.driver().compute_capability(0))
