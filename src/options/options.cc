// SPDX-License-Identifier: Apache-2.0
// Options by name: what is said in text or in numbers against the rows of xrt/options.inc.
#include "xrt/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <functional>
#include <limits>
#include <mutex>
#include <set>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/nearest.h"
#include "device/threads.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// The details of a row of xrt/options.inc, which describes them.
struct Details {
  std::string_view help;
  std::string_view keyword = {};  // of Python
  std::string_view other_names = {};
  std::optional<std::string_view> flags = std::nullopt;
  std::string_view value = {};
  std::string_view words = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool environment = false;
  bool trainer = true;
  bool module = true;
  bool cached = false;
};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    const std::size_t first = part.find_first_not_of(' ');
    parts.emplace_back(first == std::string_view::npos
                           ? std::string_view()
                           : part.substr(first, part.find_last_not_of(' ') - first + 1));
    start = end + 1;
  }
  return parts;
}

std::string replaced(std::string_view text, char from, char to) {
  std::string result(text);
  std::replace(result.begin(), result.end(), from, to);
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return result;
}

// --- One overload of each per type of field -----------------------------------------------------

template <typename T>
concept Number = std::integral<T> || std::floating_point<T>;

template <typename T>
constexpr bool kIsMap =
    std::same_as<T, OptionMap> || std::same_as<T, OptionPairs> || std::same_as<T, OptionsByEngine>;

constexpr std::string_view kAutoWord = "auto";  // what PrecisionOrAuto calls nullopt

OptionKind kind_of(bool) { return OptionKind::kSwitch; }
OptionKind kind_of(std::integral auto) { return OptionKind::kInteger; }
OptionKind kind_of(double) { return OptionKind::kNumber; }
OptionKind kind_of(const std::string&) { return OptionKind::kText; }
OptionKind kind_of(const std::filesystem::path&) { return OptionKind::kPath; }
OptionKind kind_of(const OptionalPath&) { return OptionKind::kPath; }
OptionKind kind_of(const PrecisionOrAuto&) { return OptionKind::kWord; }
OptionKind kind_of(const OptionNames&) { return OptionKind::kList; }
OptionKind kind_of(const OptionMap&) { return OptionKind::kMap; }
OptionKind kind_of(const OptionPairs&) { return OptionKind::kMap; }
OptionKind kind_of(const OptionsByEngine&) { return OptionKind::kMap; }

// parse(): false where the text is no such value.
bool parse(std::string_view text, bool& field) {
  for (const std::string_view yes : {"1", "true", "True", "yes", "on"}) {
    if (text == yes) return field = true;
  }
  for (const std::string_view no : {"", "0", "false", "False", "no", "off"}) {
    if (text != no) continue;
    field = false;
    return true;
  }
  return false;
}

template <Number T>
bool parse(std::string_view text, T& field) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse(std::string_view text, std::string& field) {
  field = text;
  return true;
}

bool parse(std::string_view text, std::filesystem::path& field) {
  field = text;
  return true;
}

bool parse(std::string_view text, OptionalPath& field) {
  field = text;
  return true;
}

bool parse(std::string_view text, PrecisionOrAuto& field) {
  field = parse_precision(text);
  return field || text == kAutoWord;
}

bool parse(std::string_view text, OptionNames& field) {
  field = split(text);
  return true;
}

bool parse(std::string_view text, OptionMap& field) {
  // Names of nodes may hold '=', those of engines do not: the last one separates.
  const std::size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size()) return false;
  field[std::string(text.substr(0, at))] = text.substr(at + 1);
  return true;
}

bool parse(std::string_view text, OptionPairs& field) {
  const std::size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size()) return false;
  field.emplace_back(text.substr(0, at), text.substr(at + 1));
  return true;
}

bool parse(std::string_view text, OptionsByEngine& field) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string_view::npos || dot == 0 || dot > equals || dot + 1 == equals) {
    return false;
  }
  field[std::string(text.substr(0, dot))][std::string(text.substr(dot + 1, equals - dot - 1))] =
      text.substr(equals + 1);
  return true;
}

