// SPDX-License-Identifier: Apache-2.0
// Pictures in files: a folder per class, as torchvision's ImageFolder has them, or a list of paths
// and labels.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/nearest.h"
#include "data/labelled_formats.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

struct PictureFile {
  fs::path path;
  std::int64_t label = 0;
  std::size_t line = 0;  // of the list; 0: there is none
};

class PictureFiles : public LabelledSet {
 public:
  PictureFiles(std::string format, fs::path list, std::vector<PictureFile> files,
               std::vector<std::string> classes)
      : LabelledSet(std::move(format)), list_(std::move(list)), files_(std::move(files)) {
    classes_ = std::move(classes);
  }
  std::size_t size() const override { return files_.size(); }
  std::string place(std::size_t index) const override {
    const PictureFile& file = files_.at(index);
    if (file.line == 0) return file.path.string();
    return fmt::format("{} line {} ({})", list_.string(), file.line, file.path.string());
  }
  LabelledSample read(std::size_t index) const override {
    LabelledSample sample;
    sample.picture = read_file(files_.at(index).path);
    sample.label = files_.at(index).label;
    if (sample.picture.empty()) throw Error(ErrorCode::kInvalidArgument, "the file is empty");
    return sample;
  }

 private:
  fs::path list_;
  std::vector<PictureFile> files_;
};

// Number of each name.
class ClassNumbers {
 public:
  explicit ClassNumbers(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      numbers_.emplace(names[i], static_cast<std::int64_t>(i));
    }
  }
  std::int64_t of(const std::string& name, const std::string& place) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, number] : numbers_) known.push_back(each);
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: no class is called '{}'{}", place, name, suggestion(name, known)));
  }

 private:
  std::map<std::string, std::int64_t> numbers_;
};

void add_pictures(const fs::path& folder, std::int64_t label, std::vector<PictureFile>& files) {
  for (const fs::path& entry : folder_entries(folder)) {
    if (fs::is_directory(entry)) {
      // A link may lead back to where it lies.
      if (!fs::is_symlink(entry)) add_pictures(entry, label, files);
    } else if (is_picture_file(entry)) {
      files.push_back({entry, label, 0});
    }
  }
}

// The fields of one line; "" within quotes is a quote. `at` goes behind the line.
std::vector<std::string> csv_fields(const std::string& text, std::size_t& at,
                                    const std::string& place) {
  std::vector<std::string> fields(1);
  bool quotes = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quotes) {
      if (c != '"') {
        fields.back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        fields.back() += text[++at];
      } else {
        quotes = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      quotes = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quotes) throw Error(ErrorCode::kInvalidArgument, place + ": a quote is not closed");
  return fields;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

struct Columns {
  std::size_t path = 0, label = 1;
  bool text = false;  // labels are texts, also where they look like numbers
};

// Where the first line names the columns: which they are.
std::optional<Columns> named_columns(const std::vector<std::string>& fields) {
  const auto column = [&](std::initializer_list<const char*> names) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::string field = fields[i];
      std::transform(field.begin(), field.end(), field.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (std::find(names.begin(), names.end(), field) != names.end()) return i;
    }
    return std::nullopt;
  };
  const auto path = column({"path", "file", "filename", "image"});
  const auto label = column({"label", "class", "target"});
  const auto text = column({"text"});
  if (path && label) return Columns{*path, *label};
  if (path && text) return Columns{*path, *text, true};
  return std::nullopt;
}

struct ListRow {
  std::string path, label;
  std::size_t line = 0;
};

// `columns` becomes what the first line names.
std::vector<ListRow> read_list(const fs::path& file, Columns& columns) {
  const std::string text = read_file(file);
  std::vector<ListRow> rows;
  std::size_t line = 1;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    const std::size_t begin = at;
    const std::string place = fmt::format("{} line {}", file.string(), line);
    std::vector<std::string> fields = csv_fields(text, at, place);
    const std::size_t here = line;
    line +=
        static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (here == 1) {
      if (const auto named = named_columns(fields)) {
        columns = *named;
        continue;
      }
    }
    if (fields.size() <= std::max(columns.path, columns.label)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: there is no label; PATH,LABEL is wanted", place));
    }
    rows.push_back({fields[columns.path], fields[columns.label], here});
  }
  return rows;
}

}  // namespace

std::unique_ptr<LabelledSet> open_class_folders(const fs::path& folder,
                                                std::vector<std::string> classes) {
  std::vector<std::string> names;
  for (const fs::path& entry : folder_entries(folder)) {
    if (fs::is_directory(entry)) names.push_back(entry.filename().string());
  }
  if (classes.empty()) classes = names;
  const ClassNumbers numbers(classes);
  std::vector<PictureFile> files;
  for (const std::string& name : names) {
    add_pictures(folder / name, numbers.of(name, (folder / name).string()), files);
  }
  return std::make_unique<PictureFiles>("folders", fs::path(), std::move(files),
                                        std::move(classes));
}

std::unique_ptr<LabelledSet> open_pictures(const fs::path& folder) {
  std::vector<PictureFile> files;
  for (const fs::path& entry : folder_entries(folder)) {
    if (fs::is_regular_file(entry) && is_picture_file(entry)) files.push_back({entry, 0, 0});
  }
  return std::make_unique<PictureFiles>("pictures", fs::path(), std::move(files),
                                        std::vector<std::string>{});
}

std::unique_ptr<LabelledSet> open_csv(const fs::path& file, std::vector<std::string> classes) {
  Columns columns;
  const std::vector<ListRow> rows = read_list(file, columns);
  const bool numbered =
      !columns.text && std::all_of(rows.begin(), rows.end(), [](const ListRow& row) {
        return whole_number(row.label).has_value();
      });
  if (!numbered && classes.empty()) {
    for (const ListRow& row : rows) classes.push_back(row.label);
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  }
  const ClassNumbers numbers(classes);
  std::vector<PictureFile> files;
  for (const ListRow& row : rows) {
    const std::int64_t label =
        numbered ? *whole_number(row.label)
                 : numbers.of(row.label, fmt::format("{} line {}", file.string(), row.line));
    files.push_back({file.parent_path() / row.path, label, row.line});
  }
  return std::make_unique<PictureFiles>("csv", file, std::move(files), std::move(classes));
}

}  // namespace xrt
