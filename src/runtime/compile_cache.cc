// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "ir/fingerprint.h"
#include "xrt/program.h"
#include "xrt/version.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "XRTCACHE";
constexpr std::uint32_t kFormat = 2;
// The payload begins at a multiple of this, so that engines can use its parts where they lie.
constexpr std::size_t kPayloadAlignment = 64;
constexpr std::string_view kExtension = ".xrtc";
constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{4} << 30;

// Everything before the payload, as fields.
struct Header {
  std::string xrt_version, engine, engine_version, machine, function;
};

// Zeros from `position` to the next place where a payload may begin.
std::size_t padding_after(std::size_t position) {
  return (kPayloadAlignment - position % kPayloadAlignment) % kPayloadAlignment;
}

// Layout: magic, format (u32), five length-prefixed strings, payload length (u64), zeros up to the
// payload's alignment, payload, checksum (two u64) over all that precedes it. Little-endian, as all
// machines this runs on.
std::string encode(const Header& header, const std::string& payload) {
  std::string out(kMagic);
  const auto put = [&](const void* p, std::size_t n) {
    out.append(static_cast<const char*>(p), n);
  };
  put(&kFormat, sizeof(kFormat));
  for (const std::string* s : {&header.xrt_version, &header.engine, &header.engine_version,
                               &header.machine, &header.function}) {
    const std::uint64_t n = s->size();
    put(&n, sizeof(n));
    out += *s;
  }
  const std::uint64_t n = payload.size();
  out.reserve(out.size() + payload.size() + 2 * kPayloadAlignment);
  put(&n, sizeof(n));
  out.append(padding_after(out.size()), '\0');
  out += payload;
  const Digest d = hash_bytes(out.data(), out.size());
  put(&d.low, sizeof(d.low));
  put(&d.high, sizeof(d.high));
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool number(void* to, std::size_t n) {
    if (bytes_.size() < n) return false;
    std::memcpy(to, bytes_.data(), n);
    bytes_.remove_prefix(n);
    return true;
  }
  bool text(std::string_view& to) {
    std::uint64_t n = 0;
    if (!number(&n, sizeof(n)) || n > bytes_.size()) return false;
    to = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return true;
  }
  // The last field of `whole`, of which this reader has read the beginning.
  bool payload(std::string_view& to, std::string_view whole) {
    std::uint64_t n = 0;
    if (!number(&n, sizeof(n))) return false;
    const auto position = static_cast<std::size_t>(bytes_.data() - whole.data());
    const std::size_t padding = padding_after(position);
    if (padding > bytes_.size() || n != bytes_.size() - padding) return false;
    to = bytes_.substr(padding);
    bytes_ = {};
    return true;
  }

 private:
  std::string_view bytes_;
};

