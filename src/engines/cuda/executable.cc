// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <limits>
#include <thread>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engine/host.h"
#include "engines/cuda/attention.h"
#include "engines/cuda/integers.h"
#include "engines/cuda/kernel_choice.h"
#include "engines/cuda/planner.h"
#include "engines/cuda/training.h"
#include "ir/flat.h"
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
  } else if (const auto* kernel = std::get_if<KernelStep>(&step.work);
             kernel != nullptr && !kernel->others.empty()) {
    text = kernel->kernel + (kernel->library ? " or a library " : " ");
    for (const View& view : kernel->reads) add(view);
    for (const View& view : kernel->writes) add(view);
  } else if (const auto* convolution = std::get_if<ConvolutionStep>(&step.work)) {
    for (const View* view : {&convolution->x, &convolution->w, &convolution->y}) add(*view);
    text +=
        fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(convolution->result),
                    fmt::join(convolution->strides, ","), fmt::join(convolution->dilations, ","),
                    fmt::join(convolution->pads_begin, ","), fmt::join(convolution->pads_end, ","),
                    convolution->bias.has_value(), convolution->residual.has_value(),
                    static_cast<int>(convolution->activation));
  } else if (const auto* attention = std::get_if<AttentionStep>(&step.work)) {
    for (const View* view : {&attention->q, &attention->k, &attention->v, &attention->o}) {
      add(*view);
    }
    if (attention->mask) add(*attention->mask);
    text += fmt::format("{} {}", attention->scale, attention->causal);
  }
  return text;
}

// Modules of the plan's kernels, which take turns; compiled at the same time.
std::vector<std::string> compiled(const Plan& plan, int capability) {
  constexpr std::size_t kKernels = 6;  // of a module at least
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 12);
  const std::size_t count = std::min(threads, (plan.kernel_codes.size() + kKernels - 1) / kKernels);
  std::vector<std::future<std::string>> modules;
  for (std::size_t m = 0; m < count; ++m) {
    std::string source = plan.definitions;
    for (std::size_t k = m; k < plan.kernel_codes.size(); k += count) {
      source += plan.kernel_codes[k];
    }
    modules.push_back(std::async(std::launch::async, [source = std::move(source), capability] {
      return compile(source, capability);
    }));
  }
  std::vector<std::string> codes;
  codes.reserve(count);
  for (auto& module : modules) codes.push_back(module.get());
  return codes;
}

// Memory of constants, by what lies in it: functions of one model for several sizes share it.
class SharedConstants {
 public:
  static SharedConstants& get() {
    static auto* const all = new SharedConstants();  // as long as the process
    return *all;
  }
  std::shared_ptr<void> find(int device, const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find({device, key});
    return found == blocks_.end() ? nullptr : found->second.lock();
  }
  void keep(int device, const std::string& key, const std::shared_ptr<void>& block) {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [](const auto& entry) { return entry.second.expired(); });
    blocks_[{device, key}] = block;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::weak_ptr<void>> blocks_;
};

}  // namespace

CudaExecutable::CudaExecutable(const Function& function, int device, const CompileOptions& options,
                               const ExecutableOptions& own)
    : device_(device), options_(own) {
  const CudaDriver::Scope scope(CudaDriver::get(), device);
  make_plan(function);
  if (options.progress) options.progress("compiling kernels", 0.2);
  compiled_.codes = compiled(plan_, device_facts(device).capability);
  load_code();
  const Stream stream(device);
  if (options.progress) options.progress("loading weights", 0.4);
  load_constants(stream.get());
  measure_ways(options, stream.get());
  choose_alike();
  find_workspace();
  MemoryPool::of(device_).trim();  // of what only compiling took
}

CudaExecutable::CudaExecutable(const Function& function, int device, const ExecutableOptions& own,
                               const Tensor& blob)
    : device_(device), options_(own) {
  const CudaDriver::Scope scope(CudaDriver::get(), device);
  FlatReader reader(blob);
  const std::string made_for = reader.text();
  for (std::int64_t left = reader.number(); left > 0; --left) {
    compiled_.codes.push_back(reader.text());
  }
  for (std::set<std::string>* names : {&compiled_.generated, &compiled_.unfused}) {
    for (std::int64_t left = reader.number(); left > 0; --left) names->insert(reader.text());
  }
  for (std::int64_t left = reader.number(); left > 0; --left) {
    const auto step = static_cast<std::size_t>(reader.number());
    compiled_.ways[step] = reader.text();
  }
  reader.end();
  plan_once(function);
  if (made_for != key()) {
    throw Error(ErrorCode::kEngine, "cuda: these bytes are of another function or another device");
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const auto way = compiled_.ways.find(s);
    const std::string_view saved =
        way == compiled_.ways.end() ? std::string_view() : std::string_view(way->second);
    auto computation = make_computation_of(s, saved);
    if (computation) computations_[s] = std::move(computation);
  }
  load_code();
  const Stream stream(device);
  load_constants(stream.get());
  find_workspace();
}

