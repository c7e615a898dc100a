// SPDX-License-Identifier: Apache-2.0
// Which format is there, and the names of the classes.
#include "data/labelled_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "data/labelled_formats.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPictures = "pictures";  // no format to name: a folder without labels
constexpr const char* kWanted =
    "part files of OFRecord (part-00000), a folder of pictures per class, .npz files with an array "
    "'labels', or a .csv of paths and labels are read";

std::vector<fs::path> entries_that(const fs::path& folder, bool (*fits)(const fs::path&)) {
  std::vector<fs::path> found;
  for (const fs::path& entry : folder_entries(folder)) {
    if (fs::is_regular_file(entry) && fits(entry)) found.push_back(entry);
  }
  return found;
}

bool is_npz(const fs::path& path) { return file_ending(path) == ".npz"; }
bool is_csv(const fs::path& path) { return file_ending(path) == ".csv"; }

bool has_folders(const fs::path& folder) {
  const std::vector<fs::path> entries = folder_entries(folder);
  return std::any_of(entries.begin(), entries.end(),
                     [](const fs::path& entry) { return fs::is_directory(entry); });
}

std::string format_of_file(const fs::path& file) {
  if (is_npz(file)) return "arrays";
  if (is_csv(file)) return "csv";
  if (is_part_file(file)) return "ofrecord";
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: what is in this file? {}; or name the format", file.string(), kWanted));
}

std::string format_of_folder(const fs::path& folder, bool without_labels) {
  std::vector<std::string> found;
  if (!entries_that(folder, is_part_file).empty()) found.emplace_back("ofrecord");
  if (!entries_that(folder, is_npz).empty()) found.emplace_back("arrays");
  if (!entries_that(folder, is_csv).empty()) found.emplace_back("csv");
  // A list beside folders is as a rule the list of what lies in them.
  if (found.empty() && has_folders(folder)) found.emplace_back("folders");
  if (found.size() > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: there are several formats ({}); name the one to read",
                            folder.string(), fmt::join(found, ", ")));
  }
  if (found.empty() && !entries_that(folder, is_picture_file).empty()) {
    if (without_labels) return kPictures;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: the pictures have no labels; {}", folder.string(), kWanted));
  }
  if (found.empty()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: there are no labelled samples; {}", folder.string(), kWanted));
  }
  return found.front();
}

std::vector<std::string> read_classes(const fs::path& file) {
  std::vector<std::string> names;
  if (file.empty()) return names;
  const std::string text = read_file(file);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string name = text.substr(at, end - at);
    if (name.ends_with('\r')) name.pop_back();
    names.push_back(std::move(name));
    at = end + 1;
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: it names no classes", file.string()));
  }
  return names;
}

std::vector<fs::path> files_of(const fs::path& path, bool (*fits)(const fs::path&)) {
  if (!fs::is_directory(path)) return {path};
  return entries_that(path, fits);
}

}  // namespace

std::string file_ending(const fs::path& path) {
  std::string text = path.extension().string();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_picture_file(const fs::path& path) {
  static constexpr std::array<std::string_view, 6> kEndings = {".png", ".jpg", ".jpeg",
                                                               ".bmp", ".ppm", ".pgm"};
  return std::find(kEndings.begin(), kEndings.end(), file_ending(path)) != kEndings.end();
}

bool is_part_file(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kStart = "part-";
  return name.starts_with(kStart) && name.size() > kStart.size() &&
         std::all_of(name.begin() + kStart.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

const std::vector<std::string>& labelled_formats() {
  static const std::vector<std::string> names = {"auto", "ofrecord", "folders", "arrays", "csv"};
  return names;
}

std::unique_ptr<LabelledSet> open_labelled_set(const LabelledSource& source) {
  const fs::path& path = source.path;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: no labelled samples are there", path.string()));
  }
  const bool folder = fs::is_directory(path);
  std::string format = source.format;
  if (format == "auto") {
    format = folder ? format_of_folder(path, source.without_labels) : format_of_file(path);
  }
  std::vector<std::string> classes = read_classes(source.classes);
  std::unique_ptr<LabelledSet> set;
  if (format == "ofrecord") {
    set = open_part_files(files_of(path, is_part_file), source, std::move(classes));
  } else if (format == "folders") {
    set = open_class_folders(path, std::move(classes));
  } else if (format == kPictures) {
    set = open_pictures(path);
  } else if (format == "arrays") {
    set = open_arrays(files_of(path, is_npz), std::move(classes), source.without_labels);
  } else if (format == "csv") {
    const std::vector<fs::path> files = files_of(path, is_csv);
    if (files.size() > 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: there are several .csv files; name one", path.string()));
    }
    if (!files.empty()) set = open_csv(files.front(), std::move(classes));
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no format '{}' of labelled samples; there are {}", format,
                            fmt::join(labelled_formats(), ", ")));
  }
  if (set == nullptr || set->size() == 0) {
    throw Error(ErrorCode::kNotFound, fmt::format("{}: there are no labelled samples (format {})",
                                                  path.string(), format));
  }
  return set;
}

}  // namespace xrt