// pieces(): the texts that make up a value; where two values differ, so do they.
std::vector<std::string> pieces(bool field) { return {field ? "true" : "false"}; }
std::vector<std::string> pieces(Number auto field) { return {fmt::format("{}", field)}; }
std::vector<std::string> pieces(const std::string& field) { return {field}; }
std::vector<std::string> pieces(const std::filesystem::path& field) { return {field.string()}; }
std::vector<std::string> pieces(const OptionalPath& field) {
  return field ? pieces(*field) : std::vector<std::string>{};
}
std::vector<std::string> pieces(const PrecisionOrAuto& field) {
  return {std::string(field ? to_string(*field) : kAutoWord)};
}
std::vector<std::string> pieces(const OptionNames& field) { return field; }
template <typename Pairs>
std::vector<std::string> pieces_of_pairs(const Pairs& field) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : field) texts.insert(texts.end(), {key, value});
  return texts;
}
std::vector<std::string> pieces(const OptionMap& field) { return pieces_of_pairs(field); }
std::vector<std::string> pieces(const OptionPairs& field) { return pieces_of_pairs(field); }
std::vector<std::string> pieces(const OptionsByEngine& field) {
  std::vector<std::string> texts;
  for (const auto& [engine, own] : field) {
    for (const auto& [key, value] : own) texts.insert(texts.end(), {engine, key, value});
  }
  return texts;
}

std::string text_of(const auto& field) { return fmt::format("{}", fmt::join(pieces(field), ",")); }
std::string text_of(const OptionMap& field) {
  std::string text;
  for (const auto& [key, value] : field) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}
std::string text_of(const OptionPairs& field) {
  return text_of(OptionMap(field.begin(), field.end()));
}
std::string text_of(const OptionsByEngine& field) {
  OptionMap flat;
  for (const auto& [engine, own] : field) {
    for (const auto& [key, value] : own) flat[engine + "." + key] = value;
  }
  return text_of(flat);
}

bool fits(const auto&, const Details&) { return true; }
template <Number T>
bool fits(const T& field, const Details& details) {
  const auto value = static_cast<double>(field);
  return std::isfinite(value) && value >= details.least && value <= details.most;
}
bool fits(const bool&, const Details&) { return true; }
bool fits(const OptionNames& field, const Details&) {
  return !field.empty() && std::find(field.begin(), field.end(), "") == field.end();
}
bool is_word(const std::string& text, const Details& details) {
  const std::vector<std::string> words = split(details.words);
  return std::find(words.begin(), words.end(), text) != words.end();
}
bool fits(const std::string& field, const Details& details) {
  return field.empty() || details.words.empty() || is_word(field, details);
}
bool fits(const PrecisionOrAuto& field, const Details& details) {
  return is_word(text_of(field), details);
}

// --- The table ----------------------------------------------------------------------------------

std::string wanted(const OptionInfo& info, const Details& details) {
  const auto number = [&](const char* what) {
    const bool has_least = std::isfinite(details.least);
    if (std::isfinite(details.most)) {
      return fmt::format("{} from {:.0f} to {:.0f}", what, details.least, details.most);
    }
    return has_least ? fmt::format("{} from {} on", what, details.least) : std::string(what);
  };
  switch (info.kind) {
    case OptionKind::kSwitch:
      return "true or false";
    case OptionKind::kInteger:
      return number("a whole number");
    case OptionKind::kNumber:
      return number("a number");
    case OptionKind::kWord: {
      std::vector<std::string> words = split(details.words);
      const std::string last = words.back();
      words.pop_back();
      return fmt::format("{} or {}", fmt::join(words, ", "), last);
    }
    case OptionKind::kPath:
      return "a path";
    case OptionKind::kList:
      return "a name, or a list of names,";
    case OptionKind::kMap:
      return details.value.empty() ? "a map" : std::string(details.value);
    case OptionKind::kText:
      break;
  }
  return "text";
}

