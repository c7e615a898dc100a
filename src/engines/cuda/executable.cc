// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/log.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engine/host.h"
#include "engines/cuda/attention.h"
#include "engines/cuda/planner.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

constexpr std::size_t kArenaAlignment = 256;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Steps with the same description have the same ways.
std::string description(const Step& step) {
  std::string text;
  const auto add = [&](const View& view) {
    text += fmt::format("{}{}{}+{} ", to_string(view.dtype), fmt::join(view.dims, "x"),
                        fmt::format("/{}", fmt::join(view.strides, ",")),
                        view.byte_offset() % kArenaAlignment);
  };
  if (const auto* product = std::get_if<ProductStep>(&step.work)) {
    for (const auto* m : {&product->a, &product->b, &product->c, &product->d}) {
      text += fmt::format("{}x{}/{}/{}{}+{} ", m->rows, m->columns, m->leading, m->batch_stride,
                          m->transposed ? "t" : "", m->view.byte_offset() % kArenaAlignment);
    }
    text += fmt::format("{} {} {} {} {} {}", to_string(product->dtype), to_string(product->factors),
                        product->batch, product->beta, product->bias.has_value(),
                        static_cast<int>(product->activation));
  } else if (const auto* convolution = std::get_if<ConvolutionStep>(&step.work)) {
    for (const View* view : {&convolution->x, &convolution->w, &convolution->y}) add(*view);
    text +=
        fmt::format("{} {} {} {} {} {} {}", fmt::join(convolution->strides, ","),
                    fmt::join(convolution->dilations, ","), fmt::join(convolution->pads_begin, ","),
                    fmt::join(convolution->pads_end, ","), convolution->bias.has_value(),
                    convolution->residual.has_value(), static_cast<int>(convolution->activation));
  }
  return text;
}

}  // namespace

std::size_t CudaExecutable::Library::way_count() const {
  return product ? product->way_count() : convolution->way_count();
}
void CudaExecutable::Library::choose(std::size_t way) const {
  product ? product->choose(way) : convolution->choose(way);
}
std::size_t CudaExecutable::Library::workspace_bytes() const {
  return product ? product->workspace_bytes() : convolution->workspace_bytes();
}
void CudaExecutable::Library::queue(const Addresses& addresses, void* workspace,
                                    void* stream) const {
  if (product) {
    product->queue(addresses, workspace, stream);
  } else {
    convolution->queue(addresses, workspace, stream);
  }
}

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
  void* last_stream = nullptr;
  bool was_used = false;
};

CudaExecutable::CudaExecutable(const Function& function, int device, const CompileOptions& options,
                               const ExecutableOptions& own)
    : device_(device), options_(own) {
  const CudaDriver::Scope scope(CudaDriver::get(), device);
  make_plan(function);
  if (log_debug_enabled()) {
    log_debug(fmt::format("cuda: function '{}':\n{}", function.name, plan_.source));
  }
  if (!own.source_dir.empty()) {
    std::filesystem::create_directories(own.source_dir);
    write_file_atomic(std::filesystem::path(own.source_dir) / (function.name + ".cu"),
                      plan_.source);
  }
  if (options.progress) options.progress("compiling kernels", 0.2);
  const bool has_kernels =
      std::any_of(plan_.steps.begin(), plan_.steps.end(),
                  [](const Step& step) { return std::holds_alternative<KernelStep>(step.work); });
  if (has_kernels) {
    module_ =
        std::make_unique<Module>(device, compile(plan_.source, device_facts(device).capability));
    for (const Step& step : plan_.steps) {
      const auto* kernel = std::get_if<KernelStep>(&step.work);
      if (kernel == nullptr || kernels_.contains(kernel->kernel)) continue;
      kernels_[kernel->kernel] = module_->kernel(kernel->kernel);
    }
  }
  const Stream stream(device);
  if (options.progress) options.progress("loading weights", 0.4);
  load_constants(stream.get());
  measure_ways(options, stream.get());
  for (const auto& [step, library] : libraries_) {
    if (plan_.steps[step].once) continue;
    workspace_bytes_ = std::max(workspace_bytes_, rounded_up(library.workspace_bytes()));
  }
}

CudaExecutable::~CudaExecutable() = default;

// Where a library has no way to compute a step, the function is planned again without.
void CudaExecutable::make_plan(const Function& given) {
  xrt::Graph graph = graph_of(given.graph);
  narrow_attention(graph);
  const Function function{given.name, view_of(graph), given.aliases, {}};
  PlanOptions plan_options;
  plan_options.has_cublas = options_.use_libraries && cublas_trouble().empty();
  plan_options.has_cudnn = options_.use_libraries && cudnn_trouble().empty();
  do {
    plan_ = Planner(function, plan_options).run();
  } while (!make_libraries(plan_options));
}

