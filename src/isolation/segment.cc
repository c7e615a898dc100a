// SPDX-License-Identifier: Apache-2.0
#include "isolation/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <shared_mutex>
#include <string>
#include <system_error>

#include "base/fork_mutex.h"
#include "base/memory.h"
#include "base/work_scope.h"
#include "isolation/channel.h"
#include "isolation/worker_process.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// From this size on memory is given only if the machine has it, as Tensor::allocate() does.
constexpr std::size_t kLargeSegment = std::size_t{1} << 30;

[[noreturn]] void refuse(std::size_t bytes, const std::string& why) {
  throw Error(ErrorCode::kResource,
              "cannot allocate " + std::to_string(bytes) + " bytes of shared memory: " + why);
}

// Segments that stand for a plan's own memory, by address.
class Places {
 public:
  static Places& process() {
    static auto* const places = new Places;  // outlives what static objects hold
    return *places;
  }
  void add(const std::shared_ptr<Segment>& segment) {
    const std::unique_lock lock(mutex_);
    by_address_[segment->data()] = segment;
  }
  void remove(const std::byte* data) {
    const std::unique_lock lock(mutex_);
    by_address_.erase(data);
  }
  std::optional<SegmentPlace> find(const std::byte* data, std::size_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto next = by_address_.upper_bound(data);
    if (next == by_address_.begin()) return std::nullopt;
    const std::shared_ptr<Segment> segment = std::prev(next)->second.lock();
    if (segment == nullptr) return std::nullopt;
    const auto offset = static_cast<std::size_t>(data - segment->data());
    if (offset > segment->bytes() || bytes > segment->bytes() - offset) return std::nullopt;
    return SegmentPlace{segment, offset};
  }

 private:
  mutable SharedForkMutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Segment>> by_address_;
};

}  // namespace

Segment::Segment(std::byte* data, std::size_t bytes, int descriptor)
    : data_(data), bytes_(bytes), descriptor_(descriptor) {
  static std::atomic<std::uint64_t> last{0};
  number_ = ++last;
}

std::shared_ptr<Segment> Segment::make(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  if (rounded >= kLargeSegment && rounded > available_memory()) {
    refuse(bytes, std::to_string(available_memory()) + " are free");
  }
  const auto cause = [] { return std::generic_category().message(errno); };
  const int descriptor = beyond_standard(::memfd_create("xrt", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor < 0) refuse(bytes, cause());
  void* data = MAP_FAILED;
  if (::ftruncate(descriptor, static_cast<off_t>(rounded)) == 0 &&
      ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    data = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (data == MAP_FAILED) {
    const std::string why = cause();
    ::close(descriptor);
    refuse(bytes, why);
  }
  return std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(data), rounded, descriptor));
}

std::shared_ptr<Segment> Segment::make_for_run(std::size_t bytes) {
  std::shared_ptr<Segment> made = make(bytes);
  made->charge();
  return made;
}

void Segment::charge() {
  if (account_ != nullptr) return;
  account_ = WorkScope::charge(bytes_, DType::kUInt8, {static_cast<std::int64_t>(bytes_)});
}

void Segment::hand_over() {
  if (account_ == nullptr) return;
  account_->bytes.fetch_sub(static_cast<std::int64_t>(bytes_), std::memory_order_relaxed);
  account_ = nullptr;
}

Segment::~Segment() {
  hand_over();
  Places::process().remove(data_);
  for (const std::weak_ptr<WorkerProcess>& reader : readers_) {
    if (const auto worker = reader.lock()) worker->unmap(number_);
  }
  ::munmap(data_, bytes_);
  close_descriptor();
}

void Segment::close_descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Tensor Segment::tensor(DType dtype, Dims dims, std::size_t offset) {
  return Tensor::wrap(dtype, std::move(dims), data_ + offset, shared_from_this());
}

void Segment::add_reader(std::weak_ptr<WorkerProcess> worker) {
  const std::lock_guard lock(mutex_);
  std::erase_if(readers_, [](const auto& reader) { return reader.expired(); });
  readers_.push_back(std::move(worker));
}

std::optional<SegmentPlace> find_segment(const void* data, std::size_t bytes) {
  return Places::process().find(static_cast<const std::byte*>(data), bytes);
}

Tensor shared_bytes(std::size_t bytes) {
  const std::shared_ptr<Segment> segment = Segment::make_for_run(bytes);
  Places::process().add(segment);
  return segment->tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
}

}  // namespace xrt
