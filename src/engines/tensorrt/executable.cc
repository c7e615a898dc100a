// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "engine/handles.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

constexpr std::string_view kMagic = "xrt-tensorrt-1\n";

// Memory of the device or page-locked memory of the host, that only grows.
class Buffer {
 public:
  Buffer(const Driver& driver, bool host) : driver_(driver), host_(host) {}
  ~Buffer() { clear(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* reserve(std::size_t bytes) {
    if (bytes > bytes_ || memory_ == nullptr) {
      clear();
      const std::size_t wanted = std::max<std::size_t>(bytes, 256);
      memory_ = host_ ? driver_.allocate_host(wanted) : driver_.allocate(wanted);
      bytes_ = wanted;
    }
    return memory_;
  }
  void* get() const { return memory_; }

 private:
  void clear() {
    if (memory_ == nullptr) return;
    host_ ? driver_.release_host(memory_) : driver_.release(memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }
  const Driver& driver_;
  bool host_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Port {
  explicit Port(const Driver& driver) : device(driver, false), staging(driver, true) {}
  Buffer device;
  Buffer staging;
};

class TrtContext : public RunContext {
 public:
  TrtContext(std::shared_ptr<const Driver> driver, int device, std::size_t inputs,
             std::size_t outputs)
      : driver_(std::move(driver)), device_(device) {
    driver_->use(device_);
    stream_ = driver_->make_stream();
    for (std::size_t i = 0; i < inputs; ++i) this->inputs.push_back(make_port());
    for (std::size_t i = 0; i < outputs; ++i) this->outputs.push_back(make_port());
  }
  ~TrtContext() override {
    try {
      driver_->use(device_);
    } catch (const Error& error) {  // a destructor; the memory is lost with the context
      log_warning(error.what());
    }
    execution.reset();
    inputs.clear();
    outputs.clear();
    driver_->destroy_stream(stream_);
  }
  TrtContext(const TrtContext&) = delete;
  TrtContext& operator=(const TrtContext&) = delete;

  void* stream() const { return stream_; }

  std::shared_ptr<const EnginePlan> plan;  // what `execution` belongs to
  std::unique_ptr<Execution> execution;
  std::vector<std::unique_ptr<Port>> inputs, outputs;

 private:
  std::unique_ptr<Port> make_port() { return std::make_unique<Port>(*driver_); }
  std::shared_ptr<const Driver> driver_;
  int device_;
  void* stream_ = nullptr;
};

std::vector<TrtExecutable::Border> borders(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TrtExecutable::Border> out;
  out.reserve(ids.size());
  for (const ValueId id : ids) out.push_back({graph.value(id).name, graph.type(id)});
  return out;
}

void check_input(const TrtExecutable::Border& border, const Tensor& tensor,
                 const std::string& function) {
  bool right = tensor.dtype() == border.type.dtype && tensor.rank() == border.type.rank();
  for (std::size_t i = 0; right && i < tensor.rank(); ++i) {
    const Dim& dim = (*border.type.shape)[i];
    right = !dim.is_known() || dim.value() == tensor.dims()[i];
  }
  if (!right) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("TensorRT: function '{}': input '{}' is {}{}, it takes {}", function,
                            border.name, to_string(tensor.dtype()), to_string(tensor.dims()),
                            to_string(border.type)));
  }
}

}  // namespace

TrtExecutable::TrtExecutable(const Graph& graph, std::string name,
                             std::shared_ptr<const Driver> driver, int device,
                             std::shared_ptr<const Planner> planner, Ranges ranges,
                             std::shared_ptr<const EnginePlan> plan, std::string no_gpu)
    : inputs_(borders(graph, graph.inputs())),
      outputs_(borders(graph, graph.outputs())),
      name_(std::move(name)),
      driver_(std::move(driver)),
      device_(device),
      planner_(std::move(planner)),
      no_gpu_(std::move(no_gpu)),
      ranges_(std::move(ranges)),
      plan_(std::move(plan)) {}

std::unique_ptr<RunContext> TrtExecutable::create_context() const {
  if (driver_ == nullptr) {
    throw Error(ErrorCode::kEngine,
                fmt::format("TensorRT: function '{}': a plan of TensorRT runs on a GPU: {}", name_,
                            no_gpu_));
  }
  return std::make_unique<TrtContext>(driver_, device_, inputs_.size(), outputs_.size());
}

Ranges TrtExecutable::ranges() const {
  const std::lock_guard lock(mutex_);
  return ranges_;
}

std::shared_ptr<const EnginePlan> TrtExecutable::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

std::shared_ptr<const EnginePlan> TrtExecutable::plan_for(const std::vector<Dims>& shapes) const {
  const std::lock_guard lock(mutex_);  // others wait: they would build the same
  if (plan_ != nullptr && fits(ranges_, shapes)) return plan_;
  const Ranges wanted = grown(ranges_, shapes);
  if (plan_ != nullptr) {
    std::vector<std::string> names;
    for (const Border& border : inputs_) names.push_back(border.name);
    log_warning(fmt::format("TensorRT: function '{}': {}; it is built again for {}", name_,
                            misfit(ranges_, shapes, names), to_text(wanted)));
  }
  plan_ = planner_->build(wanted);
  ranges_ = wanted;
  return plan_;
}

void TrtExecutable::run(const RunArgs& args) const {
  const RunData& options = data_of(args);
  const std::span<const Data> inputs = options.inputs;
  const std::span<Data> outputs = options.outputs;
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("TensorRT: function '{}' has {} inputs and {} outputs, got {} and {}",
                            name_, inputs_.size(), outputs_.size(), inputs.size(), outputs.size()));
  }
  auto* own = dynamic_cast<TrtContext*>(args.context());
  if (own == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "TensorRT: run() needs a context of create_context()");
  }
  std::vector<Dims> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(inputs_[i], inputs[i].tensor(), name_);
    shapes.push_back(inputs[i].tensor().dims());
  }
  driver_->use(device_);
  const std::shared_ptr<const EnginePlan> plan = plan_for(shapes);
  if (own->plan != plan) {
    own->execution = nullptr;
    own->execution = plan->make_execution();
    own->plan = plan;
  }
  Execution& execution = *own->execution;
  void* stream = options.stream != nullptr ? options.stream : own->stream();

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = inputs[i].tensor();
    execution.set_shape(i, tensor.dims());
    const Memory kind = driver_->kind_of(tensor.raw());
    if (kind == Memory::kDevice) {
      execution.bind_input(i, tensor.raw());
      continue;
    }
    Port& port = *own->inputs[i];
    void* device = port.device.reserve(tensor.bytes());
    const void* source = tensor.raw();
    if (kind == Memory::kPageable && tensor.bytes() > 0) {
      void* staging = port.staging.reserve(tensor.bytes());
      std::memcpy(staging, tensor.raw(), tensor.bytes());
      source = staging;
    }
    if (tensor.bytes() > 0) driver_->copy_to_device(device, source, tensor.bytes(), stream);
    execution.bind_input(i, device);
  }

  std::vector<Dims> dims(outputs.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    dims[k] = execution.output_dims(k);
    const bool open = std::any_of(dims[k].begin(), dims[k].end(), [](auto d) { return d < 0; });
    Port& port = *own->outputs[k];
    if (open) {
      execution.bind_dynamic_output(
          k, [&port](std::size_t bytes) { return port.device.reserve(bytes); },
          [&dims, k](const Dims& shape) { dims[k] = shape; });
      continue;
    }
    if (outputs[k].is_tensor()) {
      const Tensor& target = outputs[k].tensor();
      if (target.dtype() != outputs_[k].type.dtype || target.dims() != dims[k]) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("TensorRT: function '{}': the memory for output '{}' is {}{}, the "
                                "result is {}{}",
                                name_, outputs_[k].name, to_string(target.dtype()),
                                to_string(target.dims()), to_string(outputs_[k].type.dtype),
                                to_string(dims[k])));
      }
      if (driver_->kind_of(target.raw()) == Memory::kDevice) {
        execution.bind_output(k, outputs[k].tensor().raw());
        continue;
      }
    }
    execution.bind_output(k, port.device.reserve(byte_count(outputs_[k].type.dtype, dims[k])));
  }

  execution.enqueue(stream);

  // What comes back to the host: into staging in the order of the stream, then to its place.
  bool wait = options.stream == nullptr;
  std::vector<std::pair<std::size_t, const void*>> staged;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].is_tensor() && driver_->kind_of(outputs[k].tensor().raw()) == Memory::kDevice) {
      continue;
    }
    if (!outputs[k].is_tensor()) {
      outputs[k] = Tensor::allocate(outputs_[k].type.dtype, dims[k]);
    }
    Tensor& target = outputs[k].tensor();
    if (target.dims() != dims[k]) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("TensorRT: function '{}': output '{}' came out as {}, its memory is "
                      "for {}",
                      name_, outputs_[k].name, to_string(dims[k]), to_string(target.dims())));
    }
    wait = true;
    if (target.bytes() == 0) continue;
    Port& port = *own->outputs[k];
    void* landing = target.raw();
    if (driver_->kind_of(target.raw()) == Memory::kPageable) {
      landing = port.staging.reserve(target.bytes());
      staged.emplace_back(k, landing);
    }
    driver_->copy_to_host(landing, port.device.get(), target.bytes(), stream);
  }
  if (wait) driver_->synchronize(stream);
  for (const auto& [k, landing] : staged) {
    Tensor& target = outputs[k].tensor();
    std::memcpy(target.raw(), landing, target.bytes());
  }
}