bool CudaExecutable::make_libraries(PlanOptions& plan_options) {
  libraries_.clear();
  bool has_all = true;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    try {
      if (const auto* product = std::get_if<ProductStep>(&step.work)) {
        libraries_[s].product = std::make_unique<Product>(device_, *product, options_.tf32);
      } else if (const auto* convolution = std::get_if<ConvolutionStep>(&step.work)) {
        libraries_[s].convolution =
            std::make_unique<Convolution>(device_, *convolution, options_.tf32);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      log_debug(fmt::format("cuda: {}: {}", step.what, error.what()));
      if (!plan_options.unfused.insert(step.first).second) {
        plan_options.generated.insert(step.first);
      }
      has_all = false;
    }
  }
  return has_all;
}

void* CudaExecutable::address(const View& view, void* arena) const {
  const auto b = static_cast<std::size_t>(view.buffer);
  void* base = arena;
  if (plan_.buffers[b].place == Buffer::Place::kConstant) base = constants_.get();
  if (plan_.buffers[b].place == Buffer::Place::kLoading) base = loading_.get();
  return static_cast<std::byte*>(base) + plan_.offsets[b] + view.byte_offset();
}

void CudaExecutable::queue_step(std::size_t index, void* arena, void* workspace,
                                void* stream) const {
  const Step& step = plan_.steps[index];
  if (const auto* kernel = std::get_if<KernelStep>(&step.work)) {
    std::array<void*, kMostPointers> pointers = {};
    std::size_t i = 0;
    for (const View& view : kernel->reads) pointers[i++] = address(view, arena);
    for (const View& view : kernel->writes) pointers[i++] = address(view, arena);
    module_->launch(kernels_.at(kernel->kernel), step.what, kernel->grid, pointers.data(), stream);
    return;
  }
  try {
    libraries_.at(index).queue([&](const View& view) { return address(view, arena); }, workspace,
                               stream);
  } catch (const Error& error) {
    throw Error(error.code(), step.what + ": " + error.what());
  }
}

void CudaExecutable::queue_steps(bool once, void* arena, void* workspace, void* stream) const {
  const std::lock_guard lock(queue_mutex_);
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    if (plan_.steps[s].once == once) queue_step(s, arena, workspace, stream);
  }
}

void CudaExecutable::load_constants(void* stream) {
  MemoryPool& pool = MemoryPool::of(device_);
  constants_ = pool.allocate(plan_.constant_bytes, stream,
                             fmt::format("the weights of function '{}'", plan_.name));
  loading_ = pool.allocate(plan_.loading_bytes, stream,
                           fmt::format("loading the weights of function '{}'", plan_.name));
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    Buffer& buffer = plan_.buffers[b];
    if (!buffer.constant) continue;
    const bool stays = buffer.place == Buffer::Place::kConstant;
    auto* base = static_cast<std::byte*>(stays ? constants_.get() : loading_.get());
    copy_to_device(device_, base + plan_.offsets[b], buffer.constant->raw(),
                   buffer.constant->bytes(), stream);
  }
  std::size_t workspace = 0;
  for (const auto& [step, library] : libraries_) {
    if (plan_.steps[step].once) workspace = std::max(workspace, library.workspace_bytes());
  }
  const std::shared_ptr<void> scratch = pool.allocate(
      workspace, stream, fmt::format("loading the weights of function '{}'", plan_.name));
  // What makes constants of constants has no values in an arena.
  queue_steps(/*once=*/true, /*arena=*/nullptr, scratch.get(), stream);
  CudaDriver::get().synchronize(device_, stream);
  loading_.reset();
  for (Buffer& buffer : plan_.buffers) buffer.constant.reset();
}

// The fastest way of each product and convolution, in a row of runs as in a graph.
void CudaExecutable::measure_ways(const CompileOptions& options, void* stream) {
  if (!options_.measure) return;
  std::map<std::string, std::size_t> known;
  std::size_t workspace = 0;
  for (const auto& [step, library] : libraries_) {
    for (std::size_t way = 0; way < library.way_count(); ++way) {
      library.choose(way);
      workspace = std::max(workspace, library.workspace_bytes());
    }
    library.choose(0);
  }
  std::shared_ptr<void> arena;
  Event begin(device_, /*timed=*/true);
  Event end(device_, /*timed=*/true);
  std::size_t done = 0;
  for (const auto& entry : libraries_) {
    const std::size_t step = entry.first;
    const Library& library = entry.second;
    ++done;
    if (library.way_count() < 2 || plan_.steps[step].once) continue;
    const auto [choice, is_new] = known.try_emplace(description(plan_.steps[step]), 0);
    if (is_new) {
      if (!arena) {
        arena = MemoryPool::of(device_).allocate(
            plan_.arena_bytes + workspace, stream,
            fmt::format("timing the steps of function '{}'", plan_.name));
      }
      if (options.progress) {
        options.progress(
            "timing " + plan_.steps[step].what,
            0.5 + 0.5 * static_cast<double>(done) / static_cast<double>(libraries_.size()));
      }
      void* const scratch = static_cast<std::byte*>(arena.get()) + plan_.arena_bytes;
      float best = std::numeric_limits<float>::infinity();
      for (std::size_t way = 0; way < library.way_count(); ++way) {
        library.choose(way);
        try {
          constexpr int kRuns = 10;
          constexpr int kTurns = 3;
          queue_step(step, arena.get(), scratch, stream);
          CudaDriver::get().synchronize(device_, stream);
          const Graph runs(device_, stream, [&] {
            for (int i = 0; i < kRuns; ++i) queue_step(step, arena.get(), scratch, stream);
          });
          runs.launch(stream);
          float least = std::numeric_limits<float>::infinity();
          for (int turn = 0; turn < kTurns; ++turn) {
            begin.record(stream);
            runs.launch(stream);
            end.record(stream);
            end.synchronize();
            least = std::min(least, end.since(begin));
          }
          if (least < best) best = least, choice->second = way;
        } catch (const Error& error) {  // a way that is offered and does not run is none
          if (error.code() != ErrorCode::kUnsupported) throw;
          log_debug(fmt::format("cuda: {}", error.what()));
        }
      }
      log_debug(fmt::format("cuda: {}: way {} of {} takes {:.2f} µs", plan_.steps[step].what,
                            choice->second, library.way_count(), best * 100));
    }
    library.choose(choice->second);
  }
  CudaDriver::get().synchronize(device_, stream);
}