struct Row {
  OptionInfo info;
  // False where the value does not fit; the options are then as they were.
  std::function<bool(ProgramOptions&, std::string_view)> set;
  std::function<bool(const ProgramOptions&)> fits;
  std::function<bool(const ProgramOptions&, const ProgramOptions&)> equal;
  std::function<std::string(const ProgramOptions&)> text;
  std::function<std::vector<std::string>(const ProgramOptions&)> pieces;
};

template <typename T>
Row row(std::string_view name, T ProgramOptions::*field, const Details& details) {
  Row row;
  OptionInfo& info = row.info;
  const ProgramOptions defaults;
  info.name = name;
  info.other_names = split(details.other_names);
  info.kind = details.words.empty() ? kind_of(defaults.*field) : OptionKind::kWord;
  info.default_value = text_of(defaults.*field);
  info.wanted = wanted(info, details);
  info.help = details.help;
  info.value = details.value;
  info.trainer = details.trainer;
  info.cached = details.cached;
  std::vector<std::string> names = info.other_names;
  names.insert(names.begin(), info.name);
  if (details.flags) {
    info.flags = split(*details.flags);
  } else {
    for (const std::string& own : names) info.flags.push_back("--" + replaced(own, '_', '-'));
  }
  if (details.environment) {
    for (const std::string& own : names) info.variables.push_back("XRT_" + upper(own));
  }
  // The default fits whatever else does: an empty list may be one.
  const auto is_right = [field, details,
                         by_default = defaults.*field](const ProgramOptions& given) {
    return given.*field == by_default || fits(given.*field, details);
  };
  row.set = [field, is_right](ProgramOptions& options, std::string_view text) {
    // An entry more of a map, each of which fits: copies of what there is would take n² for n.
    if constexpr (kIsMap<T>) return parse(text, options.*field);
    T before = options.*field;
    if (parse(text, options.*field) && is_right(options)) return true;
    options.*field = std::move(before);
    return false;
  };
  row.fits = is_right;
  row.equal = [field](const ProgramOptions& a, const ProgramOptions& b) {
    return a.*field == b.*field;
  };
  row.text = [field](const ProgramOptions& options) { return text_of(options.*field); };
  row.pieces = [field](const ProgramOptions& options) { return pieces(options.*field); };
  return row;
}

// An option without effect: the log says why, once.
template <typename T>
Row retired(std::string_view name, std::string_view why) {
  Row row;
  row.info.name = name;
  row.info.kind = kind_of(T());
  row.info.wanted = wanted(row.info, {});
  row.info.help = row.info.retired = why;
  row.info.variables = {"XRT_" + upper(name)};
  row.set = [info = row.info](ProgramOptions&, std::string_view text) {
    if (T value; !parse(text, value)) return false;
    static ForkMutex mutex;
    static std::set<std::string> said;
    const std::lock_guard lock(mutex);
    if (said.insert(info.name).second) {
      log_warning(fmt::format("option '{}' has no effect here: {}", info.name, info.retired));
    }
    return true;
  };
  row.fits = [](const ProgramOptions&) { return true; };
  row.equal = [](const ProgramOptions&, const ProgramOptions&) { return true; };
  row.text = [](const ProgramOptions&) { return std::string(); };
  row.pieces = [](const ProgramOptions&) { return std::vector<std::string>(); };
  return row;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#define XRT_OPTION(type, name, value, ...) row(#name, &ProgramOptions::name, Details{__VA_ARGS__}),
#define XRT_RETIRED_OPTION(type, name, why) retired<type>(#name, why),
#include "xrt/options.inc"
  };
  return table;
}

const Row& find(std::string_view name) {
  for (const Row& row : rows()) {
    const std::vector<std::string>& others = row.info.other_names;
    if (row.info.name == name || std::find(others.begin(), others.end(), name) != others.end()) {
      return row;
    }
  }
  std::vector<std::string> known;
  for (const Row& row : rows()) {
    known.push_back(row.info.name);
    known.insert(known.end(), row.info.other_names.begin(), row.info.other_names.end());
  }
  std::sort(known.begin(), known.end());
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("there is no option '{}'{}", name, suggestion(name, known)));
}

