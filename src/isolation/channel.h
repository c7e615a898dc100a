// SPDX-License-Identifier: Apache-2.0
// One end of the socket between a process and its worker.
//
// Thread-safety: any thread sends, one thread receives.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "isolation/protocol.h"
#include "xrt/tensor.h"

namespace xrt {

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release();

 private:
  int number_;
};

// `number`, of which this is the only owner, or another one for the same file if it is that of
// standard input, output or error: where those are closed, what a library prints would go there.
// -1 for -1, and where there is no other one; errno says why.
int beyond_standard(int number);

struct Received {
  MessageHead head;
  Tensor content;   // uint8, aligned to 64 bytes, in memory of this process's own
  Descriptor file;  // that came with the message, unless it was the content
};

class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}
  int descriptor() const { return socket_.get(); }

  // `file`: a descriptor that goes along, or -1. False where the other side is gone. Throws
  // kResource where there is no memory for a long message.
  bool send(MessageHead head, std::span<const std::string_view> content, int file = -1);
  // Waits for a message; none where the other side is gone or says what makes no sense.
  std::optional<Received> receive();

 private:
  Descriptor socket_;
  std::mutex mutex_;
};

}  // namespace xrt
