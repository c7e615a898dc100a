// SPDX-License-Identifier: Apache-2.0
#include "exec/stand_in.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "exec/body.h"
#include "registry/engine_names.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Where the caller of a function wants its result.
void deliver(Data& made, Data& wanted) {
  if (!wanted.is_tensor()) {
    wanted = std::move(made);
    return;
  }
  const Tensor& from = std::as_const(made).tensor();
  Tensor& to = wanted.tensor();
  if (from.dtype() != to.dtype() || from.dims() != to.dims()) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("an output was to be {}{} and turned out {}{}", to_string(to.dtype()),
                            to_string(to.dims()), to_string(from.dtype()), to_string(from.dims())));
  }
  if (from.raw() != to.raw()) copy_elements(from, to);
}

}  // namespace

StandIn::StandIn(std::shared_ptr<const Graph> function, std::string name, std::string scope,
                 std::string engine, std::shared_ptr<const ProgramOptions> options)
    : function_(std::move(function)),
      name_(std::move(name)),
      scope_(std::move(scope)),
      engine_(std::move(engine)),
      options_(std::move(options)) {}

StandIn::~StandIn() = default;

bool StandIn::is_named() const {
  const OptionNames& named = options_->engines;
  return std::any_of(named.begin(), named.end(),
                     [](const auto& name) { return name == kFallbackEngine || name == "auto"; });
}

Body& StandIn::body() {
  const std::lock_guard lock(mutex_);
  if (body_ == nullptr) {
    ProgramOptions options = *options_;
    options.engines = {std::string(kFallbackEngine)};
    options.node_engines.clear();  // of nodes that the engine was to have
    options.aliases.clear();
    body_ = std::make_unique<Body>(*function_, name_, scope_, std::move(options));
  }
  return *body_;
}

void StandIn::run(std::span<const Data> inputs, std::span<Data> outputs, const std::string& unfit,
                  Profiler& profiler, RunRecord* record) {
  if (options_->strict && !is_named()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("function '{}': the engine '{}' is not given such inputs ({}), and no "
                            "other one is listed",
                            name_, engine_, unfit));
  }
  if (runs_.fetch_add(1, std::memory_order_relaxed) == 0) {
    const std::lock_guard lock(mutex_);
    first_unfit_ = unfit;
    const std::string text = fmt::format("function '{}' of '{}' runs on '{}': {}", name_, engine_,
                                         kFallbackEngine, unfit);
    // Nothing that a user gave to one engine goes to another in silence.
    is_named() ? log_info(text) : log_warning(text);
  }
  std::vector<Data> made(outputs.begin(), outputs.end());
  BodyRun(body(), profiler, record)(inputs, made);
  for (std::size_t i = 0; i < outputs.size(); ++i) deliver(made[i], outputs[i]);
}

std::string StandIn::note() const {
  const std::int64_t runs = runs_.load(std::memory_order_relaxed);
  if (runs == 0) return {};
  const std::lock_guard lock(mutex_);
  return fmt::format("{}: ran {} times on '{}', first because of {}", name_, runs, kFallbackEngine,
                     first_unfit_);
}

}  // namespace xrt
