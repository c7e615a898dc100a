// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "frontends/model_files.h"
#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/mlir.h"
#include "frontends/oneflow/variables.h"
#include "ir/shape_inference.h"
#include "ir/verifier.h"
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
    add_inputs();
    for (const Operation& op : job_.operations) lower(op);
    add_outputs();
    add_updates();
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

  // The text lists arguments and results as the job was sorted; in the order of the Python
  // function, OneFlow numbered the ops that stand for them: "_Graph_0_output.0.1_4".
  std::vector<std::int32_t> python_order(std::vector<std::int32_t> values, std::string_view kind) {
    std::map<std::int32_t, std::int64_t> numbers;
    for (const Operation& op : job_.operations) {
      if (kind_of(op) != kind) continue;
      const auto name = op.attributes.find("op_name");
      if (name == op.attributes.end()) continue;
      const auto* text = std::get_if<std::string>(&name->second.value);
      const std::size_t at = text == nullptr ? std::string::npos : text->rfind('_');
      if (at == std::string::npos) continue;
      std::int64_t number = 0;
      const char* end = text->data() + text->size();
      if (std::from_chars(text->data() + at + 1, end, number).ptr != end) continue;
      for (const std::int32_t value : kind == "input" ? op.operands : op.results) {
        numbers[value] = number;
      }
    }
    const bool all = std::all_of(values.begin(), values.end(),
                                 [&](std::int32_t value) { return numbers.contains(value); });
    if (all) {
      std::stable_sort(values.begin(), values.end(), [&](std::int32_t a, std::int32_t b) {
        return numbers.at(a) < numbers.at(b);
      });
    }
    return values;
  }

  void add_inputs() {
    for (const std::int32_t at : python_order(job_.arguments, "input")) {
      const ValueId id =
          result_.graph.add_input(fmt::format("input_{}", result_.inputs.size()), type(at));
      value(at) = id;
      result_.inputs.push_back(result_.graph.value(id).name);
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
    if (kind == "input" || kind == "output") return lowering.result(0, lowering.in(0));
    oneflow::registry().find(kind)(lowering);
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
  OneflowJob result_{Graph("oneflow"), {}, {}, {}, {}};
  JobState state_;
  std::set<std::string> names_;
};

template <typename Import>
auto guarded(const std::string& name, Import import) {
  try {
    return import();
  } catch (const Error& e) {
    throw Error(e.code(), name + ": " + e.what());
  } catch (const std::bad_alloc&) {
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

std::vector<std::string> oneflow_ops() { return oneflow::registry().names(); }

}  // namespace xrt