ExecutableInfo CudaExecutable::info() const {
  ExecutableInfo info;
  info.workspace_bytes = plan_.arena_bytes + workspace_bytes_;
  info.weight_bytes = plan_.constant_bytes;
  info.threads = 1;  // the caller waits, and nobody computes here
  info.device = {DeviceKind::kCuda, device_};
  info.follows_stream = true;
  std::size_t kernels = 0, products = 0, convolutions = 0;
  for (const Step& step : plan_.steps) {
    if (step.once) continue;
    kernels += std::holds_alternative<KernelStep>(step.work) ? 1 : 0;
    products += std::holds_alternative<ProductStep>(step.work) ? 1 : 0;
    convolutions += std::holds_alternative<ConvolutionStep>(step.work) ? 1 : 0;
  }
  info.remarks.push_back(
      fmt::format("{} generated kernels, {} products by cuBLASLt and {} "
                  "convolutions by cuDNN in {}",
                  kernels, products, convolutions, options_.graph ? "one CUDA graph" : "turn"));
  if (options_.use_libraries) {
    for (const std::string* trouble : {&cublas_trouble(), &cudnn_trouble()}) {
      if (!trouble->empty()) info.remarks.push_back(trouble->substr(0, trouble->find(". Tried")));
    }
  }
  return info;
}

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

void CudaExecutable::run(const RunArgs& args) const {
  const CudaDriver::Scope scope(CudaDriver::get(), device_);
  auto& own = static_cast<Context&>(*args.context());
  void* const stream = args.stream() != nullptr ? args.stream() : own.stream.get();
  void* const arena = own.arena.get();
  void* const workspace = static_cast<std::byte*>(arena) + plan_.arena_bytes;
  if (own.was_used && own.last_stream != stream) own.done.make_wait(stream);
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    const TensorView input = args.input(i);
    check_input(i, input);
    void* const to = address(plan_.inputs[i], arena);
    if (input.device().is_host()) {
      copy_to_device(device_, to, input.raw(), input.bytes(), stream);
    } else {
      copy_on_device(device_, to, input.raw(), input.bytes(), stream);
    }
  }
  if (own.graph) {
    own.graph->launch(stream);
  } else {
    queue_steps(/*once=*/false, arena, workspace, stream);
  }
  std::shared_ptr<Event> written;
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const View& output = plan_.outputs[i];
    const std::size_t bytes = static_cast<std::size_t>(output.count()) * bytes_of(output.dtype);
    const void* const from = address(output, arena);
    const TensorView given = args.output(i);
    if (given.defined() && !given.device().is_host()) {
      copy_on_device(device_, given.raw(), from, bytes, stream);
    } else if (!given.defined() && args.on_device(i)) {
      std::shared_ptr<void> memory = MemoryPool::of(device_).allocate(
          bytes, stream, fmt::format("result {} of function '{}'", i, plan_.name));
      void* const to = memory.get();
      copy_on_device(device_, to, from, bytes, stream);
      if (!written) written = std::make_shared<Event>(device_);
      args.give_output(i, output.dtype, output.dims, to,
                       std::make_shared<Result>(std::move(memory), written, device_),
                       {DeviceKind::kCuda, device_});
    } else {
      void* const to =
          given.defined() ? given.raw() : args.allocate_output(i, output.dtype, output.dims);
      copy_to_host(device_, to, from, bytes, stream);
    }
  }
  own.done.record(stream);
  own.was_used = true;
  own.last_stream = stream;
  if (written) written->record(stream);
  if (args.stream() == nullptr) own.stream.synchronize();
  if (own.graph == nullptr && options_.graph && plan_.steps.size() > 1) {
    // All code is loaded now, which recording must not do.
    own.done.synchronize();
    own.graph = std::make_unique<Graph>(device_, own.stream.get(), [&] {
      queue_steps(/*once=*/false, arena, workspace, own.stream.get());
    });
  }
}

}  // namespace xrt::cuda