CudaExecutable::~CudaExecutable() = default;

std::optional<std::string> CudaExecutable::serialize() const {
  FlatWriter writer;
  writer.text(key()).number(static_cast<std::int64_t>(compiled_.codes.size()));
  for (const std::string& code : compiled_.codes) writer.text(code);
  for (const std::set<std::string>* names : {&compiled_.generated, &compiled_.unfused}) {
    writer.number(static_cast<std::int64_t>(names->size()));
    for (const std::string& name : *names) writer.text(name);
  }
  writer.number(static_cast<std::int64_t>(computations_.size()));
  {
    const std::lock_guard lock(queue_mutex_);
    for (const auto& [step, computation] : computations_) {
      writer.number(static_cast<std::int64_t>(step)).text(computation->save());
    }
  }
  std::string bytes;
  for (const std::string_view piece : writer.finish()) bytes += piece;
  return bytes;
}

// Of what the saved code and ways hold for.
std::string CudaExecutable::key() const {
  const DeviceFacts facts = device_facts(device_);
  Hasher hasher;
  hasher.add(std::int64_t{facts.capability}).add(std::int64_t{facts.processors});
  hasher.add(source_of(plan_));
  for (const Step& step : plan_.steps) hasher.add(description(step));
  return hasher.digest().hex();
}

PlanOptions CudaExecutable::plan_options() const {
  return {.has_cublas = options_.use_libraries && cublas_trouble().empty(),
          .has_cudnn = options_.use_libraries && cudnn_trouble().empty(),
          .capability = device_facts(device_).capability,
          .generated = compiled_.generated,
          .unfused = compiled_.unfused};
}

void CudaExecutable::plan_once(const Function& given) {
  xrt::Graph graph = graph_of(given.graph);
  const PlanOptions options = plan_options();
  expand_attention(graph);
  expand_training(graph);
  write_out_quantised(graph);
  fuse_quantised(graph);
  if (options.has_cudnn) {
    fuse_attention(graph, options.unfused);
    join_projections(graph);
  }
  narrow_attention(graph);
  remove_unread(graph);
  fold_scales(graph);
  graph.compact();
  plan_ = Planner({given.name, view_of(graph), given.aliases, {}}, options).run();
  if (log_debug_enabled()) {
    log_debug(fmt::format("cuda: function '{}':\n{}", given.name, source_of(plan_)));
  }
  if (options_.source_dir.empty()) return;
  std::filesystem::create_directories(options_.source_dir);
  write_file_atomic(std::filesystem::path(options_.source_dir) / (given.name + ".cu"),
                    source_of(plan_));
}

// Where a library has no way to compute a step, the function is planned again without.
void CudaExecutable::make_plan(const Function& given) {
  do {
    plan_once(given);
  } while (!make_computations());
}

std::unique_ptr<Computation> CudaExecutable::make_computation_of(std::size_t step,
                                                                 std::string_view saved) {
  const auto* kernel = std::get_if<KernelStep>(&plan_.steps[step].work);
  if (kernel != nullptr && !kernel->others.empty()) {
    const Step& own = plan_.steps[step];
    return make_kernel_choice(
        {device_, options_.tf32}, own,
        [this, &own](const std::string& name, const Grid& grid, const Addresses& addresses,
                     void* stream) { launch(own, name, grid, addresses, stream); },
        saved);
  }
  return make_computation({device_, options_.tf32}, plan_.steps[step], saved);
}

bool CudaExecutable::make_computations() {
  computations_.clear();
  alike_.clear();
  bool has_all = true;
  std::map<std::string, std::size_t> known;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    const std::string text = description(step);
    if (!step.once && !text.empty()) {
      const auto [first, is_new] = known.try_emplace(text, s);
      if (!is_new) {
        alike_[s] = first->second;
        continue;
      }
    }
    try {
      if (auto computation = make_computation_of(s, {})) {
        computations_[s] = std::move(computation);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      log_debug(fmt::format("cuda: {}: {}", step.what, error.what()));
      known.erase(text);  // those alike are refused, too
      if (!compiled_.unfused.insert(step.first).second) compiled_.generated.insert(step.first);
      has_all = false;
    }
  }
  return has_all;
}

