// SPDX-License-Identifier: Apache-2.0
// One arena per memory: storages that never live at once share memory (base/arena.h).
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/arena.h"
#include "module.h"

namespace xrt::lite {
namespace {

constexpr int kChanges = 400;  // of the best order: a model is compiled once

// One memory: the arena's size and the largest live set.
std::pair<std::size_t, std::size_t> plan(Module& module, int device) {
  std::vector<std::size_t> storages;
  std::vector<BufferLife> lives;
  for (std::size_t i = 0; i < module.storages.size(); ++i) {
    const Storage& s = module.storages[i];
    if (s.input >= 0 || s.output >= 0 || s.shares >= 0 || s.bytes == 0) continue;
    if (s.device != device) continue;
    storages.push_back(i);
    lives.push_back({s.bytes, static_cast<std::size_t>(s.first), static_cast<std::size_t>(s.last)});
  }
  for (const Storage& s : module.storages) {  // lives of those that are taken over reach on
    if (s.shares < 0) continue;
    int root = s.shares;
    while (module.storages[static_cast<std::size_t>(root)].shares >= 0) {
      root = module.storages[static_cast<std::size_t>(root)].shares;
    }
    const auto found = std::find(storages.begin(), storages.end(), static_cast<std::size_t>(root));
    if (found == storages.end()) continue;
    BufferLife& life = lives[static_cast<std::size_t>(found - storages.begin())];
    life.last = std::max(life.last, static_cast<std::size_t>(s.last));
  }
  const ArenaPlan found = plan_arena(lives, kChanges);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    module.storages[storages[i]].offset = found.offsets[i];
  }
  return {found.bytes, found.live_bytes};
}

}  // namespace

void plan_memory(Module& module) {
  std::tie(module.arena_bytes, module.largest_live_bytes) = plan(module, -1);
  module.device_arena_bytes.assign(module.targets.size(), 0);
  for (std::size_t t = 0; t < module.targets.size(); ++t) {
    if (module.targets[t]->host_memory()) continue;
    module.device_arena_bytes[t] = plan(module, static_cast<int>(t)).first;
  }
  for (Storage& s : module.storages) {
    int root = s.shares;
    while (root >= 0 && module.storages[static_cast<std::size_t>(root)].shares >= 0) {
      root = module.storages[static_cast<std::size_t>(root)].shares;
    }
    if (root >= 0) s.offset = module.storages[static_cast<std::size_t>(root)].offset;
  }
}

}  // namespace xrt::lite
