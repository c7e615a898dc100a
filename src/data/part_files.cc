// SPDX-License-Identifier: Apache-2.0
// Part files of OFRecord. Opening goes from length to length and reads no record. A length that is
// wrong hides what follows it in its file: that is one sample, whose reading is the error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <limits>
#include <span>
#include <utility>

#include "data/labelled_formats.h"
#include "data/ofrecord.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLengthBytes = 8;

struct RecordPlace {
  std::uint32_t file = 0;
  std::uint64_t at = 0;      // of the length
  std::uint64_t length = 0;  // as it is written
  std::uint64_t left = 0;    // bytes of the file behind `at`
};

std::ifstream open_part(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(fs::exists(path) ? ErrorCode::kIo : ErrorCode::kNotFound,
                fmt::format("{}: it cannot be read", path.string()));
  }
  return file;
}

std::uint64_t little_endian(std::span<const char, kLengthBytes> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

void read_bytes(std::ifstream& file, std::uint64_t at, char* to, std::uint64_t count) {
  file.seekg(static_cast<std::streamoff>(at));
  if (!file.read(to, static_cast<std::streamsize>(count))) {
    throw Error(ErrorCode::kIo, "a read failed");
  }
}

class PartFiles : public LabelledSet {
 public:
  PartFiles(std::vector<fs::path> files, const LabelledSource& source,
            std::vector<std::string> classes)
      : LabelledSet("ofrecord"), files_(std::move(files)) {
    classes_ = std::move(classes);
    picture_fields_ = source.picture_field.empty()
                          ? std::vector<std::string>{"encoded", "image", "images"}
                          : std::vector{source.picture_field};
    label_fields_ = source.label_field.empty()
                        ? std::vector<std::string>{"class/label", "label", "labels"}
                        : std::vector{source.label_field};
    for (std::size_t i = 0; i < files_.size(); ++i) index(static_cast<std::uint32_t>(i));
  }

  std::size_t size() const override { return records_.size(); }
  std::size_t parts() const override { return files_.size(); }

  std::string place(std::size_t index) const override {
    const RecordPlace& record = records_.at(index);
    return fmt::format("{} at byte {}", files_[record.file].string(), record.at);
  }

  LabelledSample read(std::size_t index) const override {
    const RecordPlace& record = records_.at(index);
    if (record.left < kLengthBytes) {
      refuse(fmt::format("the file is cut short: {} bytes are left, a length has {}", record.left,
                         kLengthBytes));
    }
    if (record.length > record.left - kLengthBytes) {
      refuse(
          fmt::format("a record of {} bytes, but {} are left: the length is damaged or the file "
                      "cut short",
                      record.length, record.left - kLengthBytes));
    }
    std::string content(record.length, '\0');
    std::ifstream file = open_part(files_[record.file]);
    read_bytes(file, record.at + kLengthBytes, content.data(), content.size());
    return sample_of(content);
  }

 private:
  using Features = std::map<std::string_view, OfRecordFeature>;
  using Kind = OfRecordFeature::Kind;

  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, what);
  }

  void index(std::uint32_t number) {
    const fs::path& path = files_[number];
    std::ifstream file = open_part(path);
    file.seekg(0, std::ios::end);
    const auto size = static_cast<std::uint64_t>(file.tellg());
    for (std::uint64_t at = 0; at < size;) {
      RecordPlace record{number, at, 0, size - at};
      if (record.left >= kLengthBytes) {
        char bytes[kLengthBytes];
        read_bytes(file, at, bytes, kLengthBytes);
        record.length = little_endian(bytes);
      }
      records_.push_back(record);
      if (record.left < kLengthBytes || record.length > record.left - kLengthBytes) return;
      at += kLengthBytes + record.length;
    }
  }

  static const std::pair<const std::string_view, OfRecordFeature>& find(
      const Features& features, const std::vector<std::string>& names, const char* what) {
    for (const std::string& name : names) {
      const auto found = features.find(name);
      if (found != features.end()) return *found;
    }
    std::vector<std::string_view> there;
    for (const auto& [name, feature] : features) there.push_back(name);
    refuse(
        fmt::format("the record has no {} ('{}'); it has {}", what, fmt::join(names, "', '"),
                    there.empty() ? "no fields" : fmt::format("'{}'", fmt::join(there, "', '"))));
  }

  LabelledSample sample_of(std::string_view content) const {
    const Features features = parse_ofrecord(content);
    LabelledSample sample;
    const auto& [label_name, label] = find(features, label_fields_, "label");
    if ((label.kind != Kind::kInt32 && label.kind != Kind::kInt64) || label.numbers.count() != 1) {
      refuse(fmt::format("its '{}' is no label: one integer is wanted", label_name));
    }
    sample.label = label.numbers.to_int64().front();
    const auto& [name, values] = find(features, picture_fields_, "picture");
    if (values.kind == Kind::kBytes) {
      if (values.bytes.size() != 1) {
        refuse(fmt::format("its '{}' holds {} pictures, not one", name, values.bytes.size()));
      }
      sample.picture = values.bytes.front();
    } else if (values.kind != Kind::kNone) {
      sample.arrays.push_back({std::string(name), values.numbers});
    } else {
      refuse(fmt::format("its '{}' is empty", name));
    }
    return sample;
  }

  std::vector<fs::path> files_;
  std::vector<std::string> picture_fields_, label_fields_;
  std::vector<RecordPlace> records_;
};

}  // namespace

std::unique_ptr<LabelledSet> open_part_files(const std::vector<fs::path>& files,
                                             const LabelledSource& source,
                                             std::vector<std::string> classes) {
  return std::make_unique<PartFiles>(files, source, std::move(classes));
}

}  // namespace xrt
