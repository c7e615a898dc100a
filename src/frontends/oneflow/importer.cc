// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "frontends/model_files.h"
#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/mlir.h"
#include "frontends/oneflow/variables.h"
#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"
#include "xrt/oneflow.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;
using oneflow::Job;
using oneflow::JobState;
using oneflow::Lowering;
using oneflow::Operation;

constexpr std::string_view kDialect = "oneflow.";

std::string_view kind_of(const Operation& op) {
  std::string_view name = op.name;
  if (name.starts_with(kDialect)) name.remove_prefix(kDialect.size());
  return name;
}

// Ops that the dialect has no definition for are "oneflow.user" with their name beside.
std::string kind_of_user(const Lowering& lowering, std::string_view kind) {
  return kind == "user" ? lowering.text("op_type_name", "user") : std::string(kind);
}

class JobImporter {
 public:
  JobImporter(Job job, const OneflowJobOptions& options)
      : job_(std::move(job)),
        options_(options),
        state_{result_.graph, job_, {}, {}, {}, {}, {}, {}} {}

  OneflowJob import() {
    result_.graph.set_name(job_.name.empty() ? "oneflow" : job_.name);
    result_.graph.opsets()[""] = kOnnxOpset;
    state_.values.resize(job_.values.size());
    state_.use_count.resize(job_.values.size());
    for (const Operation& op : job_.operations) {
      for (const std::int32_t value : op.operands) ++use_count(value);
    }
    for (const std::int32_t value : job_.returned) ++use_count(value);
    check_ops();
    const auto arguments = python_order(job_.arguments, "input");
    if (options_.phase != OneflowPhase::kWhole) split(arguments);
    add_inputs(arguments);
    if (backward()) add_saved_inputs();
    for (const Operation& op : job_.operations) lower(op);
    if (backward()) {
      add_gradients();
    } else {
      add_outputs();
      add_updates();
      add_saved_outputs();
    }
    result_.schedules = std::move(state_.schedules);
    infer_shapes(result_.graph);
    verify(result_.graph);
    return std::move(result_);
  }

 private:
  const Type& type(std::int32_t value) const {
    return job_.values[static_cast<std::size_t>(value)];
  }
  ValueId& value(std::int32_t value) { return state_.values[static_cast<std::size_t>(value)]; }
  std::int32_t& use_count(std::int32_t value) {
    return state_.use_count[static_cast<std::size_t>(value)];
  }

  // Where an argument or result stands in the Python function: the numbers in the name of the op
  // that stands for it, "_Graph_0_output.0.1_4". Empty where the name is another.
  static std::vector<std::int64_t> python_place(const Operation& op, std::string_view kind) {
    std::vector<std::int64_t> place;
    const auto name = op.attributes.find("op_name");
    if (name == op.attributes.end()) return place;
    const auto* text = std::get_if<std::string>(&name->second.value);
    if (text == nullptr) return place;
    const std::string mark = fmt::format("_{}.", kind);
    std::size_t at = text->rfind(mark);
    if (at == std::string::npos) return place;
    at += mark.size();
    const char* end = text->data() + text->size();
    for (const char* next = text->data() + at; next != end; ++next) {
      std::int64_t number = 0;
      const auto [stop, error] = std::from_chars(next, end, number);
      if (error != std::errc()) break;
      place.push_back(number);
      next = stop;
      if (next == end || *next != '.') break;
    }
    return place;
  }

  // The text lists arguments and results as the job was sorted, not as Python has them.
  std::vector<std::int32_t> python_order(std::vector<std::int32_t> values, std::string_view kind) {
    std::map<std::int32_t, std::vector<std::int64_t>> places;
    for (const Operation& op : job_.operations) {
      if (kind_of(op) != kind) continue;
      for (const std::int32_t value : kind == "input" ? op.operands : op.results) {
        if (auto place = python_place(op, kind); !place.empty()) places[value] = std::move(place);
      }
    }
    const bool all = std::all_of(values.begin(), values.end(),
                                 [&](std::int32_t value) { return places.contains(value); });
    if (all) {
      std::stable_sort(values.begin(), values.end(),
                       [&](std::int32_t a, std::int32_t b) { return places.at(a) < places.at(b); });
    }
    return values;
  }

  bool backward() const { return options_.phase == OneflowPhase::kBackward; }

  bool depends(std::int32_t value) const {
    return !depends_.empty() && depends_[static_cast<std::size_t>(value)];
  }

