// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace xrt {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "xrt", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("xrt %^%l%$: %v");
    const char* level = std::getenv("XRT_LOG");
    made->set_level(level == nullptr || *level == '\0' ? spdlog::level::warn
                                                       : spdlog::level::from_str(level));
    return made;
  }();
  return *instance;
}

}  // namespace

void log_debug(std::string_view message) { logger().debug(message); }
void log_info(std::string_view message) { logger().info(message); }
void log_warning(std::string_view message) { logger().warn(message); }
void log_everything() { logger().set_level(spdlog::level::debug); }
bool log_debug_enabled() { return logger().should_log(spdlog::level::debug); }

}  // namespace xrt
