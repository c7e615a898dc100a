// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/executable.h"

#include <fmt/format.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "engine/handles.h"
#include "engines/tvm/cuda_runtime.h"
#include "xrt/error.h"

namespace xrt::tvm_engine {
namespace {

namespace ffi = ::tvm::ffi;

// What TVM's generated code assumes of every pointer it is given.
constexpr std::size_t kAlignment = 64;
// Memory of the virtual machine comes from pools that live as long as it does.
constexpr int kPooledAllocator = 2;

DLDataType dl_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(bit_width(dtype));
  switch (dtype) {
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {kDLFloat, bits, 1};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {kDLInt, bits, 1};
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return {kDLUInt, bits, 1};
    case DType::kBool:
      return {kDLBool, 8, 1};
    default:
      throw Error(ErrorCode::kUnsupported,
                  "tvm: no tensors of dtype " + std::string(to_string(dtype)));
  }
}

// Runs `action`; what TVM throws becomes an error of ours.
template <typename Action>
auto translated(const std::string& place, Action&& action) {
  try {
    return action();
  } catch (const ffi::Error& error) {
    throw Error(ErrorCode::kEngine, fmt::format("tvm: {}: {}", place, error.message()));
  }
}

struct Borrowed {
  DLManagedTensor managed{};
  Tensor tensor;
  std::vector<std::int64_t> shape;
};

// TVM's view of a tensor's memory; it keeps the memory alive.
ffi::Tensor borrow(const Tensor& tensor) {
  auto holder = std::make_unique<Borrowed>();
  holder->tensor = tensor;
  holder->shape = tensor.dims();
  DLTensor& dl = holder->managed.dl_tensor;
  dl.data = const_cast<void*>(tensor.raw());
  dl.device = {kDLCPU, 0};
  dl.ndim = static_cast<int>(holder->shape.size());
  dl.dtype = dl_type(tensor.dtype());
  dl.shape = holder->shape.data();
  holder->managed.manager_ctx = holder.get();
  holder->managed.deleter = [](DLManagedTensor* self) {
    const std::unique_ptr<Borrowed> done(static_cast<Borrowed*>(self->manager_ctx));
  };
  ffi::Tensor result = ffi::Tensor::FromDLPack(&holder->managed);
  (void)holder.release();  // its deleter owns it now
  return result;
}

ffi::Function global(const char* name) {
  const auto function = ffi::Function::GetGlobal(name);
  if (!function) throw Error(ErrorCode::kEngine, fmt::format("tvm: it has no function {}", name));
  return *function;
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kAlignment == 0;
}

Dims dims_of(const ffi::Tensor& tensor) {
  const auto shape = tensor.shape();
  return {shape.begin(), shape.end()};
}

}  // namespace

struct TvmExecutable::Loaded {
  ffi::Module library;
  explicit Loaded(ffi::Module loaded) : library(std::move(loaded)) {}
};

struct TvmExecutable::Context : RunContext {
  ffi::Module machine;
  ffi::Function main;
  Context(ffi::Module m, ffi::Function f) : machine(std::move(m)), main(std::move(f)) {}
};

TvmExecutable::TvmExecutable(std::string label, std::string library, const Function& function,
                             const CompileOptions& options)
    : name_(function.name),
      label_(std::move(label)),
      library_(std::move(library)),
      num_threads_(options.num_threads) {
  const Graph& graph = graph_of(function.graph);
  for (const ValueId id : graph.inputs()) {
    inputs_.push_back({graph.value(id).name, graph.type(id).dtype, *graph.type(id).static_dims()});
  }
  for (const ValueId id : graph.outputs()) {
    outputs_.push_back({graph.value(id).name, graph.type(id).dtype, *graph.type(id).static_dims()});
  }
  device_type_ = kDLCPU;
  if (options.device.starts_with("cuda")) {
    device_type_ = kDLCUDA;
    device_index_ = gpu_index(options.device);
  }
  translated("function '" + name_ + "'", [&] {
    // The loader goes by the extension; once loaded, the file is needed no more.
    const TemporaryFolder folder("tvm");
    const std::filesystem::path file = folder.path() / "function.so";
    write_file_atomic(file, library_);
    loaded_ = std::make_unique<Loaded>(ffi::Module::LoadFromFile(file.string()));
  });
}