// The header and payload of a whole, uncorrupted entry; nothing otherwise.
std::optional<std::pair<Header, std::string_view>> decode(std::string_view bytes) {
  constexpr std::size_t kChecksum = 16;
  if (bytes.size() < kMagic.size() + kChecksum || !bytes.starts_with(kMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksum);
  Digest stored;
  std::memcpy(&stored.low, bytes.data() + body.size(), 8);
  std::memcpy(&stored.high, bytes.data() + body.size() + 8, 8);
  if (hash_bytes(body.data(), body.size()) != stored) return std::nullopt;
  Reader reader(body.substr(kMagic.size()));
  std::uint32_t format = 0;
  if (!reader.number(&format, sizeof(format)) || format != kFormat) return std::nullopt;
  Header header;
  for (std::string* s : {&header.xrt_version, &header.engine, &header.engine_version,
                         &header.machine, &header.function}) {
    std::string_view field;
    if (!reader.text(field)) return std::nullopt;
    *s = field;
  }
  std::string_view payload;
  if (!reader.payload(payload, bytes)) return std::nullopt;
  return std::pair{std::move(header), payload};
}

Header header_for(const Engine& engine, const Function& function) {
  return {std::string(version()), engine.name(), engine.version(), machine_identity(),
          function.name};
}

// Why an entry written under `stored` is of no use under `wanted`; empty if it is of use.
std::string difference(const Header& stored, const Header& wanted) {
  const auto changed = [](const char* what, const std::string& a, const std::string& b) {
    return a == b ? std::string{} : std::string(what) + " was '" + a + "' and is '" + b + "'";
  };
  for (const std::string& text :
       {changed("the OpenXRT version", stored.xrt_version, wanted.xrt_version),
        changed("the engine", stored.engine, wanted.engine),
        changed("the engine's version", stored.engine_version, wanted.engine_version),
        changed("the machine", stored.machine, wanted.machine)}) {
    if (!text.empty()) return text;
  }
  return {};
}

std::string key_of(const Engine& engine, const Function& function, const CompileOptions& options) {
  Hasher hasher;
  const Digest graph = fingerprint(function.graph);
  hasher.add(engine.name()).add_bytes(&graph, sizeof(graph));
  hasher.add(static_cast<std::int64_t>(function.aliases.size()));
  for (const InputOutputAlias& a : function.aliases) hasher.add(a.input).add(a.output);
  hasher.add(options.device).add(options.num_threads);
  hasher.add(static_cast<std::int64_t>(options.phase));
  for (const auto& [name, value] : options.engine_options) hasher.add(name).add(value);
  return engine.name() + "-" + hasher.digest().hex();
}

std::uint64_t max_bytes() {
  const char* text = std::getenv("XRT_CACHE_MAX_BYTES");
  if (text == nullptr || *text == '\0') return kDefaultMaxBytes;
  return std::strtoull(text, nullptr, 10);
}

struct File {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

std::vector<File> entries(const fs::path& dir) {
  std::vector<File> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.path().extension() != kExtension) continue;
    std::error_code gone;  // another process may remove it meanwhile
    const auto bytes = entry.file_size(gone);
    const auto used = entry.last_write_time(gone);
    if (!gone) files.push_back({entry.path(), bytes, used});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used, a.path) < std::pair(b.used, b.path);
  });
  return files;
}

// Drops the entries used longest ago until `incoming` more bytes fit.
void make_room(const fs::path& dir, std::uint64_t incoming) {
  const std::vector<File> files = entries(dir);
  std::uint64_t total = incoming;
  for (const File& f : files) total += f.bytes;
  const std::uint64_t limit = max_bytes();
  for (const File& f : files) {
    if (total <= limit) return;
    std::error_code error;
    if (fs::remove(f.path, error)) total -= f.bytes;
  }
}

// Entries are native code: a folder that others may write is not trusted.
void prepare_folder(const fs::path& dir) {
  std::error_code error;
  if (!fs::exists(dir, error)) {
    fs::create_directories(dir, error);
    if (!error) fs::permissions(dir, fs::perms::owner_all, error);
    if (error) {
      throw Error(ErrorCode::kIo, "cannot create '" + dir.string() + "': " + error.message());
    }
  }
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    throw Error(ErrorCode::kIo, "'" + dir.string() + "' is not a folder");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw Error(ErrorCode::kIo, "'" + dir.string() +
                                    "' belongs to or can be written by others, so what it holds "
                                    "is not trusted (chmod 700 and own it)");
  }
}

std::shared_ptr<const Executable> load_entry(const fs::path& path, const Engine& engine,
                                             const Function& function,
                                             const CompileOptions& options) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const auto decoded = decode({reinterpret_cast<const char*>(file->data()), file->size()});
  if (!decoded) {
    log_warning("cache entry '" + path.string() + "' is corrupt: compiling again");
    return nullptr;
  }
  const std::string changed = difference(decoded->first, header_for(engine, function));
  if (!changed.empty()) {
    log_info("cache entry '" + path.string() + "' is stale: " + changed + ": compiling again");
    return nullptr;
  }
  // Engines read the payload only; entries are replaced by renaming, so the mapping stays whole.
  const std::string_view payload = decoded->second;
  const Tensor blob = Tensor::wrap(DType::kUInt8, {static_cast<std::int64_t>(payload.size())},
                                   const_cast<char*>(payload.data()), file);
  auto executable = engine.load(blob, function, options);
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return executable;
}

