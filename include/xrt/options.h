// SPDX-License-Identifier: Apache-2.0
// How a program is loaded and placed.
//
//   xrt::ProgramOptions options = {.engines = {"openvino", "native"}, .num_threads = 4};
//   xrt::set_option(options, "precision", "bf16");  // by name, as users write it
//
// The rows of xrt/options.inc say what each option means, its default and its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/export.h"
#include "xrt/precision.h"

namespace xrt {

using OptionNames = std::vector<std::string>;
using OptionMap = std::map<std::string, std::string>;
using OptionPairs = std::vector<std::pair<std::string, std::string>>;
using OptionsByEngine = std::map<std::string, OptionMap>;
using OptionalPath = std::optional<std::filesystem::path>;
using PrecisionOrAuto = std::optional<Precision>;  // nullopt: "auto", the runtime chooses

// A field per row of xrt/options.inc: `type name = default;`.
struct ProgramOptions {
#define XRT_OPTION(type, name, value, ...) type name = value;
#include "xrt/options.inc"
};

enum class OptionKind : std::uint8_t {
  kSwitch,
  kInteger,
  kNumber,
  kText,
  kWord,
  kPath,
  kList,
  kMap
};

// What the table says about one option, for those that handle options by name.
struct OptionInfo {
  std::string name;                      // the field of ProgramOptions
  std::vector<std::string> other_names;  // names that are accepted as well
  OptionKind kind = OptionKind::kText;
  std::string default_value;  // as option_text() gives it
  std::string wanted;         // the values that fit: "a whole number from 0 to 4096"
  std::string help;
  std::vector<std::string> flags;      // of the command; none: `--option NAME=VALUE` alone
  std::string value;                   // what the command's help calls the value; may be empty
  std::vector<std::string> variables;  // of the environment that with_environment() reads
  bool trainer = true;                 // an option of Trainer, too
  bool cached = false;                 // part of option_key()
  std::string retired;                 // not empty: accepted without effect, and why
};

// All options in the order of the table, those without effect last.
XRT_API const std::vector<OptionInfo>& option_table();
// The option of that name, an other name of it included. kInvalidArgument for an unknown name, with
// the nearest known one.
XRT_API const OptionInfo& find_option(std::string_view name);

// Sets an option by name to a value in text: "true" or "false"; a number; text; "A,B" for a list.
// One entry is added to a map: "NODE=ENGINE", "ENGINE.KEY=VALUE", "INPUT=OUTPUT". A retired option
// is accepted with a line in the log. kInvalidArgument for an unknown name (with the nearest known
// one) and for a value that does not fit:
//   option 'num_threads' is 'many'; a whole number from 0 to 4096 is wanted
XRT_API void set_option(ProgramOptions& options, std::string_view name, std::string_view value);
// The value of an option, as set_option() takes it; the entries of a map are separated by ", ".
XRT_API std::string option_text(const ProgramOptions& options, std::string_view name);
// Whether the option's field holds a value that it allows.
XRT_API bool option_fits(const ProgramOptions& options, std::string_view name);
// kInvalidArgument, in set_option()'s words, where a field holds what its option does not allow.
XRT_API void check_options(const ProgramOptions& options);
// Throws the kInvalidArgument of a value that does not fit; `shown` is how the caller wrote it.
[[noreturn]] XRT_API void refuse_option_value(std::string_view name, std::string_view shown);

// Text that differs where options differ that compiled functions and plans depend on; num_threads
// counts as the threads that are granted.
XRT_API std::string option_key(const ProgramOptions& options);

// `options` with what XRT_<NAME> variables say about those that have their default. Throws
// set_option()'s errors behind the variable's name.
XRT_API ProgramOptions with_environment(ProgramOptions options);
// What a program works with: with_environment(), checked. `verbose` takes effect.
XRT_API ProgramOptions resolve_options(ProgramOptions options);

}  // namespace xrt
