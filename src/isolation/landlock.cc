// SPDX-License-Identifier: Apache-2.0
#include "isolation/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "isolation/channel.h"

namespace xrt {
namespace {

// What newer kernels know; their headers may not be there.
struct Ruleset {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scoped = 0;
};
constexpr std::uint64_t kMakeBlock = 1U << 11;
constexpr std::uint64_t kRefer = 1U << 13;
constexpr std::uint64_t kBindTcp = 1U << 0;
constexpr std::uint64_t kConnectTcp = 1U << 1;
constexpr std::uint64_t kAbstractSockets = 1U << 0;
constexpr std::uint64_t kSignals = 1U << 1;

constexpr int kVersionWithRefer = 2;
constexpr int kVersionWithNetwork = 4;

int newest_version() {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0},
                                    LANDLOCK_CREATE_RULESET_VERSION));
}

// A kernel refuses a size beyond its own unless the rest is zero.
int make_ruleset(const Ruleset& ruleset) {
  return static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), std::uint32_t{0}));
}

// A ruleset that handles any right to files refuses to move them between folders, unless a rule
// allows it: here, everywhere.
bool allow_moves(int ruleset) {
  const Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return false;
  landlock_path_beneath_attr everywhere = {};
  everywhere.allowed_access = kRefer;
  everywhere.parent_fd = root.get();
  return ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &everywhere,
                   std::uint32_t{0}) == 0;
}

}  // namespace

int enter_landlock(int most) {
  const int version = std::min(newest_version(), most);
  if (version <= 0) return 0;
  // A ruleset has to handle something; other processes are refused whatever that is.
  Ruleset rules;
  if (version >= kVersionWithNetwork) {
    rules.network = kBindTcp | kConnectTcp;
  } else {
    rules.files = version >= kVersionWithRefer ? kRefer : kMakeBlock;
  }
  if (version >= kLandlockWithSignals) rules.scoped = kSignals | kAbstractSockets;
  const Descriptor ruleset(make_ruleset(rules));
  if (ruleset.get() < 0) return 0;
  if (rules.files == kRefer && !allow_moves(ruleset.get())) return 0;
  const bool entered = ::syscall(SYS_landlock_restrict_self, ruleset.get(), std::uint32_t{0}) == 0;
  return entered ? version : 0;
}

}  // namespace xrt