TvmExecutable::~TvmExecutable() = default;

std::unique_ptr<RunContext> TvmExecutable::create_context() const {
  return translated("function '" + name_ + "'", [&] {
    const auto load = loaded_->library->GetFunction("vm_load_executable");
    if (!load) throw Error(ErrorCode::kEngine, "tvm: '" + name_ + "' holds no Relax program");
    const auto machine = (*load)().cast<ffi::Module>();
    const auto start = machine->GetFunction("vm_initialization");
    const auto main = machine->GetFunction("main");
    if (!start || !main) {
      throw Error(ErrorCode::kEngine, "tvm: '" + name_ + "' holds no function main");
    }
    if (device_type_ == kDLCPU) {
      (*start)(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    } else {
      (*start)(device_type_, device_index_, kPooledAllocator, static_cast<int>(kDLCPU), 0,
               kPooledAllocator);
    }
    return std::make_unique<Context>(machine, *main);
  });
}

void TvmExecutable::run(const RunArgs& args) const {
  auto& own = static_cast<Context&>(*args.context());
  const std::span<const Data> inputs = data_of(args).inputs;
  const std::span<Data> outputs = data_of(args).outputs;
  translated("function '" + name_ + "'", [&] {
    // TVM keeps one pool of threads per calling thread.
    thread_local int configured = 0;
    if (configured != num_threads_) {
      global("runtime.config_threadpool")(1, num_threads_);
      configured = num_threads_;
    }
    const DLDevice device{static_cast<DLDeviceType>(device_type_), device_index_};
    std::vector<ffi::Tensor> held(inputs_.size());
    std::vector<ffi::AnyView> arguments(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Tensor tensor = inputs[i].tensor();
      if (device_type_ != kDLCPU) {
        held[i] = global("runtime.TVMTensorAllocWithScope")(ffi::Shape(tensor.dims()),
                                                            dl_type(tensor.dtype()), device,
                                                            ffi::Optional<ffi::String>())
                      .cast<ffi::Tensor>();
        global("runtime.TVMTensorCopyFromBytes")(held[i], const_cast<void*>(tensor.raw()),
                                                 tensor.bytes());
      } else {
        if (!is_aligned(tensor.raw())) tensor = tensor.clone();
        held[i] = borrow(tensor);
      }
      arguments[i] = held[i];
    }
    ffi::Any result;
    own.main.CallPacked(arguments.data(), static_cast<int32_t>(arguments.size()), &result);

    std::vector<ffi::Tensor> results;
    if (const auto one = result.as<ffi::Tensor>()) {
      results.push_back(*one);
    } else {
      for (const ffi::Any& item : result.cast<ffi::Array<ffi::Any>>()) {
        results.push_back(item.cast<ffi::Tensor>());
      }
    }
    if (results.size() != outputs_.size()) {
      throw Error(ErrorCode::kEngine, fmt::format("tvm: '{}' gave {} results, {} were expected",
                                                  name_, results.size(), outputs_.size()));
    }
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const Port& port = outputs_[o];
      const ffi::Tensor& from = results[o];
      const DLDataType wanted = dl_type(port.dtype);
      const DLDataType given = from.dtype();
      if (dims_of(from) != port.dims || given.code != wanted.code || given.bits != wanted.bits) {
        throw Error(ErrorCode::kEngine,
                    fmt::format("tvm: output '{}' of '{}' came out as {}, {}{} was expected",
                                port.name, name_, to_string(dims_of(from)), to_string(port.dtype),
                                to_string(port.dims)));
      }
      const bool lent = outputs[o].is_tensor();
      if (!lent) outputs[o] = Tensor::allocate(port.dtype, port.dims);
      Tensor& to = outputs[o].tensor();
      if (device_type_ != kDLCPU) {
        global("runtime.TVMTensorCopyToBytes")(from, to.raw(), to.bytes());
      } else {
        std::memcpy(to.raw(), from.data_ptr(), to.bytes());
      }
    }
  });
}

}  // namespace xrt::tvm_engine
