// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/at_fork.h"
#include "base/interrupt.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path) {
  const int error = errno;
  throw Error(
      error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
      "cannot " + action + " '" + path.string() + "': " + std::generic_category().message(error));
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, const std::string& action)
      // A named pipe that nobody writes to is no reason to wait: it is refused (regular_size()).
      : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail(action, path);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::size_t regular_size(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail("read", path);
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kIo, "cannot read '" + path.string() + "': it is not a regular file");
  }
  return static_cast<std::size_t>(info.st_size);
}

// A write beyond the limit of a file's size (ulimit -f) sends the thread SIGXFSZ, which ends a
// process that has not asked for anything else. While one of these lives it is an error of write().
class NoSizeSignal {
 public:
  NoSizeSignal() : signal_(), before_() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    sigset_t waiting;
    ::sigpending(&waiting);
    is_ours_ = ::sigismember(&waiting, SIGXFSZ) == 0 &&
               ::pthread_sigmask(SIG_BLOCK, &signal_, &before_) == 0;
  }
  ~NoSizeSignal() {
    if (!is_ours_) return;
    const int error = errno;
    const timespec at_once{};
    while (::sigtimedwait(&signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
  bool is_ours_ = false;
};

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  const NoSizeSignal guard;
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::filesystem::path name_aside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.string() + ".tmp" + std::to_string(::getpid()) + "_" +
         std::to_string(counter.fetch_add(1));
}

// Bytes that were read into `room`: fewer where the file ends before.
std::size_t read_up_to(int file, std::span<char> room, const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < room.size()) {
    const ssize_t n = ::read(file, room.data() + done, room.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY, "open");
  const std::size_t size = regular_size(file.get(), path);
  const bool is_read = size <= kSmall;
  void* memory = nullptr;
  if (size > 0) {
    memory = is_read
                 ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                 : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) fail("map", path);
  }
  auto* const data = static_cast<std::byte*>(memory);
  const std::shared_ptr<MappedFile> mapped(new MappedFile(data, size, size));
  if (is_read && size > 0) {
    mapped->size_ = read_up_to(file.get(), {reinterpret_cast<char*>(data), size}, path);
    if (::mprotect(memory, size, PROT_READ) != 0) fail("map", path);
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), mapped_);
}

void MappedFile::release_pages() const {
  if (mapped_ > kSmall) ::madvise(const_cast<std::byte*>(data_), mapped_, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY, "open");
  std::string content(regular_size(file.get(), path), '\0');
  content.resize(read_up_to(file.get(), content, path));
  return content;
}

std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  if (error) {
    errno = error.value();
    fail("read", folder);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Where a new file goes, and how.
struct NewFile::Place {
  std::filesystem::path target;  // behind links
  bool aside = true;
  mode_t created = 0666;   // which the process's mask narrows
  mode_t kept = 0;         // that of the old file, whatever the mask; 0: there is none
  int in_place = O_CREAT;  // how to open what is not written aside
};

NewFile::Place NewFile::place_of(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    // A link to a file that is not there yet is written through, too.
    return {.target = path, .aside = ::lstat(path.c_str(), &info) != 0};
  }
  if (!S_ISREG(info.st_mode)) return {.target = path, .aside = false, .in_place = 0};
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return {.target = error ? path : target, .kept = info.st_mode & 07777U};
}

NewFile::NewFile(const std::filesystem::path& path) : NewFile(path, place_of(path)) {}

NewFile NewFile::of_library(const std::filesystem::path& path) {
  return NewFile(path, Place{.target = path, .created = 0600});
}

