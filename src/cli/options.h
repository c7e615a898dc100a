// SPDX-License-Identifier: Apache-2.0
// Options by which a model is placed and compiled, shared by run, inspect and bench; and loading.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "xrt/program.h"

namespace xrt::cli {

struct PlacementOptions {
  ProgramOptions program;  // what the flags say; its engines are those of --engine
  std::vector<std::string> op_libraries;
};

// What CLI::NonNegativeNumber and CLI::PositiveNumber are, but for NaN, which they let pass, and
// for messages that a person reads.
CLI::Validator from_zero();
CLI::Validator above_zero();

// The model's file and --engine, for commands that take one list of engines.
void add_model_options(CLI::App& app, std::string& model, std::string& engine);

// A flag per option of the table that has one, but for --engine and for the options `without`,
// which the command has flags of its own for; `--option` for any.
void add_placement_options(CLI::App& app, PlacementOptions& options,
                           const std::set<std::string>& without = {});

// The flags of `shapes`, `ranges` and `max_batch_size` alone, for commands that place nothing.
void add_size_options(CLI::App& app, PlacementOptions& options);

// "openvino, native" → {"openvino", "native"}; kInvalidArgument where a name is empty.
std::vector<std::string> split_engines(const std::string& text);

// Throws EngineUnavailable, with how to install it, for an engine that cannot be loaded.
void check_engine(const std::string& name);

// The options for a list of engines. Loads the libraries of ops that are named.
ProgramOptions program_options(const PlacementOptions& options,
                               const std::vector<std::string>& engines);

struct Loaded {
  std::shared_ptr<Program> program;
  double seconds = 0;
};

// Loads with progress on standard error. Throws EngineUnavailable where an engine that was named
// cannot be loaded, before the model is read.
Loaded load_program(const std::string& model, const ProgramOptions& options);

// "openvino 120 of 122 nodes, native 2 of 122 nodes; 3 launches"
std::string placement_summary(const Explanation& explanation);

}  // namespace xrt::cli
