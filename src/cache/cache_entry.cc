// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_entry.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "base/byte_variable.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/per_process.h"
#include "device/processor.h"
#include "device/threads.h"
#include "registry/engine_provider.h"
#include "xrt/cache.h"
#include "xrt/registry.h"
#include "xrt/threads.h"
#include "xrt/version.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "XRTCACHE";
constexpr std::uint32_t kFormat = 5;
// The payload begins at a multiple of this, so that its parts can be used where they lie.
constexpr std::size_t kPayloadAlignment = 64;
constexpr std::string_view kExtension = ".xrtc";
constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{4} << 30;
constexpr std::size_t kChecksumBytes = 16;

// Zeros from `position` to the next place where a payload may begin.
std::size_t padding_after(std::size_t position) {
  return (kPayloadAlignment - position % kPayloadAlignment) % kPayloadAlignment;
}

// Layout: magic, format (u32), five length-prefixed strings, lengths of the payload's front and
// rest (two u64), digest of the rest (two u64), zeros up to the payload's alignment, payload,
// checksum (two u64). Little-endian, as all machines this runs on.
std::string encode_head(const EntryHeader& header, std::uint64_t front_bytes,
                        std::uint64_t rest_bytes, const Digest& rest) {
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
  for (const std::uint64_t n : {front_bytes, rest_bytes, rest.low, rest.high}) put(&n, sizeof(n));
  out.append(padding_after(out.size()), '\0');
  return out;
}

// The checksum covers the key, the head, which has the digest of the rest, and the digest of the
// front.
Digest checksum(const std::string& key, std::string_view head, const Digest& front) {
  Hasher hasher;
  hasher.add(key).add(head);
  hasher.add(static_cast<std::int64_t>(front.low)).add(static_cast<std::int64_t>(front.high));
  return hasher.digest();
}

