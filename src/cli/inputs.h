// SPDX-License-Identifier: Apache-2.0
// Values for a program's inputs, from the command line: files, images, literals, random numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/image.h"
#include "xrt/program.h"

namespace xrt::cli {

struct InputOptions {
  std::vector<std::string> inputs;  // "NAME=SOURCE" or "FILE.npz"
  std::vector<std::string> dims;    // "SYMBOL=SIZE"
  std::uint64_t seed = 0;
  ImageOptions image;
};

// --input, --dim, --seed and the image options.
void add_input_options(CLI::App& app, InputOptions& options);

// One value per port, in order. What no --input names is random. Open sizes are those of --dim,
// else of the inputs that are given; of a first dimension 1, and `notes` says so. Throws
// MissingFlags for other open sizes, UsageError, or xrt::Error for unreadable files.
std::vector<Data> make_inputs(const std::vector<Port>& ports, const InputOptions& options,
                              std::vector<std::string>& notes);

}  // namespace xrt::cli
