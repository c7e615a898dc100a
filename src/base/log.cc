// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "base/at_fork.h"
#include "xrt/error.h"
#include "xrt/log.h"

namespace xrt {
namespace {

// Nothing where the word is none of those of log.h.
std::optional<spdlog::level::level_enum> level_of(const std::string& word) {
  const auto level = spdlog::level::from_str(word);  // "off" for what it does not know
  if (level == spdlog::level::off && word != "off") return std::nullopt;
  return level;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "xrt", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("xrt %^%l%$: %v");
    made->set_level(spdlog::level::warn);
    const char* wanted = std::getenv("XRT_LOG");
    if (wanted == nullptr || *wanted == '\0') return made;
    std::string name = wanted;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (const auto level = level_of(name)) {
      made->set_level(*level);
    } else {
      made->warn("XRT_LOG is '{}'; debug, info, warning, error or off is wanted", wanted);
    }
    return made;
  }();
  return *instance;
}

// The library holds a lock while it writes: a child must not find it taken.
void log(spdlog::level::level_enum level, std::string_view message) {
  if (!logger().should_log(level)) return;
  const NoForkScope scope;
  logger().log(level, message);
}

}  // namespace

void log_debug(std::string_view message) { log(spdlog::level::debug, message); }
void log_info(std::string_view message) { log(spdlog::level::info, message); }
void log_warning(std::string_view message) { log(spdlog::level::warn, message); }
void log_everything() { logger().set_level(spdlog::level::debug); }
void set_log_level(std::string_view level) {
  const auto wanted = level_of(std::string(level));
  if (!wanted) {
    throw Error(ErrorCode::kInvalidArgument, "the log level is '" + std::string(level) +
                                                 "'; debug, info, warning, error or off is wanted");
  }
  logger().set_level(*wanted);
}
bool log_debug_enabled() { return logger().should_log(spdlog::level::debug); }

}  // namespace xrt
