// SPDX-License-Identifier: Apache-2.0
#include "isolation/channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(int file, std::byte* to, std::size_t bytes) {
  off_t at = 0;
  while (bytes > 0) {
    const ssize_t got = ::pread(file, to, bytes, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Descriptor file_of(std::span<const std::string_view> content) {
  Descriptor file(beyond_standard(::memfd_create("xrt-message", MFD_CLOEXEC)));
  bool whole = file.get() >= 0;
  for (const std::string_view piece : content) whole = whole && write_all(file.get(), piece);
  if (!whole) {
    throw Error(ErrorCode::kResource, "there is no memory for a message to a worker: " +
                                          std::generic_category().message(errno));
  }
  return file;
}

union FileNote {
  cmsghdr head;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

}  // namespace

int beyond_standard(int number) {
  if (number < 0 || number > STDERR_FILENO) return number;
  const int moved = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(number);
  errno = error;
  return moved;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) ::close(number_);
    number_ = other.release();
  }
  return *this;
}

int Descriptor::release() { return std::exchange(number_, -1); }

bool Channel::send(MessageHead head, std::span<const std::string_view> content, int file) {
  head.bytes = 0;
  for (const std::string_view piece : content) head.bytes += piece.size();
  Descriptor apart;
  if (head.bytes > kMostInline) {
    apart = file_of(content);
    head.apart = 1;
    file = apart.get();
    content = {};
  }
  std::string joined;
  for (const std::string_view piece : content) joined += piece;
  std::array<iovec, 2> parts = {iovec{&head, sizeof(head)}, iovec{joined.data(), joined.size()}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  FileNote note = {};
  if (file >= 0) {
    message.msg_control = note.bytes.data();
    message.msg_controllen = note.bytes.size();
    cmsghdr* const entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(entry), &file, sizeof(int));
  }
  const std::lock_guard lock(mutex_);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

std::optional<Received> Channel::receive() {
  Received got;
  std::vector<std::byte> joined(kMostInline);
  std::array<iovec, 2> parts = {iovec{&got.head, sizeof(got.head)},
                                iovec{joined.data(), joined.size()}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  FileNote note = {};
  message.msg_control = note.bytes.data();
  message.msg_controllen = note.bytes.size();
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); bytes >= 0 && entry != nullptr;
       entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(entry), sizeof(int));
    got.file = Descriptor(file);
  }
  if (bytes < static_cast<ssize_t>(sizeof(got.head))) return std::nullopt;
  std::size_t size = static_cast<std::size_t>(bytes) - sizeof(got.head);
  if (got.head.apart != 0) {
    struct stat info = {};
    if (got.file.get() < 0 || ::fstat(got.file.get(), &info) != 0) return std::nullopt;
    if (std::cmp_less(info.st_size, got.head.bytes)) return std::nullopt;
    size = got.head.bytes;
  }
  if (size != got.head.bytes) return std::nullopt;
  try {
    got.content = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(size)});
  } catch (const Error&) {  // a length that no memory holds
    return std::nullopt;
  }
  if (got.head.apart == 0) {
    std::memcpy(got.content.raw(), joined.data(), size);
  } else {
    // Copied: what the other side may cut short is not mapped.
    if (!read_all(got.file.get(), got.content.data<std::byte>(), size)) return std::nullopt;
    got.file = Descriptor();
  }
  return got;
}

}  // namespace xrt
