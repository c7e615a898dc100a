// SPDX-License-Identifier: Apache-2.0
// What a program tells about itself: which engine runs what and why, and what its runs took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/precision.h"

namespace xrt {

// Why each node runs where it runs.
struct Explanation {
  struct NodeRow {
    std::string name, op, engine, function;  // function: the launch it is part of
    std::vector<std::string> input_types, output_types;
    std::map<std::string, std::string> refusals;  // engine → reason
    // Names of the values it reads and writes, in order; "" where an optional one is left out.
    std::vector<std::string> inputs, outputs;
  };
  struct LaunchRow {
    std::string function, engine;
    std::size_t nodes = 0;
    std::size_t input_bytes = 0, output_bytes = 0;  // 0 where shapes are not static
    std::size_t workspace_bytes = 0;
    std::size_t weight_bytes = 0;  // that the executable holds for itself
    double compile_ms = 0;
    bool from_cache = false;
    double mean_us = 0;  // over the runs since loading
    std::int64_t runs = 0;
    std::vector<std::string> reads, writes;  // names of values
  };
  std::vector<NodeRow> nodes;
  std::vector<LaunchRow> launches;
  std::map<std::string, std::size_t> nodes_per_engine;
  std::size_t arena_bytes = 0;
  std::vector<std::string> notes;  // e.g. "fell back …" with its reason
  // What placement had to choose from, best first; empty where the user named the engines.
  struct CandidateRow {
    std::string plan;                       // "native", "openvino,native"
    Precision precision = Precision::kF32;  // see ProgramOptions::precision
    double estimated_us = 0;                // 0: there is no estimate
    double measured_us = 0;                 // median of whole runs; 0: it was not measured
    double error = -1;                      // against float32, over the range; -1: not compared
    bool chosen = false;
    std::string note;  // why it was not measured, or not chosen
  };
  std::vector<CandidateRow> candidates;
  // "named", "estimated", "measured", "measured earlier", … (docs/start/explain.md has all)
  std::string placement = "named";
  Precision precision = Precision::kF32;
  std::string to_json() const;  // documented in docs/background/architecture.md
};

// One launch of one run, for traces; times in microseconds since the program was loaded.
struct LaunchEvent {
  std::string function, engine;
  double start_us = 0, duration_us = 0;
  std::uint64_t thread = 0, run = 0;
};

}  // namespace xrt