  // Marks what depends on the gradients, and finds the values that cross.
  void split(const std::vector<std::int32_t>& arguments) {
    if (options_.gradient_inputs > arguments.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the job has {} inputs, of which {} cannot be gradients",
                              arguments.size(), options_.gradient_inputs));
    }
    depends_.resize(job_.values.size());
    for (std::size_t i = arguments.size() - options_.gradient_inputs; i < arguments.size(); ++i) {
      depends_[static_cast<std::size_t>(arguments[i])] = true;
    }
    std::set<std::int32_t> crossing;
    std::vector<bool> everywhere(job_.values.size());  // inputs and variables need not cross
    for (const std::int32_t value : arguments) everywhere[static_cast<std::size_t>(value)] = true;
    for (const Operation& op : job_.operations) {
      const bool late = is_late(op);
      const std::string_view kind = kind_of(op);
      for (const std::int32_t value : op.results) {
        depends_[static_cast<std::size_t>(value)] = late;
        everywhere[static_cast<std::size_t>(value)] = kind == "variable" || kind == "input";
      }
      if (!late) continue;
      for (const std::int32_t value : op.operands) {
        if (!depends(value) && !everywhere[static_cast<std::size_t>(value)]) crossing.insert(value);
      }
    }
    crossing_.assign(crossing.begin(), crossing.end());
  }

  // Whether the operation is part of the backward part.
  bool is_late(const Operation& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](std::int32_t value) { return depends(value); });
  }

  void add_inputs(const std::vector<std::int32_t>& arguments) {
    for (const std::int32_t at : arguments) {
      if (options_.phase == OneflowPhase::kForward && depends(at)) continue;
      const ValueId id =
          result_.graph.add_input(fmt::format("input_{}", result_.inputs.size()), type(at));
      value(at) = id;
      result_.inputs.push_back(result_.graph.value(id).name);
    }
  }

  void add_saved_inputs() {
    for (const std::int32_t at : crossing_) {
      value(at) = result_.graph.add_input(fmt::format("saved_{}", result_.saved.size()), type(at));
      result_.saved.push_back(result_.graph.value(value(at)).name);
    }
  }

  void add_saved_outputs() {
    for (const std::int32_t at : crossing_) {
      add_output(value(at), fmt::format("saved_{}", result_.saved.size()));
      result_.saved.push_back(result_.graph.value(result_.graph.outputs().back()).name);
    }
  }

  void add_gradients() {
    for (const auto& [at, id] : gradients_) {
      const std::string& name = state_.variables.at(at);
      add_output(id, name + "/gradient");
      result_.gradients.emplace_back(name,
                                     result_.graph.value(result_.graph.outputs().back()).name);
    }
  }

  static bool is_structural(std::string_view kind) {
    return kind == "input" || kind == "output" || kind == "variable";
  }

  // Every op without a handler is named, not only the first.
  void check_ops() {
    std::map<std::string, std::pair<int, std::string>> missing;
    for (const Operation& op : job_.operations) {
      const Lowering lowering(state_, op);
      const std::string kind = kind_of_user(lowering, kind_of(op));
      if (is_structural(kind) || oneflow::registry().find(kind) != nullptr) continue;
      auto& [count, where] = missing[kind];
      if (count++ == 0) where = lowering.where();
    }
    if (missing.empty()) return;
    std::string text;
    for (const auto& [kind, entry] : missing) {
      text += fmt::format("{}{} ({} of them, the first is {})", text.empty() ? "" : "; ", kind,
                          entry.first, entry.second);
    }
    throw Error(ErrorCode::kUnsupported, "these ops of OneFlow have no counterpart here: " + text);
  }

  void lower(const Operation& op) {
    Lowering lowering(state_, op);
    const std::string kind = kind_of_user(lowering, kind_of(op));
    if (kind == "variable") return add_variable(op, lowering);
    if (options_.phase != OneflowPhase::kWhole && kind != "input" && is_late(op) != backward()) {
      return;
    }
    if (kind == "input") {
      // The gradients are no inputs of a forward part.
      if (value(op.operands.at(0)).valid()) lowering.result(0, lowering.in(0));
      return;
    }
    if (kind == "output") return lowering.result(0, lowering.in(0));
    if (backward() && kind.ends_with("_update") && lowering.is_variable(0)) {
      gradients_[op.operands.at(0)] = lowering.in(1);
      return;
    }
    (*oneflow::registry().find(kind))(lowering);
  }

  void add_variable(const Operation& op, const Lowering& lowering) {
    if (op.results.size() != 1) lowering.invalid("a variable has one result");
    const std::int32_t at = op.results.front();
    const std::string name = lowering.text("op_name", "");
    if (name.empty()) lowering.invalid("the variable has no op_name");
    if (!names_.insert(name).second) lowering.invalid("there is a second variable of this name");
    if (!type(at).is_static() || type(at).dtype == DType::kUndefined) {
      lowering.invalid("the variable's type is " + to_string(type(at)));
    }
    state_.variables.emplace(at, name);
    if (options_.variable) {
      if (use_count(at) == 0) return;  // a counter that inference does not read
      Tensor tensor = options_.variable(name, type(at));
      value(at) = result_.graph.add_constant(name, std::move(tensor));
      return;
    }
    const ValueId id = result_.graph.add_input(name, type(at));
    if (result_.graph.value(id).name != name) {
      lowering.invalid("the variable has the name of an input");
    }
    value(at) = id;
    result_.variables.push_back(name);
  }

  void add_output(ValueId id, const std::string& name) {
    Graph& graph = result_.graph;
    const Value& value = graph.value(id);
    if (value.origin != Origin::kNode || graph.is_output(id)) {
      id = graph.add_op("Identity", {id}, {}, name);
    } else if (!graph.find_value(name)) {
      graph.set_value_name(id, name);
    }
    graph.add_output(id);
  }

  void add_outputs() {
    const auto returned = python_order(job_.returned, "output");
    for (std::size_t i = 0; i < returned.size(); ++i) {
      const ValueId id = value(returned[i]);
      if (!id.valid()) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("output {} of the job comes from a result that was left out", i));
      }
      add_output(id, fmt::format("output_{}", i));
    }
  }

  void add_updates() {
    if (options_.variable) return;  // constants stay what they are
    for (const auto& [at, id] : state_.updates) {
      const std::string& name = state_.variables.at(at);
      add_output(id, name + "/next");
      result_.aliases.emplace_back(name, result_.graph.value(result_.graph.outputs().back()).name);
    }
  }

  const Job job_;
  const OneflowJobOptions& options_;
  OneflowJob result_{Graph("oneflow"), {}, {}, {}, {}, {}, {}};
  JobState state_;
  std::set<std::string> names_;
  std::vector<bool> depends_;                  // by value of the job: on the gradients
  std::vector<std::int32_t> crossing_;         // values of the job
  std::map<std::int32_t, ValueId> gradients_;  // by value of the job that is a variable
};

