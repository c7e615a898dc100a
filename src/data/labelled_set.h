// SPDX-License-Identifier: Apache-2.0
// Labelled samples in files: part files of OneFlow's OFRecord, a folder per class, arrays, a list.
//
//   const auto set = open_labelled_set({.path = "imagenet/validation"});
//   for (std::size_t i = 0; i < set->size(); ++i) use(set->read(i));
//
// Opening looks at lengths and names; pictures and records are read when they are asked for. What
// is damaged in one sample is an error of its read(), so that others can be used.
//
// Thread-safety: a set may be read by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "xrt/tensor.h"

namespace xrt {

struct NamedArray {
  std::string name;
  Tensor values;  // of one sample, without the dimension of the batch
};

// A picture or arrays.
struct LabelledSample {
  std::string picture;  // PNG, JPEG, BMP or PNM; empty where there are arrays
  std::vector<NamedArray> arrays;
  std::int64_t label = 0;
};

class LabelledSet {
 public:
  virtual ~LabelledSet() = default;
  virtual std::size_t size() const = 0;
  // Throws xrt::Error (kInvalidArgument, kNotFound, kIo) for what is damaged or missing, without
  // the place.
  virtual LabelledSample read(std::size_t index) const = 0;
  // "/data/part-00001 at byte 4711"
  virtual std::string place(std::size_t index) const = 0;
  // Files that hold many samples each; 0 where every sample has a file of its own.
  virtual std::size_t parts() const { return 0; }

  const std::string& format() const { return format_; }
  // Names by label; empty where the set has none.
  const std::vector<std::string>& classes() const { return classes_; }

 protected:
  explicit LabelledSet(std::string format) : format_(std::move(format)) {}
  std::vector<std::string> classes_;

 private:
  std::string format_;
};

struct LabelledSource {
  // A folder, or one file: a part file, .npz or .csv.
  std::filesystem::path path;
  std::string format = "auto";    // "ofrecord", "folders", "arrays", "csv", or by what is there
  std::filesystem::path classes;  // names of the classes, one a line, the first is class 0; or none
  // Of an OFRecord; empty: "encoded", "image" or "images", and "class/label", "label" or "labels".
  std::string picture_field, label_field;
  // A folder of pictures without classes and arrays without labels are sets too, whose labels are
  // 0.
  bool without_labels = false;
};

// "auto" and the formats.
const std::vector<std::string>& labelled_formats();

// Throws xrt::Error: kNotFound (no such path, no samples in it), kInvalidArgument (it is not clear
// what is there, or without labels; a class that has no name).
std::unique_ptr<LabelledSet> open_labelled_set(const LabelledSource& source);

}  // namespace xrt
