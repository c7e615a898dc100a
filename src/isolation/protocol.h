// SPDX-License-Identifier: Apache-2.0
// What a process and its worker say to each other.
//
// Orders and answers are messages on a socket; their content is in the flat form of ir/flat.h. A
// run is no message: each context has a lane, a block of shared memory with two counters. The
// process describes the tensors of the run there, counts `turn` up and wakes the worker's thread of
// that lane, which runs and sets `done` to the same number. The kernel's futexes are the bell.
//
// Both sides are built from this header and of one version: a worker of another one is refused.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xrt {

enum class Message : std::uint32_t {
  // From the worker.
  kReady,     // the engine's description, or why there is none
  kReply,     // to the call of that number
  kProgress,  // of a compilation: text, part
  // To the worker. Those from kDestroy on are not answered.
  kSupports,
  kOps,
  kCompile,
  kLoad,
  kSerialize,
  kMap,
  kOpenLane,
  kDestroy,
  kUnmap,
  kCancel,  // the compilation of that call
};

struct MessageHead {
  std::uint64_t call = 0;
  std::uint32_t kind = 0;
  std::uint32_t code = 0;   // of a reply: 0, or an ErrorCode plus 1, and the content is its text
  std::uint64_t bytes = 0;  // of the content
  std::uint32_t apart = 0;  // not 0: the content is the file that comes with the message
  std::uint32_t reserved = 0;
};

inline constexpr std::size_t kMostInline = 32 << 10;

// Above it a value cannot cross: its nodes are refused.
inline constexpr std::size_t kMostDims = 16;

struct LanePort {
  enum : std::uint32_t {
    kNone,
    kTensor,  // in a segment
    kMade,    // an output that the engine makes; then what it made, in the worker's own memory
  };
  std::uint32_t kind = kNone;
  std::int32_t dtype = 0;
  std::uint64_t segment = 0, offset = 0;
  std::uint64_t rank = 0;
  std::array<std::int64_t, kMostDims> dims = {};
};

struct LaneHead {
  enum : std::uint32_t { kRun, kFetch, kEnd };
  // kFetch: outputs that were made are copied to the places that the ports name now.
  std::atomic<std::uint32_t> turn = 0;
  std::atomic<std::uint32_t> done = 0;
  std::atomic<std::uint32_t> cancelled = 0;
  std::uint32_t order = kRun;
  std::uint32_t inputs = 0, outputs = 0;
  std::uint32_t code = 0;  // as MessageHead's
  std::uint32_t text_bytes = 0;
  std::array<char, 4096> text = {};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kPortsAt = (sizeof(LaneHead) + 63) / 64 * 64;
inline LanePort* ports_of(LaneHead* head) {
  return reinterpret_cast<LanePort*>(reinterpret_cast<std::byte*>(head) + kPortsAt);
}

// Exit statuses of a worker, for causes that it knows itself.
inline constexpr int kExitMemory = 97;  // it took more memory than it may

}  // namespace xrt
