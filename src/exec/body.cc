// SPDX-License-Identifier: Apache-2.0
#include "exec/body.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/log.h"
#include "exec/native_evaluator.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "placement/decision.h"
#include "placement/survey.h"
#include "registry/engine_names.h"

namespace xrt {
namespace {

// Sets of shapes that a body is compiled for before the dimensions that change are left open.
constexpr std::size_t kMaxFixedShapes = 4;

bool fits_dims(const Dims& wanted, const Dims& given) {
  if (wanted.size() != given.size()) return false;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] >= 0 && wanted[d] != given[d]) return false;
  }
  return true;
}

}  // namespace

Body::Body(Graph graph, std::string name, const std::string& scope, ProgramOptions options)
    : graph_(std::move(graph)),
      name_(std::move(name)),
      scope_(scope + name_ + "/"),
      options_(std::move(options)) {
  Signature signature;
  for (const ValueId v : graph_.inputs()) {
    const Type& type = graph_.type(v);
    signature.emplace_back();
    if (!type.is_tensor()) continue;
    if (!type.is_static()) return;  // planned when the shapes are there
    signature.back() = {type.dtype, *type.static_dims()};
  }
  try {
    variants_.push_back(build(std::move(signature)));
  } catch (const Error& error) {
    // A branch is there for other inputs than these, maybe: an error if it is ever taken.
    if (error.code() != ErrorCode::kInvalidModel) throw;
    log_info("'" + name_ + "' is not planned before it runs: " + error.what());
  }
}

bool Body::Variant::fits(std::span<const Data> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputKind& kind = signature[i];
    if (inputs[i].is_tensor() != (kind.dtype != DType::kUndefined)) return false;
    if (kind.dtype == DType::kUndefined) continue;
    const Tensor& tensor = inputs[i].tensor();
    if (tensor.dtype() != kind.dtype || !fits_dims(kind.dims, tensor.dims())) return false;
  }
  return true;
}

void Body::check_inputs(std::span<const Data> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = input_type(i);
    const bool is_right = type.kind == Type::Kind::kOptional ||
                          (type.is_tensor() ? inputs[i].is_tensor() : inputs[i].is_sequence());
    const DType given = inputs[i].is_tensor() ? inputs[i].tensor().dtype() : DType::kUndefined;
    if (is_right && (!type.is_tensor() || type.dtype == given)) continue;
    const char* kind = inputs[i].is_none() ? "nothing" : "a sequence";
    throw Error(
        ErrorCode::kInvalidModel,
        "'" + name_ + "': input '" + graph_.value(graph_.inputs()[i]).name + "' is " +
            to_string(type) + "; it is given " +
            (given == DType::kUndefined ? kind : "a tensor of " + std::string(to_string(given))));
  }
}

Body::Signature Body::signature_of(std::span<const Data> inputs) {
  Signature signature(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    signature[i] = {inputs[i].tensor().dtype(), inputs[i].tensor().dims()};
  }
  return signature;
}

Body::Signature Body::common_signature(std::span<const Data> inputs) const {
  Signature common = signature_of(inputs);
  for (const auto& variant : variants_) {
    for (std::size_t i = 0; i < common.size(); ++i) {
      const Dims& other = variant->signature[i].dims;
      Dims& dims = common[i].dims;
      if (other.size() != dims.size()) continue;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (other[d] != dims[d]) dims[d] = kAny;
      }
    }
  }
  return common;
}

std::shared_ptr<const Body::Variant> Body::find_variant(std::span<const Data> inputs) {
  const std::lock_guard lock(mutex_);
  for (auto it = variants_.begin(); it != variants_.end(); ++it) {
    if (!(*it)->fits(inputs)) continue;
    variants_.splice(variants_.begin(), variants_, it);
    return variants_.front();
  }
  return nullptr;
}

std::shared_ptr<const Body::Variant> Body::variant_for(std::span<const Data> inputs) {
  check_inputs(inputs);
  if (auto found = find_variant(inputs)) return found;
  // Who comes second may want the same one.
  const std::lock_guard turn(turn_.get());
  if (auto found = find_variant(inputs)) return found;
  const auto most = static_cast<std::size_t>(options_.max_specializations);
  std::shared_ptr<const Variant> made;
  if (variants_.size() >= std::min(kMaxFixedShapes, most)) {
    try {
      made = build(common_signature(inputs));
    } catch (const Error& error) {
      // With `strict` and engines that need static shapes, each set is compiled for.
      if (error.code() != ErrorCode::kUnsupported) throw;
      log_debug("'" + name_ + "' with open dimensions: " + error.what());
    }
  }
  if (made == nullptr) made = build(signature_of(inputs));
  std::list<std::shared_ptr<const Variant>> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  variants_.push_front(made);
  if (variants_.size() > most) gone.splice(gone.end(), variants_, --variants_.end());
  return made;
}

