// SPDX-License-Identifier: Apache-2.0
// The command line's options of samples in files and of how pictures are prepared.
#pragma once

#include <CLI/CLI.hpp>

#include "data/labelled_set.h"
#include "data/preparation.h"
#include "evaluation/batches.h"

namespace xrt::cli {

struct DataOptions {
  LabelledSource source;
  BatchOptions batches;  // its preparation is that of `wishes`
  PreparationWishes wishes;
};

// --data and what says how to read it. Returns --data.
CLI::Option* add_data_options(CLI::App& app, DataOptions& options);
// --label-offset, which only labels need.
void add_label_options(CLI::App& app, DataOptions& options);
// --mean, --std, --scale, --layout and --channels: from pixels to the values of an input.
void add_pixel_options(CLI::App& app, PreparationWishes& wishes);
// These and what decides the size: --preset, --resize-shorter and --crop.
void add_picture_options(CLI::App& app, PreparationWishes& wishes);

// With the preparation. Throws what make_preparation() throws.
BatchOptions batch_options(const DataOptions& options);

}  // namespace xrt::cli