template <typename Import>
auto guarded(const std::string& name, Import import) {
  try {
    return import();
  } catch (const Error& e) {
    throw Error(e.code(), name + ": " + e.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResource, name + ": out of memory");
  } catch (const std::length_error&) {
    throw Error(ErrorCode::kResource, name + ": out of memory");
  }
}

OneflowJob import_text(std::string_view text, const OneflowJobOptions& options) {
  return JobImporter(oneflow::parse_job(text), options).import();
}

}  // namespace

bool is_oneflow_model(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".mlir" || fs::is_directory(path, error);
}

Graph import_oneflow(const fs::path& path) {
  std::vector<ExternalFile> files;
  return import_oneflow(path, files);
}

Graph import_oneflow(const fs::path& path, std::vector<ExternalFile>& external) {
  const fs::path file = model_file(path);
  return guarded("'" + file.string() + "'", [&] {
    std::error_code error;
    if (fs::is_directory(path, error) && !fs::exists(file, error)) {
      throw Error(ErrorCode::kNotFound,
                  "there is no such file; a folder is read as what oneflow.save(graph, folder) "
                  "writes");
    }
    const auto text = MappedFile::open(file);
    oneflow::VariableFiles variables(file.parent_path());
    OneflowJobOptions options;
    options.variable = [&](const std::string& name, const Type& type) {
      return variables.load(name, type);
    };
    OneflowJob job =
        import_text({reinterpret_cast<const char*>(text->data()), text->size()}, options);
    for (ExternalFile& mapped : variables.take_files()) external.push_back(std::move(mapped));
    return std::move(job.graph);
  });
}

OneflowJob import_oneflow_job(std::string_view text, const OneflowJobOptions& options) {
  return guarded("OneFlow job", [&] { return import_text(text, options); });
}

std::vector<std::string> oneflow_ops() { return oneflow::registry().ops(); }

}  // namespace xrt
