// SPDX-License-Identifier: Apache-2.0
// Runs of a compiled function: inputs to the card, its steps, and where results come to lie.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engines/cuda/executable.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

// Memory that a run gives away, which may be let go of before the run has written it.
struct Result {
  std::shared_ptr<void> memory;
  std::shared_ptr<Event> written;
  int device;

  Result(std::shared_ptr<void> owner, std::shared_ptr<Event> event, int on)
      : memory(std::move(owner)), written(std::move(event)), device(on) {}
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    try {
      MemoryPool::of(device).follow(*written);
    } catch (const Error& error) {  // nothing is left to be done but to say so
      log_warning(error.what());
    }
  }
};

}  // namespace

// An arena, and the steps recorded over it.
class CudaExecutable::Context final : public RunContext {
 public:
  explicit Context(const CudaExecutable& executable)
      : device(executable.device_),
        stream(device),
        done(device),
        arena(MemoryPool::of(device).allocate(
            executable.plan_.arena_bytes + executable.workspace_bytes_, stream.get(),
            fmt::format("the values of function '{}'", executable.plan_.name))) {}
  ~Context() override {
    try {
      if (was_used) done.synchronize();  // nothing may use the arena any longer
      stream.synchronize();
    } catch (const Error& error) {  // nothing is left to be done but to say so
      log_warning(error.what());
    }
  }
  int device;
  Stream stream;
  Event done;  // of the last run
  std::shared_ptr<void> arena;
  std::unique_ptr<Graph> graph;
  // The latest borders, the last first, and the direct steps recorded over those that came again:
  // in a training step the same tensors lie at the same places, turn after turn.
  struct Recorded {
    Border border;
    std::unique_ptr<Graph> graph;
  };
  std::vector<Recorded> borders;
  void* last_stream = nullptr;
  bool was_used = false;
};

std::unique_ptr<RunContext> CudaExecutable::create_context() const {
  const CudaDriver::Scope scope(CudaDriver::get(), device_);
  return std::make_unique<Context>(*this);
}

void CudaExecutable::check_input(std::size_t index, const TensorView& tensor) const {
  const View& wanted = plan_.inputs[index];
  const Device here{DeviceKind::kCuda, device_};
  const bool fits =
      tensor.dtype() == wanted.dtype && std::ranges::equal(tensor.dims(), wanted.dims);
  if (fits && (tensor.device() == Device{} || tensor.device() == here)) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("cuda: input {} is {}[{}] on {} {}, but the function was compiled for "
                          "{}[{}] on cuda:{}",
                          index, to_string(tensor.dtype()), fmt::join(tensor.dims(), ","),
                          tensor.device().is_host() ? "cpu" : "cuda", tensor.device().ordinal,
                          to_string(wanted.dtype), fmt::join(wanted.dims, ","), device_));
}

void CudaExecutable::queue_direct(Context& own, const Border& border, void* stream) const {
  constexpr std::ptrdiff_t kWorthRecording = 16;  // steps
  constexpr std::size_t kMostBorders = 4;
  void* const arena = own.arena.get();
  void* const workspace = static_cast<std::byte*>(arena) + plan_.arena_bytes;
  const auto queue = [&](void* where) {
    queue_steps(Which::kDirect, arena, workspace, where, &border);
  };
  const auto steps = std::count_if(plan_.steps.begin(), plan_.steps.end(),
                                   [](const Step& step) { return step.direct; });
  if (!options_.graph || steps < kWorthRecording) return queue(stream);
  std::vector<Context::Recorded>& all = own.borders;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Context::Recorded& known) {
    return known.border == border;
  });
  if (found == all.end()) {
    if (all.size() == kMostBorders) all.pop_back();
    all.insert(all.begin(), {border, nullptr});
    return queue(stream);
  }
  std::rotate(all.begin(), found, found + 1);
  Context::Recorded& known = all.front();
  if (known.graph == nullptr) {
    // All code is loaded since its first run, which recording must not do.
    own.done.synchronize();
    known.graph =
        std::make_unique<Graph>(device_, own.stream.get(), [&] { queue(own.stream.get()); });
  }
  known.graph->launch(stream);
}

