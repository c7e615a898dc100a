// SPDX-License-Identifier: Apache-2.0
// Options by name: for Python's load(), the command's --option and XRT_<NAME> variables.
#include "xrt/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <type_traits>

#include "base/log.h"
#include "base/nearest.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void bad_value(std::string_view name, std::string_view value, const char* wanted) {
  throw Error(ErrorCode::kInvalidArgument,
              "option '" + std::string(name) + "': '" + std::string(value) + "' is not " + wanted);
}

template <typename T>
T number(std::string_view name, std::string_view value, const char* wanted) {
  T result{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size()) bad_value(name, value, wanted);
  return result;
}

bool truth(std::string_view name, std::string_view value) {
  for (const std::string_view yes : {"1", "true", "True", "yes", "on"}) {
    if (value == yes) return true;
  }
  for (const std::string_view no : {"", "0", "false", "False", "no", "off"}) {
    if (value == no) return false;
  }
  bad_value(name, value, "true or false");
}

// Options that meant something to OneFlow-XRT, and what takes their place.
const std::map<std::string, std::string, std::less<>>& replaced() {
  static const std::map<std::string, std::string, std::less<>> table = {
      {"cluster_max_iteration",
       "clusters are complete after one pass, whatever the size of the graph"},
      {"cluster_ignore_pipeline",
       "graphs have no pipeline stages; torch.distributed divides a model over machines"},
      {"cluster_strict_sbp_policy",
       "values are not distributed within a graph; torch.distributed does that"},
      {"strict_types",
       "every engine computes in the types of the graph; 'precision' allows another one"},
      {"force_precision_constraints",
       "every engine computes in the types of the graph; 'precision' allows another one"},
  };
  return table;
}

void say_replaced(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::lock_guard lock(mutex);
  if (!said.emplace(name).second) return;
  log_warning("option '" + std::string(name) +
              "' has no effect here: " + replaced().find(name)->second);
}

struct Option {
  std::function<void(ProgramOptions&, std::string_view name, std::string_view value)> set;
  std::function<bool(const ProgramOptions& options, const ProgramOptions& other)> equal;
};

template <typename T>
Option integer(T ProgramOptions::*field, T least) {
  return {[=](ProgramOptions& o, std::string_view name, std::string_view value) {
            constexpr const char* kWanted =
                std::is_signed_v<T> ? "a whole number" : "a whole number from 0 on";
            o.*field = number<T>(name, value, kWanted);
            if (o.*field < least) bad_value(name, value, "large enough");
          },
          [=](const ProgramOptions& a, const ProgramOptions& b) { return a.*field == b.*field; }};
}

Option real(double ProgramOptions::*field) {
  return {[=](ProgramOptions& o, std::string_view name, std::string_view value) {
            o.*field = number<double>(name, value, "a number");
            if (!(o.*field >= 0)) bad_value(name, value, "a number from 0 on");
          },
          [=](const ProgramOptions& a, const ProgramOptions& b) { return a.*field == b.*field; }};
}

Option flag(bool ProgramOptions::*field) {
  return {[=](ProgramOptions& o, std::string_view name, std::string_view value) {
            o.*field = truth(name, value);
          },
          [=](const ProgramOptions& a, const ProgramOptions& b) { return a.*field == b.*field; }};
}

template <typename T>
Option text(T ProgramOptions::*field) {
  return {[=](ProgramOptions& o, std::string_view, std::string_view value) { o.*field = value; },
          [=](const ProgramOptions& a, const ProgramOptions& b) { return a.*field == b.*field; }};
}

const std::map<std::string, Option, std::less<>>& table() {
  using P = ProgramOptions;
  static const std::map<std::string, Option, std::less<>> options = {
      {"auto_budget_s", real(&P::auto_budget_s)},
      {"auto_mode", text(&P::auto_mode)},
      {"cluster_maximum_nodes", integer<std::int64_t>(&P::cluster_maximum_nodes, -1)},
      {"cluster_minimum_nodes", integer<std::int64_t>(&P::cluster_minimum_nodes, -1)},
      {"device", text(&P::device)},
      {"dump_dir", text(&P::dump_dir)},
      {"dump_subgraph_dir", text(&P::dump_dir)},
      {"fallback", flag(&P::fallback)},
      {"force_compile", flag(&P::force_compile)},
      {"max_batch_size", integer<std::int64_t>(&P::max_batch_size, 0)},
      {"max_specializations", integer<int>(&P::max_specializations, 1)},
      {"max_workspace_bytes", integer<std::size_t>(&P::max_workspace_bytes, 0)},
      {"max_workspace_size", integer<std::size_t>(&P::max_workspace_bytes, 0)},
      {"precision", text(&P::precision)},
      {"strict", flag(&P::strict)},
      {"tolerance", real(&P::tolerance)},
      {"training", flag(&P::training)},
  };
  return options;
}

// The variables that programs read: those of the predecessors' options, and of these.
constexpr std::string_view kFromEnvironment[] = {"cluster_ignore_pipeline",
                                                 "cluster_max_iteration",
                                                 "cluster_maximum_nodes",
                                                 "cluster_minimum_nodes",
                                                 "cluster_strict_sbp_policy",
                                                 "dump_subgraph_dir",
                                                 "fallback",
                                                 "force_compile",
                                                 "force_precision_constraints",
                                                 "max_batch_size",
                                                 "max_workspace_size",
                                                 "strict_types",
                                                 "verbose"};

// Others use the prefix too: only what is nearly the name of an option is taken for it.
void warn_of_misspelt_variables() {
  constexpr std::size_t kSlips = 2;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view variable = text.substr(0, text.find('='));
    if (!variable.starts_with("XRT_")) continue;
    std::string name(variable.substr(4));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (std::find(std::begin(kFromEnvironment), std::end(kFromEnvironment), name) !=
        std::end(kFromEnvironment)) {
      continue;
    }
    for (const std::string_view known : kFromEnvironment) {
      if (edit_distance(name, known) > kSlips) continue;
      log_warning("the environment variable " + std::string(variable) + " is not known; is '" +
                  std::string(known) + "' meant?");
      break;
    }
  }
}

}  // namespace

std::vector<std::string> option_names() {
  std::vector<std::string> names = {"verbose"};
  for (const auto& [name, option] : table()) names.push_back(name);
  for (const auto& [name, reason] : replaced()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void set_option(ProgramOptions& options, std::string_view name, std::string_view value) {
  if (replaced().contains(name)) {
    if (name == "cluster_max_iteration") {
      number<std::int64_t>(name, value, "a whole number");
    } else {
      truth(name, value);
    }
    return say_replaced(name);
  }
  if (name == "verbose") {
    if (truth(name, value)) log_everything();
    return;
  }
  const auto found = table().find(name);
  if (found == table().end()) {
    throw Error(ErrorCode::kInvalidArgument, "there is no option '" + std::string(name) + "'" +
                                                 suggestion(name, option_names()));
  }
  found->second.set(options, name, value);
}

ProgramOptions with_environment(ProgramOptions options) {
  static std::once_flag warned;
  std::call_once(warned, warn_of_misspelt_variables);
  for (const std::string_view name : kFromEnvironment) {
    std::string variable = "XRT_" + std::string(name);
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    const auto found = table().find(name);
    // What the caller set stands.
    if (found != table().end() && !found->second.equal(options, ProgramOptions())) continue;
    try {
      set_option(options, name, value);
    } catch (const Error& error) {
      throw Error(error.code(), variable + ": " + error.what());
    }
  }
  return options;
}

}  // namespace xrt
