// SPDX-License-Identifier: Apache-2.0
// What a program's profile looks like in a trace viewer.
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "xrt/program.h"

namespace xrt {

// The Trace Event format:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
std::string Program::trace_json() const {
  nlohmann::json events = nlohmann::json::array();
  for (const LaunchEvent& e : profile()) {
    events.push_back({{"name", e.function},
                      {"cat", e.engine},
                      {"ph", "X"},
                      {"ts", e.start_us},
                      {"dur", e.duration_us},
                      {"pid", static_cast<std::int64_t>(::getpid())},
                      {"tid", e.thread},
                      {"args", {{"engine", e.engine}, {"run", e.run}}}});
  }
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace xrt