CompileResult compile_on_disk(const Engine& engine, const Function& function,
                              const CompileOptions& options, const fs::path& dir,
                              const std::string& key) {
  const fs::path path = dir / (key + std::string(kExtension));
  std::unique_ptr<FileLock> lock;
  try {
    prepare_folder(dir);
    // Held while compiling: who finds another process at work on this entry waits and then loads.
    lock = std::make_unique<FileLock>(dir / (key + ".lock"));
    if (auto executable = load_entry(path, engine, function, options)) return {executable, true};
  } catch (const Error& error) {
    log_warning("compile cache: " + std::string(error.what()) + ": compiling without it");
  }
  auto executable = engine.compile(function, options);
  if (lock == nullptr) return {executable, false};
  try {
    if (const auto payload = executable->serialize()) {
      const std::string bytes = encode(header_for(engine, function), *payload);
      make_room(dir, bytes.size());
      if (bytes.size() <= max_bytes()) write_file_atomic(path, bytes);
    }
  } catch (const Error& error) {
    log_warning("compile cache: " + std::string(error.what()) + ": the entry was not kept");
  }
  return {executable, false};
}

// One executable per key while anybody uses it; concurrent misses of one key compile once.
class MemoryCache {
 public:
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const Executable> executable;
  };
  std::shared_ptr<Entry> entry(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& item) {
      return item.second.use_count() == 1 && item.second->executable.expired();
    });
    auto& slot = entries_[key];
    if (slot == nullptr) slot = std::make_shared<Entry>();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace

const std::string& machine_identity() {
  static const std::string identity = [] {
    std::ifstream info("/proc/cpuinfo");
    std::string model;
    std::string flags;
    for (std::string line; std::getline(info, line) && (model.empty() || flags.empty());) {
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      if (line.starts_with("model name")) model = line.substr(colon + 2);
      if (line.starts_with("flags")) flags = line.substr(colon + 2);
    }
    return model + " " + hash_bytes(flags.data(), flags.size()).hex();
  }();
  return identity;
}

CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const fs::path& dir) {
  static MemoryCache memory;
  const std::string key = key_of(engine, function, options);
  const auto entry = memory.entry(key);
  const std::lock_guard lock(entry->mutex);
  if (auto executable = entry->executable.lock()) return {executable, true};
  CompileResult result = dir.empty() ? CompileResult{engine.compile(function, options), false}
                                     : compile_on_disk(engine, function, options, dir, key);
  entry->executable = result.executable;
  return result;
}

fs::path default_cache_dir() {
  const char* dir = std::getenv("XRT_CACHE_DIR");
  return dir == nullptr ? fs::path{} : fs::path(dir);
}

std::vector<CacheEntry> list_cache(const fs::path& dir) {
  std::vector<CacheEntry> list;
  for (const File& f : entries(dir)) {
    CacheEntry entry;
    entry.key = f.path.stem().string();
    entry.bytes = f.bytes;
    entry.last_used_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::file_clock::to_sys(f.used).time_since_epoch())
                               .count();
    const std::string bytes = read_file(f.path);
    if (const auto decoded = decode(bytes)) {
      entry.valid = true;
      entry.engine = decoded->first.engine;
      entry.function = decoded->first.function;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::size_t clear_cache(const fs::path& dir) {
  std::size_t removed = 0;
  for (const File& f : entries(dir)) {
    std::error_code error;
    if (fs::remove(f.path, error)) ++removed;
    fs::remove(fs::path(f.path).replace_extension(".lock"), error);
  }
  return removed;
}

}  // namespace xrt
