// SPDX-License-Identifier: Apache-2.0
// A folder of samples to calibrate with.
//
// - FILE.npz: arrays named as the inputs.
// - A model of one input: FILE.npy and pictures (.png, .jpg, .jpeg, .bmp, .ppm, .pgm).
// - Several inputs: a folder per input, named as it (characters other than letters, digits, '-',
//   '_' and '.' are written '_'), with .npy files or pictures; those of one file name, endings
//   aside, are a sample.
//
// An array has the input's shape, or holds several samples along its first dimension.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/image.h"
#include "xrt/program.h"

namespace xrt {

struct SampleFiles {
  std::filesystem::path folder;
  ImageOptions image;
  std::size_t limit = 0;  // take the first samples only; 0: all
};

// Calls use() for each sample that the arrays hold: one, or several along their first dimensions.
// Throws kInvalidArgument behind `origin` where they do not fit the inputs, and what use() throws
// behind it.
void for_each_sample_of(const std::vector<Tensor>& arrays, const std::string& origin,
                        const std::vector<Port>& inputs,
                        const std::function<void(const std::vector<Tensor>&)>& use);

// Whether a folder holds arrays without labels, or a folder per input: samples for these inputs,
// which no labelled set is (data/labelled_set.h).
bool holds_samples(const std::filesystem::path& folder, const std::vector<Port>& inputs);

// Calls use(values in order of `inputs`) for each sample, files in order of name. The first
// dimension of an input must be known; other open ones are as the samples have them. Throws
// xrt::Error: kNotFound (no folder, no samples in it), kInvalidArgument naming file and input
// (missing, unknown, another shape), and what reading a file throws.
void for_each_sample(const SampleFiles& files, const std::vector<Port>& inputs,
                     const std::function<void(const std::vector<Tensor>&)>& use);

}  // namespace xrt