void CudaExecutable::run(const RunArgs& args) const {
  const CudaDriver::Scope scope(CudaDriver::get(), device_);
  auto& own = static_cast<Context&>(*args.context());
  void* const stream = args.stream() != nullptr ? args.stream() : own.stream.get();
  void* const arena = own.arena.get();
  void* const workspace = static_cast<std::byte*>(arena) + plan_.arena_bytes;
  if (own.was_used && own.last_stream != stream) own.done.make_wait(stream);
  constexpr std::uintptr_t kAlignment = 256;  // as that of the arena, for which ways were chosen
  const auto is_aligned = [](const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % kAlignment == 0;
  };
  const auto take = [&](std::size_t bytes, const char* kind, std::size_t i) {
    const std::string what = fmt::format("{} {} of function '{}'", kind, i, plan_.name);
    MemoryPool& pool = MemoryPool::of(device_);
    return args.stream() != nullptr ? pool.allocate_result(bytes, stream, what)
                                    : pool.allocate(bytes, stream, what);
  };
  Border border{std::vector<void*>(plan_.inputs.size()), std::vector<void*>(plan_.outputs.size())};
  std::vector<std::shared_ptr<void>> copies;  // of direct inputs that lie elsewhere
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    const TensorView input = args.input(i);
    check_input(i, input);
    void* to = nullptr;
    if (plan_.buffers[static_cast<std::size_t>(plan_.inputs[i].buffer)].direct) {
      border.inputs[i] = const_cast<void*>(input.raw());
      if (!input.device().is_host() && is_aligned(input.raw())) continue;
      copies.push_back(take(input.bytes(), "input", i));
      to = border.inputs[i] = copies.back().get();
    } else {
      to = address(plan_.inputs[i], arena);
    }
    if (input.device().is_host()) {
      copy_to_device(device_, to, input.raw(), input.bytes(), stream);
    } else {
      copy_on_device(device_, to, input.raw(), input.bytes(), stream);
    }
  }
  if (own.graph) {
    own.graph->launch(stream);
  } else {
    queue_steps(Which::kRecorded, arena, workspace, stream);
  }
  std::shared_ptr<Event> written;
  std::vector<void*>& results = border.results;
  std::vector<std::shared_ptr<void>> memory(plan_.outputs.size());
  const auto bytes_of_output = [&](std::size_t i) {
    return bytes_of(plan_.outputs[i].dtype, plan_.outputs[i].count());
  };
  // Where results come to lie on the device: direct ones, and those that are given away there.
  bool has_direct = false;
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const View& output = plan_.outputs[i];
    const bool is_direct = plan_.buffers[static_cast<std::size_t>(output.buffer)].direct;
    has_direct = has_direct || is_direct;
    const TensorView given = args.output(i);
    const bool is_given = given.defined() && !given.device().is_host();
    // What takes an input's place is written when nothing reads that any longer.
    const bool is_update = is_given && std::find(border.inputs.begin(), border.inputs.end(),
                                                 given.raw()) != border.inputs.end();
    if (is_given && !is_update && is_aligned(given.raw())) {
      results[i] = given.raw();
    } else if (is_direct || (!given.defined() && args.on_device(i))) {
      memory[i] = take(bytes_of_output(i), "result", i);
      results[i] = memory[i].get();
    }
  }
  if (has_direct) queue_direct(own, border, stream);
  bool keeps_memory = false;
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const View& output = plan_.outputs[i];
    const std::size_t bytes = bytes_of_output(i);
    const bool is_direct = plan_.buffers[static_cast<std::size_t>(output.buffer)].direct;
    void* const from = is_direct ? results[i] : address(output, arena);
    const TensorView given = args.output(i);
    if (given.defined() && !given.device().is_host()) {
      if (from != given.raw()) copy_on_device(device_, given.raw(), from, bytes, stream);
    } else if (!given.defined() && args.on_device(i)) {
      void* const to = results[i];
      if (from != to) copy_on_device(device_, to, from, bytes, stream);
      std::shared_ptr<const void> owner = memory[i];
      if (args.stream() == nullptr) {
        if (!written) written = std::make_shared<Event>(device_);
        owner = std::make_shared<Result>(std::move(memory[i]), written, device_);
      }
      args.give_output(i, output.dtype, output.dims, to, std::move(owner),
                       {DeviceKind::kCuda, device_});
      memory[i].reset();
    } else {
      void* const to =
          given.defined() ? given.raw() : args.allocate_output(i, output.dtype, output.dims);
      copy_to_host(device_, to, from, bytes, stream);
    }
    keeps_memory = keeps_memory || memory[i] != nullptr;
  }
  own.done.record(stream);
  own.was_used = true;
  own.last_stream = stream;
  if (written) written->record(stream);
  // What was only on the way is somebody else's when this run has been done.
  if (keeps_memory) MemoryPool::of(device_).follow(own.done);
  if (args.stream() == nullptr) own.stream.synchronize();
  const auto recorded = std::count_if(plan_.steps.begin(), plan_.steps.end(),
                                      [](const Step& step) { return !step.once && !step.direct; });
  if (own.graph == nullptr && options_.graph && recorded > 1) {
    // All code is loaded now, which recording must not do.
    own.done.synchronize();
    own.graph = std::make_unique<Graph>(device_, own.stream.get(), [&] {
      queue_steps(Which::kRecorded, arena, workspace, own.stream.get());
    });
  }
}

}  // namespace xrt::cuda