std::shared_ptr<const Body::Variant> Body::build(Signature signature) const {
  try {
    auto variant = std::make_shared<Variant>();
    variant->plan = plan_for(signature);
    variant->signature = std::move(signature);
    return variant;
  } catch (const Error& error) {
    throw Error(error.code(), "in '" + name_ + "': " + error.what());
  }
}

std::shared_ptr<Executor> Body::plan_for(const Signature& signature) const {
  Graph graph = graph_;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const Type& type = input_type(i);
    if (signature[i].dtype == DType::kUndefined || !type.is_tensor()) continue;
    Shape shape;
    for (const std::int64_t size : signature[i].dims) shape.push_back(size < 0 ? Dim() : Dim(size));
    graph.set_type(graph.inputs()[i], Type::tensor(type.dtype, std::move(shape)));
  }
  infer_shapes(graph, /*reset=*/true);
  PassOptions pass_options;
  pass_options.evaluate = native_evaluator(options_.max_memory_bytes);
  pass_options.dump_dir = options_.dump_dir;
  run_passes(graph, pass_options);
  Survey survey(graph, options_);
  return Executor::build(survey, named(options_), scope_);
}

void Body::explain(const std::vector<std::string>& input_names, Explanation& to) const {
  std::shared_ptr<Executor> plan;
  {
    const std::lock_guard lock(mutex_);
    if (!variants_.empty()) plan = variants_.front()->plan;
  }
  if (plan == nullptr) {  // as a program does: for the declared shapes, while none has run
    Signature declared(graph_.inputs().size());
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const Type& type = input_type(i);
      if (!type.has_rank()) continue;
      declared[i].dtype = type.dtype;
      for (const Dim& dim : *type.shape) declared[i].dims.push_back(dim.value());
    }
    try {
      plan = plan_for(declared);
    } catch (const Error& error) {
      to.notes.push_back("'" + name_ + "' is planned when its shapes are known: " + error.what());
      return;
    }
  }
  std::map<std::string, std::string> known;
  for (std::size_t i = 0; i < input_names.size(); ++i) {
    if (!input_names[i].empty()) {
      known[graph_.value(graph_.inputs()[i]).name] = input_names[i];
    }
  }
  const auto rename = [&](std::vector<std::string>& values) {
    for (std::string& value : values) {
      if (value.empty()) continue;
      const auto it = known.find(value);
      value = it != known.end() ? it->second : name_ + "/" + value;
    }
  };
  Explanation own = plan->explain();
  for (Explanation::NodeRow& row : own.nodes) {
    row.name = name_ + "/" + row.name;
    row.function = name_ + "/" + row.function;
    rename(row.inputs);
    rename(row.outputs);
    to.nodes.push_back(std::move(row));
  }
  for (Explanation::LaunchRow& row : own.launches) {
    row.function = name_ + "/" + row.function;
    rename(row.reads);
    rename(row.writes);
    to.launches.push_back(std::move(row));
  }
  for (const auto& [engine, count] : own.nodes_per_engine) to.nodes_per_engine[engine] += count;
  for (std::string& note : own.notes) {
    if (std::find(to.notes.begin(), to.notes.end(), note) == to.notes.end()) {
      to.notes.push_back(std::move(note));
    }
  }
  to.arena_bytes += own.arena_bytes;
}

std::size_t Body::workspace_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& variant : variants_) bytes = std::max(bytes, variant->plan->workspace_bytes());
  return bytes;
}

bool Body::has_checked_functions() const {
  const std::lock_guard lock(mutex_);
  if (variants_.empty()) return options_.engines != OptionNames{kFallbackEngine};
  return std::any_of(variants_.begin(), variants_.end(),
                     [](const auto& variant) { return variant->plan->has_checked_functions(); });
}

void BodyRun::operator()(std::span<const Data> inputs, std::span<Data> outputs) {
  if (variant_ == nullptr || !variant_->fits(inputs)) variant_ = body_.variant_for(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_tensor()) continue;
    const Dims* dims = variant_->plan->output_dims(i);
    if (dims == nullptr || *dims != std::as_const(outputs[i]).tensor().dims()) outputs[i] = Data{};
  }
  variant_->plan->run(inputs, outputs, profiler_, /*device_results=*/false, record_);
}

}  // namespace xrt