NewFile::NewFile(const std::filesystem::path& path, const Place& place)
    : path_(path), target_(place.target) {
  const std::filesystem::path opened = place.aside ? name_aside(target_) : target_;
  const int flags = place.aside ? O_CREAT | O_EXCL : place.in_place;
  descriptor_ = ::open(opened.c_str(), O_WRONLY | O_CLOEXEC | flags, place.created);
  if (descriptor_ < 0) fail(place.in_place == 0 ? "open for writing" : "create", path);
  if (!place.aside) return;
  temporary_ = opened;
  if (place.kept == 0 || ::fchmod(descriptor_, place.kept) == 0) return;
  const int error = errno;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
  errno = error;
  fail("set the mode of", path);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::write(std::string_view content) { write_all(descriptor_, content, path_); }

void NewFile::flush() {
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail("flush", path_);
}

void NewFile::put() {
  if (temporary_.empty()) return;
  flush();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename to", path_);
  temporary_.clear();
}

void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  write_file_atomic(path, std::span(&content, 1));
}

void write_file_atomic(const std::filesystem::path& path,
                       std::span<const std::string_view> pieces) {
  NewFile file = NewFile::of_library(path);
  for (const std::string_view piece : pieces) file.write(piece);
  file.put();
}

void check_output_file(const std::filesystem::path& path, const std::filesystem::path& source) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument, "cannot write '" + path.string() + "': " + why);
  };
  std::error_code error;
  const std::filesystem::path folder = path.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    refuse("there is no folder '" + folder.string() + "'");
  }
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder");
  if (!source.empty() && std::filesystem::equivalent(path, source, error)) {
    refuse("it is the file that is read");
  }
}

void write_output_file(const std::filesystem::path& path, std::string_view content) {
  write_output_file(path, std::span(&content, 1));
}

void write_output_file(const std::filesystem::path& path,
                       std::span<const std::string_view> pieces) {
  NewFile file(path);
  for (const std::string_view piece : pieces) file.write(piece);
  file.put();
}

TemporaryFolder::TemporaryFolder(std::string_view purpose) {
  std::string name = std::filesystem::temp_directory_path() / "xrt-";
  name.append(purpose).append("-XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) fail("make a folder like", name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

// Descriptors of the locks of this process. A child that fork() made has them too, and with them
// what they lock, for as long as it lives: it closes them.
class LockFiles {
 public:
  static LockFiles& process() {
    static auto* const files = new LockFiles;
    return *files;
  }

  int open(const std::filesystem::path& path) {
    const std::lock_guard lock(mutex_);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return descriptor;
    try {
      descriptors_.insert(descriptor);
    } catch (...) {
      ::close(descriptor);
      throw;
    }
    return descriptor;
  }

  void close(int descriptor) {
    const std::lock_guard lock(mutex_);
    // Else it is one of the parent's, and closed, or its number is another file's.
    if (descriptors_.erase(descriptor) != 0) ::close(descriptor);
  }

 private:
  LockFiles() {
    at_fork({.before = [] { process().mutex_.lock(); },
             .in_parent = [] { process().mutex_.unlock(); },
             .in_child = [] { process().leave(); }});
  }

  void leave() {
    for (const int descriptor : descriptors_) ::close(descriptor);
    descriptors_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<int> descriptors_;
};

}  // namespace

FileLock::FileLock(const std::filesystem::path& path) : FileLock(path, true) {}

FileLock::FileLock(const std::filesystem::path& path, bool waits)
    : process_(::getpid()), descriptor_(LockFiles::process().open(path)) {
  if (descriptor_ < 0) fail("open the lock", path);
  while (::flock(descriptor_, waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR && !is_interrupted()) continue;
    LockFiles::process().close(std::exchange(descriptor_, -1));
    if (!waits && error == EWOULDBLOCK) return;
    errno = error;
    fail("lock", path);
  }
}

std::unique_ptr<FileLock> FileLock::try_lock(const std::filesystem::path& path) {
  std::unique_ptr<FileLock> lock(new FileLock(path, false));
  return lock->descriptor_ < 0 ? nullptr : std::move(lock);
}

FileLock::~FileLock() {
  // A child's copy is closed, and the number may be that of a lock of the child.
  if (descriptor_ < 0 || process_ != ::getpid()) return;
  ::flock(descriptor_, LOCK_UN);  // a child that has just been made may still have it open
  LockFiles::process().close(descriptor_);
}

}  // namespace xrt
