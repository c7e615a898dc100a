// SPDX-License-Identifier: Apache-2.0
// .npz: a ZIP archive of .npy files, read and written with libzip.
#include <fmt/format.h>
#include <zip.h>

#include <memory>
#include <string>

#include "data/npy.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// What deflate can shrink at most; a larger claim is a damaged or hostile archive.
constexpr std::uint64_t kMaxRatio = 1100;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using File = std::unique_ptr<zip_file_t, CloseFile>;

[[noreturn]] void fail(ErrorCode code, const std::filesystem::path& path, const std::string& what) {
  throw Error(code, fmt::format("{}: {}", path.string(), what));
}

Archive open(const std::filesystem::path& path, int flags) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    const ErrorCode kind = code == ZIP_ER_NOENT    ? ErrorCode::kNotFound
                           : code == ZIP_ER_NOZIP  ? ErrorCode::kInvalidArgument
                           : code == ZIP_ER_INCONS ? ErrorCode::kInvalidArgument
                                                   : ErrorCode::kIo;
    fail(kind, path, text);
  }
  return archive;
}

// `left`: bytes of the file that no entry before has claimed. Entries lie side by side; where the
// archive's directory says else, a small file could claim any size, or one entry's many times.
std::string read_entry(zip_t* archive, zip_uint64_t index, const std::filesystem::path& path,
                       std::string& name, std::uint64_t& left) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0 ||
      (stat.valid & ZIP_STAT_SIZE) == 0 || (stat.valid & ZIP_STAT_COMP_SIZE) == 0) {
    fail(ErrorCode::kInvalidArgument, path, "a damaged entry");
  }
  name = stat.name;
  if (stat.size / kMaxRatio > stat.comp_size || stat.comp_size > left) {
    fail(ErrorCode::kInvalidArgument, path, fmt::format("{}: an impossible size", name));
  }
  left -= stat.comp_size;
  const File file(zip_fopen_index(archive, index, 0));
  if (file == nullptr) {
    fail(ErrorCode::kInvalidArgument, path, fmt::format("{}: {}", name, zip_strerror(archive)));
  }
  std::string content(stat.size, '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const zip_int64_t got = zip_fread(file.get(), content.data() + filled, content.size() - filled);
    if (got <= 0) {
      fail(ErrorCode::kInvalidArgument, path,
           fmt::format("{}: {}", name, got < 0 ? zip_file_strerror(file.get()) : "it is cut off"));
    }
    filled += static_cast<std::size_t>(got);
  }
  // The checksum is compared when the end is read.
  char beyond = 0;
  if (zip_fread(file.get(), &beyond, 1) != 0) {
    fail(ErrorCode::kInvalidArgument, path, fmt::format("{}: its checksum is wrong", name));
  }
  return content;
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path,
                                       const WantedDTypes& wanted) {
  const Archive archive = open(path, ZIP_RDONLY);
  std::error_code error;
  std::uint64_t left = std::filesystem::file_size(path, error);
  if (error) fail(ErrorCode::kIo, path, error.message());
  std::map<std::string, Tensor> arrays;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    std::string name;
    const std::string content =
        read_entry(archive.get(), static_cast<zip_uint64_t>(i), path, name, left);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    const auto dtype = wanted.find(name);
    arrays[name] = parse_npy(content, fmt::format("{}, array '{}'", path.string(), name),
                             dtype == wanted.end() ? DType::kUndefined : dtype->second);
  }
  return arrays;
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays) {
  std::map<std::string, std::string> files;  // must live until the archive is closed
  for (const auto& [name, tensor] : arrays) files[name + ".npy"] = format_npy(tensor);
  Archive archive = open(path, ZIP_CREATE | ZIP_TRUNCATE);
  for (const auto& [name, content] : files) {
    zip_source_t* source = zip_source_buffer(archive.get(), content.data(), content.size(), 0);
    const zip_int64_t index =
        source == nullptr ? -1
                          : zip_file_add(archive.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      fail(ErrorCode::kIo, path, fmt::format("{}: {}", name, zip_strerror(archive.get())));
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0) fail(ErrorCode::kIo, path, zip_strerror(archive.get()));
  static_cast<void>(archive.release());  // zip_close() took it
}

}  // namespace xrt