// Others use the prefix too: only what is nearly the name of an option is taken for it.
void warn_of_misspelt_variables() {
  constexpr std::size_t kSlips = 2;
  std::vector<std::string> known;
  for (const OptionInfo& info : option_table()) {
    known.insert(known.end(), info.variables.begin(), info.variables.end());
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view variable = text.substr(0, text.find('='));
    if (!variable.starts_with("XRT_")) continue;
    if (std::find(known.begin(), known.end(), variable) != known.end()) continue;
    for (const std::string& name : known) {
      if (edit_distance(variable, name) > kSlips) continue;
      log_warning(
          fmt::format("the environment variable {} is not known; is {} meant?", variable, name));
      break;
    }
  }
}

}  // namespace

const std::vector<OptionInfo>& option_table() {
  static const std::vector<OptionInfo> table = [] {
    std::vector<OptionInfo> infos;
    for (const Row& row : rows()) infos.push_back(row.info);
    return infos;
  }();
  return table;
}

const OptionInfo& find_option(std::string_view name) { return find(name).info; }

void refuse_option_value(std::string_view name, std::string_view shown) {
  const OptionInfo& info = find_option(name);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("option '{}' is {}; {} is wanted", name, shown, info.wanted));
}

void set_option(ProgramOptions& options, std::string_view name, std::string_view value) {
  if (!find(name).set(options, value)) refuse_option_value(name, fmt::format("'{}'", value));
}

std::string option_text(const ProgramOptions& options, std::string_view name) {
  return find(name).text(options);
}

bool option_fits(const ProgramOptions& options, std::string_view name) {
  return find(name).fits(options);
}

void check_options(const ProgramOptions& options) {
  for (const Row& row : rows()) {
    if (!row.fits(options)) {
      refuse_option_value(row.info.name, fmt::format("'{}'", row.text(options)));
    }
  }
  if (options.use_int8 != !options.int8_calibration.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                options.use_int8 ? "use_int8 needs int8_calibration: a number of runs that "
                                   "calibrate, or the file of a calibration table"
                                 : "int8_calibration without use_int8");
  }
  const auto most = options.cluster_maximum_nodes;
  if (most >= 0 && options.cluster_minimum_nodes > most) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("option 'cluster_minimum_nodes' is '{}'; at most {}, which is "
                            "cluster_maximum_nodes, is wanted",
                            options.cluster_minimum_nodes, most));
  }
}

std::string option_key(const ProgramOptions& options) {
  ProgramOptions granted = options;
  granted.num_threads = granted_threads(options.num_threads);
  std::string key;
  for (const Row& row : rows()) {
    if (!row.info.cached) continue;
    key += row.info.name;
    for (const std::string& piece : row.pieces(granted)) {
      key += fmt::format(" {}:{}", piece.size(), piece);
    }
    key += ';';
  }
  return key;
}

ProgramOptions with_environment(ProgramOptions options) {
  static std::once_flag warned;
  std::call_once(warned, warn_of_misspelt_variables);
  const ProgramOptions given = options;
  for (const Row& row : rows()) {
    // What the caller set stands.
    if (!row.equal(given, ProgramOptions())) continue;
    for (const std::string& variable : row.info.variables) {
      const char* value = std::getenv(variable.c_str());
      if (value == nullptr || *value == '\0') continue;
      try {
        set_option(options, row.info.name, value);
      } catch (const Error& error) {
        throw Error(error.code(), variable + ": " + error.what());
      }
    }
  }
  return options;
}

ProgramOptions resolve_options(ProgramOptions options) {
  options = with_environment(std::move(options));
  check_options(options);
  if (options.verbose) log_everything();
  return options;
}

}  // namespace xrt
