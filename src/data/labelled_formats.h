// SPDX-License-Identifier: Apache-2.0
// The formats of labelled_set.h, a function each; and what they share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/labelled_set.h"

namespace xrt {

// Each gets the files or the folder that it is to read, and the names of the classes, which may be
// none.
std::unique_ptr<LabelledSet> open_part_files(const std::vector<std::filesystem::path>& files,
                                             const LabelledSource& source,
                                             std::vector<std::string> classes);
std::unique_ptr<LabelledSet> open_class_folders(const std::filesystem::path& folder,
                                                std::vector<std::string> classes);
// Pictures of a folder alone; every label is 0.
std::unique_ptr<LabelledSet> open_pictures(const std::filesystem::path& folder);
std::unique_ptr<LabelledSet> open_csv(const std::filesystem::path& file,
                                      std::vector<std::string> classes);
std::unique_ptr<LabelledSet> open_arrays(const std::vector<std::filesystem::path>& files,
                                         std::vector<std::string> classes, bool without_labels);

// ".jpg" of "A.JPG".
std::string file_ending(const std::filesystem::path& path);
bool is_picture_file(const std::filesystem::path& path);
// Whether an array of that name holds labels.
bool is_label_name(const std::string& name);
// A part file by its name: part-00000.
bool is_part_file(const std::filesystem::path& path);

}  // namespace xrt