void CudaExecutable::load_code() {
  if (compiled_.codes.empty()) return;
  for (const std::string& code : compiled_.codes) {
    modules_.push_back(std::make_unique<Module>(device_, code));
  }
  std::map<std::string, const Module*> module_of;
  for (std::size_t k = 0; k < plan_.kernel_codes.size(); ++k) {
    module_of[kernel_name(k)] = modules_[k % modules_.size()].get();
  }
  for (const Step& step : plan_.steps) {
    const auto* kernel = std::get_if<KernelStep>(&step.work);
    if (kernel == nullptr) continue;
    const auto find = [&](const std::string& name, const Grid& grid) {
      if (!kernels_.contains(name)) kernels_[name] = module_of.at(name)->kernel(name, grid.shared);
    };
    find(kernel->kernel, kernel->grid);
    for (const KernelStep::Way& other : kernel->others) find(other.kernel, other.grid);
  }
}

void CudaExecutable::launch(const Step& step, const std::string& name, const Grid& grid,
                            const Addresses& addresses, void* stream) const {
  const auto& kernel = std::get<KernelStep>(step.work);
  std::array<void*, kMostPointers> pointers = {};
  std::size_t i = 0;
  for (const View& view : kernel.reads) pointers[i++] = addresses(view);
  for (const View& view : kernel.writes) pointers[i++] = addresses(view);
  modules_.front()->launch(kernels_.at(name), step.what, grid, pointers.data(), stream);
}

void CudaExecutable::find_workspace() {
  for (const auto& [step, computation] : computations_) {
    if (plan_.steps[step].once) continue;
    workspace_bytes_ = std::max(workspace_bytes_, rounded_up(computation->workspace_bytes()));
  }
}

void* CudaExecutable::address(const View& view, void* arena, const Border* border) const {
  const auto b = static_cast<std::size_t>(view.buffer);
  void* base = arena;
  if (plan_.buffers[b].direct) {
    base = static_cast<std::byte*>(arena) + plan_.arena_bytes;
    if (border != nullptr) {
      const bool is_input = plan_.buffers[b].place == Buffer::Place::kInput;
      const std::vector<void*>& all = is_input ? border->inputs : border->results;
      return static_cast<std::byte*>(all[plan_.buffers[b].index]) + view.byte_offset();
    }
  }
  if (plan_.buffers[b].place == Buffer::Place::kConstant) base = constants_.get();
  if (plan_.buffers[b].place == Buffer::Place::kLoading) base = loading_.get();
  return static_cast<std::byte*>(base) + plan_.offsets[b] + view.byte_offset();
}

void CudaExecutable::queue_step(std::size_t index, void* arena, void* workspace, void* stream,
                                const Border* border) const {
  const Step& step = plan_.steps[index];
  const auto addresses = [&](const View& view) { return address(view, arena, border); };
  const auto computation = computations_.find(index);
  if (computation == computations_.end()) {
    const auto& kernel = std::get<KernelStep>(step.work);
    launch(step, kernel.kernel, kernel.grid, addresses, stream);
    return;
  }
  try {
    computation->second->queue(addresses, workspace, stream);
  } catch (const Error& error) {
    throw Error(error.code(), step.what + ": " + error.what());
  }
}

void CudaExecutable::queue_steps(Which which, void* arena, void* workspace, void* stream,
                                 const Border* border) const {
  const std::lock_guard lock(queue_mutex_);
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    Which own = step.once ? Which::kOnce : Which::kRecorded;
    if (step.direct) own = Which::kDirect;
    if (own == which) queue_step(s, arena, workspace, stream, border);
  }
}

// Of what lies in the memory of constants: those that are given, and how others are made of them.
std::string CudaExecutable::key_of_constants() const {
  Hasher hasher;
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (!buffer.constant) continue;
    const Digest content = hash_large(buffer.constant->raw(), buffer.constant->bytes(), 1);
    hasher.add(static_cast<std::int64_t>(buffer.place));
    hasher.add(static_cast<std::int64_t>(plan_.offsets[b])).add(content.hex());
  }
  const auto add = [&](const View& view) {
    const auto b = static_cast<std::size_t>(view.buffer);
    hasher.add(static_cast<std::int64_t>(plan_.buffers[b].place));
    hasher.add(static_cast<std::int64_t>(plan_.offsets[b] + view.byte_offset()));
  };
  for (const Step& step : plan_.steps) {
    if (!step.once) continue;
    hasher.add(description(step));
    if (const auto* kernel = std::get_if<KernelStep>(&step.work)) {
      hasher.add(plan_.kernels.at(kernel->kernel));
      for (const View& view : kernel->reads) add(view);
      for (const View& view : kernel->writes) add(view);
    }
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const int buffer : *list) {
        hasher.add(static_cast<std::int64_t>(plan_.offsets[static_cast<std::size_t>(buffer)]));
      }
    }
  }
  return hasher.digest().hex();
}