Digest digest_of(std::string_view bytes) {
  return hash_large(bytes.data(), bytes.size(), thread_budget());
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
  bool text(std::string& to) {
    std::uint64_t n = 0;
    if (!number(&n, sizeof(n)) || n > bytes_.size()) return false;
    to = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return true;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

struct Decoded {
  EntryHeader header;
  std::string_view front, rest;  // of the payload
  Digest rest_digest;
};

// An entry whose head and front are as they were written under this key; nothing otherwise.
std::optional<Decoded> decode(const std::string& key, std::string_view bytes) {
  if (bytes.size() < kMagic.size() + kChecksumBytes || !bytes.starts_with(kMagic)) {
    return std::nullopt;
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  Reader reader(body.substr(kMagic.size()));
  std::uint32_t format = 0;
  if (!reader.number(&format, sizeof(format)) || format != kFormat) return std::nullopt;
  Decoded entry;
  EntryHeader& header = entry.header;
  for (std::string* s : {&header.xrt_version, &header.engine, &header.engine_version,
                         &header.machine, &header.function}) {
    if (!reader.text(*s)) return std::nullopt;
  }
  std::uint64_t front = 0;
  std::uint64_t rest = 0;
  for (std::uint64_t* n : {&front, &rest, &entry.rest_digest.low, &entry.rest_digest.high}) {
    if (!reader.number(n, sizeof(*n))) return std::nullopt;
  }
  const std::size_t position = body.size() - reader.rest().size();
  const std::size_t padding = padding_after(position);
  if (padding > reader.rest().size()) return std::nullopt;
  const std::string_view payload = body.substr(position + padding);
  if (front > payload.size() || rest != payload.size() - front) return std::nullopt;
  entry.front = payload.substr(0, front);
  entry.rest = payload.substr(front);
  Digest stored;
  std::memcpy(&stored.low, bytes.data() + body.size(), 8);
  std::memcpy(&stored.high, bytes.data() + body.size() + 8, 8);
  const std::string_view head = body.substr(0, position + padding);
  if (checksum(key, head, digest_of(entry.front)) != stored) return std::nullopt;
  return entry;
}

std::uint64_t max_bytes() {
  return byte_variable("XRT_CACHE_MAX_BYTES").value_or(kDefaultMaxBytes);
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

// Files that a process was writing when it was killed; of this age nobody writes to one any more.
constexpr auto kAbandoned = std::chrono::hours(1);

void remove_temporaries(const fs::path& dir, std::chrono::hours age) {
  const std::string mark = std::string(kExtension) + ".tmp";  // see write_file_atomic()
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.path().filename().native().find(mark) == std::string::npos) continue;
    std::error_code gone;
    const auto written = entry.last_write_time(gone);
    const auto now = fs::file_time_type::clock::now();
    // Of as long ahead it was left by a clock that has been set back since.
    if (!gone && (written + age <= now || written > now + age)) fs::remove(entry, gone);
  }
}

// Times that are yet to come are of a clock that was ahead, and has been set back. Such entries
// would outlast those in use for as long: they count as used now, and age from here on.
void settle_times(const fs::path& dir) {
  const auto now = fs::file_time_type::clock::now();
  for (const File& f : entries(dir)) {
    std::error_code gone;
    if (f.used > now) fs::last_write_time(f.path, now, gone);
  }
}

// Drops the entries used longest ago until `incoming` more bytes fit.
void make_room(const fs::path& dir, std::uint64_t incoming, std::uint64_t limit) {
  remove_temporaries(dir, kAbandoned);
  settle_times(dir);
  const std::vector<File> files = entries(dir);
  std::uint64_t total = incoming;
  for (const File& f : files) total += f.bytes;
  for (const File& f : files) {
    if (total <= limit) return;
    std::error_code error;
    if (fs::remove(f.path, error)) total -= f.bytes;
    fs::remove(fs::path(f.path).replace_extension(".lock"), error);
  }
}

void warn_corrupt(const fs::path& path) {
  log_warning("cache entry '" + path.string() + "' is corrupt: it is made again");
}

// The entry if all of it is as it was written.
std::optional<EntryFile> whole(const fs::path& path, std::optional<EntryFile> entry) {
  if (!entry || entry->rest_is_intact()) return entry;
  warn_corrupt(path);
  return std::nullopt;
}

// Size and time of last change of a file, as text; empty where there is none.
std::string file_stamp(const fs::path& path) {
  struct stat info {};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
  return std::to_string(info.st_size) + "-" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

// The version, and the stamp of the library: a build of changed code keeps the version.
const std::string& library_identity() {
  static const std::string identity = [] {
    Dl_info info{};
    const bool found = ::dladdr(reinterpret_cast<const void*>(&library_identity), &info) != 0;
    return std::string(version()) + " (" + (found ? file_stamp(info.dli_fname) : "") + ")";
  }();
  return identity;
}

}  // namespace

EntryHeader entry_header(std::string engine, std::string engine_version, std::string function) {
  return {library_identity(), std::move(engine), std::move(engine_version), machine_identity(),
          std::move(function)};
}

std::string difference(const EntryHeader& stored, const EntryHeader& wanted) {
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

const std::string& machine_identity() {
  static const std::string identity = [] {
    Hasher flags;
    for (const std::string& flag : processor().flags) flags.add(flag);
    return processor().model + " " + flags.digest().hex();
  }();
  return identity;
}

std::string engine_stamp(const std::string& name) {
  if (const fs::path library = engine_library(name); !library.empty()) return file_stamp(library);
  const std::shared_ptr<const Engine> engine = get_engine(name);
  const std::vector<std::string>& files = engine->info().files;
  Hasher hasher;
  for (const std::string& file : files) {
    const std::string stamp = file_stamp(file);
    if (stamp.empty()) return {};
    hasher.add(file).add(stamp);
  }
  return files.empty() ? std::string{} : hasher.digest().hex();
}

std::string engine_identity(const std::string& name) {
  const std::string version = get_engine(name)->info().version;
  const std::string stamp = engine_stamp(name);
  return stamp.empty() ? version : version + " (" + stamp + ")";
}

fs::path entry_path(const fs::path& dir, const std::string& key) {
  return dir / (key + std::string(kExtension));
}

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

bool EntryFile::rest_is_intact() const {
  const auto* begin = static_cast<const char*>(std::as_const(payload).raw()) + front_bytes;
  return digest_of({begin, payload.bytes() - front_bytes}) == rest_digest;
}

std::optional<EntryFile> open_entry(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  auto decoded =
      decode(path.stem().string(), {reinterpret_cast<const char*>(file->data()), file->size()});
  if (!decoded) {
    warn_corrupt(path);
    return std::nullopt;
  }
  // Whoever reads the payload does not write to it.
  const auto bytes = static_cast<std::int64_t>(decoded->front.size() + decoded->rest.size());
  return EntryFile{
      std::move(decoded->header),
      Tensor::wrap(DType::kUInt8, {bytes}, const_cast<char*>(decoded->front.data()), file),
      decoded->front.size(), decoded->rest_digest};
}

std::optional<EntryFile> open_entry(const fs::path& path, const EntryHeader& wanted) {
  std::optional<EntryFile> entry = open_entry(path);
  if (!entry) return std::nullopt;
  const std::string changed = difference(entry->header, wanted);
  if (!changed.empty()) {
    log_info("cache entry '" + path.string() + "' is stale: " + changed + ": it is made again");
    return std::nullopt;
  }
  std::error_code error;  // a folder that is read-only keeps the old time
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return entry;
}

std::optional<EntryFile> read_entry(const fs::path& path) { return whole(path, open_entry(path)); }

std::optional<Tensor> read_entry(const fs::path& path, const EntryHeader& wanted) {
  std::optional<EntryFile> entry = whole(path, open_entry(path, wanted));
  if (!entry) return std::nullopt;
  return std::move(entry->payload);
}

void write_entry(const fs::path& dir, const std::string& key, const EntryHeader& header,
                 std::span<const std::string_view> payload, std::size_t front_pieces,
                 std::uint64_t most_bytes) {
  front_pieces = std::min(front_pieces, payload.size());
  const auto digest = [](std::span<const std::string_view> pieces, std::uint64_t& bytes) {
    LargeHasher hasher;
    for (const std::string_view piece : pieces) {
      bytes += piece.size();
      hasher.add_bytes(piece.data(), piece.size());
    }
    return hasher.finish();
  };
  std::uint64_t front_bytes = 0;
  std::uint64_t rest_bytes = 0;
  const Digest front = digest(payload.first(front_pieces), front_bytes);
  const Digest rest = digest(payload.subspan(front_pieces), rest_bytes);
  const std::string head = encode_head(header, front_bytes, rest_bytes, rest);
  const Digest sum = checksum(key, head, front);
  char tail[kChecksumBytes];
  std::memcpy(tail, &sum.low, 8);
  std::memcpy(tail + 8, &sum.high, 8);
  std::vector<std::string_view> pieces{head};
  pieces.insert(pieces.end(), payload.begin(), payload.end());
  pieces.emplace_back(tail, kChecksumBytes);
  const std::uint64_t bytes = head.size() + front_bytes + rest_bytes + kChecksumBytes;
  const std::uint64_t limit = std::min(max_bytes(), most_bytes);
  if (bytes > limit) return;
  make_room(dir, bytes, limit);
  write_file_atomic(entry_path(dir, key), pieces);
}

void log_trouble(const fs::path& dir, const std::string& what) {
  struct Told {
    std::mutex mutex;
    std::set<fs::path> dirs;
  };
  static PerProcess<Told> told;
  const bool is_first = [&] {
    const std::lock_guard lock(told.get().mutex);
    return told.get().dirs.insert(dir).second;
  }();
  const std::string text = "cache folder '" + dir.string() + "': " + what;
  is_first ? log_warning(text) : log_info(text);
}

fs::path default_cache_dir() {
  const char* dir = std::getenv("XRT_CACHE_DIR");
  return dir == nullptr ? fs::path{} : fs::path(dir);
}

fs::path default_decision_dir() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view{} : std::string_view(value);
  };
  if (std::getenv("XRT_CACHE_DIR") != nullptr) return default_cache_dir();
  // A relative path in this variable is to be ignored (XDG Base Directory Specification).
  fs::path base = variable("XDG_CACHE_HOME");
  if (!base.is_absolute()) {
    const fs::path home = variable("HOME");
    if (!home.is_absolute()) return {};
    base = home / ".cache";
  }
  return base / "openxrt" / "decisions";
}

std::vector<CacheEntry> list_cache(const fs::path& dir) {
  finish_writing();
  std::vector<CacheEntry> list;
  for (const File& f : entries(dir)) {
    CacheEntry entry;
    entry.key = f.path.stem().string();
    entry.bytes = f.bytes;
    entry.last_used_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::file_clock::to_sys(f.used).time_since_epoch())
                               .count();
    if (const auto file = read_entry(f.path)) {
      entry.valid = true;
      entry.engine = file->header.engine;
      entry.function = file->header.function;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::size_t clear_cache(const fs::path& dir) {
  finish_writing();
  std::size_t removed = 0;
  remove_temporaries(dir, kAbandoned);
  for (const File& f : entries(dir)) {
    std::error_code error;
    if (fs::remove(f.path, error)) ++removed;
    fs::remove(fs::path(f.path).replace_extension(".lock"), error);
  }
  return removed;
}

}  // namespace xrt