std::optional<std::string> TrtExecutable::serialize() const {
  const std::lock_guard lock(mutex_);
  if (plan_ == nullptr) return std::nullopt;  // not built before the first run
  const Tensor& bytes = plan_->bytes();
  std::string out = fmt::format("{}{}\n", kMagic, to_text(ranges_));
  out.append(static_cast<const char*>(bytes.raw()), bytes.bytes());
  return out;
}

std::pair<Ranges, Tensor> TrtExecutable::unpack(const Tensor& blob, const std::string& name) {
  const std::string_view bytes(static_cast<const char*>(blob.raw()), blob.bytes());
  const std::size_t end = bytes.find('\n', kMagic.size());
  if (!bytes.starts_with(kMagic) || end == std::string_view::npos) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("TensorRT: the cached plan of function '{}' is not one", name));
  }
  const std::string text(bytes.substr(kMagic.size(), end - kMagic.size()));
  const std::string_view plan = bytes.substr(end + 1);
  // The plan keeps its own copy: the blob may go away after load().
  Tensor copy = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(plan.size())});
  std::memcpy(copy.raw(), plan.data(), plan.size());
  return {from_text(text), copy};
}

ExecutableInfo TrtExecutable::info() const {
  const std::lock_guard lock(mutex_);
  ExecutableInfo info;
  info.workspace_bytes = plan_ == nullptr ? 0 : plan_->workspace_bytes();
  info.threads = 1;
  return info;
}

}  // namespace xrt::tensorrt
