// SPDX-License-Identifier: Apache-2.0
// Every row of the table of options, in every place of C++ that knows options by name.
#include "xrt/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "xrt/error.h"

namespace xrt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A value that the option takes and that is not its default.
std::string other_value(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::kSwitch:
      return option.default_value == "true" ? "false" : "true";
    case OptionKind::kInteger:
      return option.default_value == "3" ? "2" : "3";
    case OptionKind::kNumber:
      return option.default_value == "0.5" ? "0.25" : "0.5";
    case OptionKind::kWord: {
      // "f32, bf16, f16 or auto": the last word.
      return option.wanted.substr(option.wanted.rfind(' ') + 1);
    }
    case OptionKind::kMap:
      return option.value;  // "NODE=ENGINE" is an entry as any other
    default:
      return "elsewhere";
  }
}

// A value that does not fit; nothing for text, which takes any.
std::optional<std::string> bad_value(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::kText:
    case OptionKind::kPath:
      return std::nullopt;
    case OptionKind::kList:
      return "a,,b";
    default:
      return "nonsense";
  }
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_.c_str()); }

 private:
  std::string name_;
};

class OptionTable : public ::testing::TestWithParam<OptionInfo> {
 protected:
  const OptionInfo& option() const { return GetParam(); }
};

TEST_P(OptionTable, DescribesItself) {
  EXPECT_FALSE(option().help.empty());
  EXPECT_FALSE(option().wanted.empty());
  EXPECT_EQ(find_option(option().name).name, option().name);
  EXPECT_EQ(option_text(ProgramOptions(), option().name), option().default_value);
}

TEST_P(OptionTable, IsSetByItsNames) {
  if (!option().retired.empty()) return;
  std::vector<std::string> names = option().other_names;
  names.push_back(option().name);
  for (const std::string& name : names) {
    ProgramOptions options;
    set_option(options, name, other_value(option()));
    EXPECT_EQ(option_text(options, option().name), other_value(option())) << name;
    // Two that mean nothing alone.
    if (option().name == "use_int8") options.int8_calibration = "1";
    if (option().name == "int8_calibration") options.use_int8 = true;
    EXPECT_NO_THROW(check_options(options));
  }
}

TEST_P(OptionTable, WithoutEffectIsAccepted) {
  if (option().retired.empty()) return;
  ProgramOptions options;
  set_option(options, option().name, other_value(option()));
  EXPECT_EQ(option_key(options), option_key(ProgramOptions()));
}

TEST_P(OptionTable, RefusesWhatDoesNotFit) {
  const std::optional<std::string> bad = bad_value(option());
  if (!bad) return;
  ProgramOptions options;
  EXPECT_EQ(refusal([&] { set_option(options, option().name, *bad); }),
            "option '" + option().name + "' is '" + *bad + "'; " + option().wanted + " is wanted");
  EXPECT_EQ(option_text(options, option().name), option().default_value);
}

TEST_P(OptionTable, IsReadFromItsVariables) {
  for (const std::string& name : option().variables) {
    {
      const Variable variable(name, other_value(option()));
      ProgramOptions given;
      if (option().retired.empty()) {
        EXPECT_EQ(option_text(with_environment(given), option().name), other_value(option()));
        // What the caller set stands.
        if (option().kind == OptionKind::kInteger || option().kind == OptionKind::kPath) {
          set_option(given, option().name, "2");
          EXPECT_EQ(option_text(with_environment(given), option().name), "2");
        }
      } else {
        EXPECT_NO_THROW(with_environment(given));
      }
    }
    if (const std::optional<std::string> bad = bad_value(option())) {
      const Variable variable(name, *bad);
      EXPECT_THAT(refusal([] { with_environment({}); }),
                  StartsWith(name + ": option '" + option().name + "' is '" + *bad + "'; "));
    }
  }
}

TEST_P(OptionTable, ChangesTheCacheKeyWhereItShould) {
  if (!option().retired.empty()) return;
  ProgramOptions options;
  set_option(options, option().name, other_value(option()));
  // Of threads those count that are granted.
  if (option().name == "num_threads") options.num_threads = 1;
  EXPECT_EQ(option_key(options) != option_key(ProgramOptions()), option().cached);
}

INSTANTIATE_TEST_SUITE_P(All, OptionTable, ::testing::ValuesIn(option_table()),
                         [](const auto& info) { return info.param.name; });

TEST(Options, HaveNamesOfTheirOwn) {
  std::set<std::string> seen;
  for (const OptionInfo& option : option_table()) {
    EXPECT_TRUE(seen.insert(option.name).second) << option.name;
    for (const std::string& other : option.other_names) EXPECT_TRUE(seen.insert(other).second);
    for (const std::string& flag : option.flags) EXPECT_TRUE(seen.insert(flag).second);
    for (const std::string& variable : option.variables) EXPECT_TRUE(seen.insert(variable).second);
  }
}

TEST(Options, SuggestTheNearestName) {
  ProgramOptions options;
  EXPECT_EQ(refusal([&] { set_option(options, "cluster_minimum_node", "2"); }),
            "there is no option 'cluster_minimum_node'; did you mean 'cluster_minimum_nodes'?");
  EXPECT_THAT(refusal([&] { set_option(options, "max_workspace_sise", "2"); }),
              HasSubstr("'max_workspace_size'"));
}