void CudaExecutable::load_constants(void* stream) {
  const std::string key = key_of_constants();
  constants_ = SharedConstants::get().find(device_, key);
  if (constants_ == nullptr) {
    make_constants(stream);
    SharedConstants::get().keep(device_, key, constants_);
  }
  for (Buffer& buffer : plan_.buffers) buffer.constant.reset();
}

void CudaExecutable::make_constants(void* stream) {
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
  for (const auto& [step, computation] : computations_) {
    if (plan_.steps[step].once) workspace = std::max(workspace, computation->workspace_bytes());
  }
  const std::shared_ptr<void> scratch = pool.allocate(
      workspace, stream, fmt::format("loading the weights of function '{}'", plan_.name));
  // What makes constants of constants has no values in an arena.
  queue_steps(Which::kOnce, /*arena=*/nullptr, scratch.get(), stream);
  CudaDriver::get().synchronize(device_, stream);
  loading_.reset();
}

void CudaExecutable::choose_alike() {
  for (const auto& [step, first] : alike_) {
    const auto chosen = computations_.find(first);
    if (chosen == computations_.end()) continue;  // a kernel without a choice
    computations_[step] = make_computation_of(step, chosen->second->save());
  }
}

// The fastest way of each product and convolution, in a row of runs as in a graph.
void CudaExecutable::measure_ways(const CompileOptions& options, void* stream) {
  if (!options_.measure) return;
  std::size_t workspace = 0;
  for (const auto& [step, computation] : computations_) {
    for (std::size_t way = 0; way < computation->way_count(); ++way) {
      workspace = std::max(workspace, computation->workspace_bytes(way));
    }
  }
  std::shared_ptr<void> arena;
  Event begin(device_, /*timed=*/true);
  Event end(device_, /*timed=*/true);
  std::size_t done = 0;
  for (const auto& entry : computations_) {
    const std::size_t step = entry.first;
    Computation& computation = *entry.second;
    ++done;
    if (computation.way_count() < 2 || plan_.steps[step].once) continue;
    if (!arena) {
      arena = MemoryPool::of(device_).allocate(
          plan_.arena_bytes + plan_.direct_bytes + workspace, stream,
          fmt::format("timing the steps of function '{}'", plan_.name));
    }
    if (options.progress) {
      options.progress(
          "timing " + plan_.steps[step].what,
          0.5 + 0.5 * static_cast<double>(done) / static_cast<double>(computations_.size()));
    }
    void* const scratch =
        static_cast<std::byte*>(arena.get()) + plan_.arena_bytes + plan_.direct_bytes;
    float best = std::numeric_limits<float>::infinity();
    std::size_t choice = 0;
    for (std::size_t way = 0; way < computation.way_count(); ++way) {
      computation.choose(way);
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
        log_debug(fmt::format("cuda: way {}: {:.2f} µs", way, least * 100));
        if (least < best) best = least, choice = way;
      } catch (const Error& error) {  // a way that is offered and does not run is none
        if (error.code() != ErrorCode::kUnsupported) throw;
        log_debug(fmt::format("cuda: {}", error.what()));
      }
    }
    log_debug(fmt::format("cuda: {}: way {} of {} takes {:.2f} µs", plan_.steps[step].what, choice,
                          computation.way_count(), best * 100));
    computation.choose(choice);
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
  std::size_t kernels = 0, products = 0, convolutions = 0, attentions = 0;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    if (step.once) continue;
    const auto computation = computations_.find(s);
    const bool is_generated =
        computation == computations_.end() || computation->second->is_generated();
    kernels += is_generated ? 1 : 0;
    if (is_generated) continue;
    products += std::holds_alternative<ProductStep>(step.work) ? 1 : 0;
    attentions += std::holds_alternative<AttentionStep>(step.work) ? 1 : 0;
    const bool is_of_bytes = std::holds_alternative<KernelStep>(step.work);
    convolutions += is_of_bytes || std::holds_alternative<ConvolutionStep>(step.work) ? 1 : 0;
  }
  info.remarks.push_back(fmt::format(
      "{} generated kernels, {} products by cuBLASLt, {} convolutions and {} "
      "attentions by cuDNN in {}",
      kernels, products, convolutions, attentions, options_.graph ? "one CUDA graph" : "turn"));
  if (options_.use_libraries) {
    for (const std::string* trouble : {&cublas_trouble(), &cudnn_trouble()}) {
      if (!trouble->empty()) info.remarks.push_back(trouble->substr(0, trouble->find(". Tried")));
    }
  }
  return info;
}

}  // namespace xrt::cuda