TEST(Options, PrecisionIsAnEnumeratorOrAuto) {
  ProgramOptions options;
  EXPECT_EQ(options.precision, Precision::kF32);
  set_option(options, "precision", "bf16");
  EXPECT_EQ(options.precision, Precision::kBF16);
  set_option(options, "precision", "auto");
  EXPECT_EQ(options.precision, std::nullopt);
  EXPECT_EQ(option_text(options, "precision"), "auto");
  // The option does not have all precisions.
  for (const char* word : {"tf32", ""}) {
    EXPECT_THAT(refusal([&] { set_option(options, "precision", word); }),
                HasSubstr("f32, bf16, f16 or auto is wanted"));
  }
}

TEST(Options, OfAStructAreCheckedInTheSameWords) {
  const auto refused = [](const ProgramOptions& options) {
    return refusal([&] { check_options(options); });
  };
  EXPECT_EQ(refused({.num_threads = 5000}),
            "option 'num_threads' is '5000'; a whole number from 0 to 4096 is wanted");
  EXPECT_EQ(refused({.max_specializations = 0}),
            "option 'max_specializations' is '0'; a whole number from 1 to 2147483647 is wanted");
  EXPECT_EQ(refused({.auto_budget_s = -1}),
            "option 'auto_budget_s' is '-1'; a number from 0 on is wanted");
  EXPECT_EQ(refused({.tolerance = std::numeric_limits<double>::quiet_NaN()}),
            "option 'tolerance' is 'nan'; a number from 0 on is wanted");
  EXPECT_EQ(refused({.precision = Precision::kTF32}),
            "option 'precision' is 'tf32'; f32, bf16, f16 or auto is wanted");
  EXPECT_EQ(refused({.engines = {}}),
            "option 'engines' is ''; a name, or a list of names, is wanted");
  EXPECT_THAT(refused({.cluster_minimum_nodes = 5, .cluster_maximum_nodes = 4}),
              HasSubstr("at most 4, which is cluster_maximum_nodes, is wanted"));
}

TEST(Options, OfMapsAreAddedEntryByEntry) {
  ProgramOptions options;
  set_option(options, "node_engines", "a=b=native");  // names of nodes may hold '='
  set_option(options, "node_engines", "loop/body/n=xla");
  EXPECT_EQ(options.node_engines, (OptionMap{{"a=b", "native"}, {"loop/body/n", "xla"}}));
  set_option(options, "engine_options", "xla.xla_flag=a.b=c");
  EXPECT_EQ(options.engine_options, (OptionsByEngine{{"xla", {{"xla_flag", "a.b=c"}}}}));
  set_option(options, "engine", "openvino, native");
  EXPECT_EQ(options.engines, (OptionNames{"openvino", "native"}));
  for (const char* const bad : {"native", "=native", "node="}) {
    EXPECT_EQ(refusal([&] { set_option(options, "node_engines", bad); }),
              "option 'node_engines' is '" + std::string(bad) + "'; NODE=ENGINE is wanted");
  }
  for (const char* const bad : {"xla", "xla.flag", ".flag=1", "xla.=1", "flag=xla.1"}) {
    EXPECT_THAT(refusal([&] { set_option(options, "engine_options", bad); }),
                HasSubstr("ENGINE.KEY=VALUE is wanted"));
  }
}

// A copy of the options for each entry, as they once were set, is minutes here.
TEST(Options, TakeManyEntriesOfAMap) {
  constexpr int kEntries = 50'000;
  ProgramOptions options;
  for (int i = 0; i < kEntries; ++i) {
    const std::string number = std::to_string(i);
    set_option(options, "node_engines", "n" + number + "=native");
    set_option(options, "aliases", "x" + number + "=y");
    set_option(options, "engine_options", "e.k" + number + "=v");
  }
  EXPECT_EQ(options.node_engines.size(), kEntries);
  EXPECT_EQ(options.aliases.size(), kEntries);
  EXPECT_EQ(options.engine_options.at("e").size(), kEntries);
}

TEST(Options, AreAsTheyWereWhereAValueDoesNotFit) {
  ProgramOptions options = {.engines = {"xla"}, .num_threads = 3, .auto_mode = "fast"};
  const std::string before = option_key(options);
  for (const auto& [name, value] : {std::pair{"engines", "native,,xla"},
                                    {"num_threads", "-5"},
                                    {"num_threads", "4 "},
                                    {"auto_mode", "never"},
                                    {"deadline_s", "-1"},
                                    {"precision", "f12"},
                                    {"strict", "maybe"}}) {
    EXPECT_THROW(set_option(options, name, value), Error) << name;
    EXPECT_EQ(option_text(options, "engines"), "xla");
    EXPECT_EQ(option_text(options, "num_threads"), "3");
    EXPECT_EQ(option_text(options, "auto_mode"), "fast");
    EXPECT_EQ(option_key(options), before);
  }
}

TEST(Options, KeepEntriesApartInTheCacheKey) {
  ProgramOptions one;
  one.node_engines = {{"a", "b"}};
  ProgramOptions other;
  other.aliases = {{"a", "b"}};
  EXPECT_NE(option_key(one), option_key(other));
  one.engines = {"a", "b"};
  other = one;
  other.engines = {"a 1:b"};
  EXPECT_NE(option_key(one), option_key(other));
}

}  // namespace
}  // namespace xrt
