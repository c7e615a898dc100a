// SPDX-License-Identifier: Apache-2.0
// Several targets in one file. The emitter gave each op the first target that takes it; here ops of
// one memory are brought together as far as what they read allows, storages get a copy in each
// memory that uses them, and copies that are not up to date are brought there by transfers.
#include <algorithm>
#include <map>
#include <set>

#include "module.h"

namespace xrt::lite {
namespace {

constexpr int kHost = -1;

int memory_of(const Module& m, const ModuleOp& op) {
  return m.targets[static_cast<std::size_t>(op.target)]->host_memory() ? kHost : op.target;
}

struct Access {
  int storage;
  bool writes;
};

std::vector<Access> accesses(const ModuleOp& op) {
  std::vector<Access> result;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Operand& o = op.operands[k];
    if (o.at != Operand::At::kStorage) continue;
    result.push_back({o.index, static_cast<int>(k) == op.output});
  }
  return result;
}

// For each op, those that must have run before it.
std::vector<std::set<std::size_t>> dependencies(const Module& m) {
  struct State {
    int writer = -1;
    std::vector<std::size_t> readers;
  };
  std::vector<State> states(m.storages.size());
  std::vector<std::set<std::size_t>> result(m.ops.size());
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    for (const Access& a : accesses(m.ops[i])) {
      State& s = states[static_cast<std::size_t>(a.storage)];
      if (s.writer >= 0) result[i].insert(static_cast<std::size_t>(s.writer));
      if (a.writes) result[i].insert(s.readers.begin(), s.readers.end());
    }
    for (const Access& a : accesses(m.ops[i])) {
      State& s = states[static_cast<std::size_t>(a.storage)];
      if (a.writes) {
        s.writer = static_cast<int>(i);
        s.readers.clear();
      } else {
        s.readers.push_back(i);
      }
    }
    result[i].erase(i);
  }
  return result;
}

// The first op that is ready in the memory of the one before; where there is none, the first that
// is ready at all.
void schedule(Module& m) {
  const auto before = dependencies(m);
  std::vector<std::size_t> missing(m.ops.size());
  std::vector<std::vector<std::size_t>> after(m.ops.size());
  std::map<int, std::set<std::size_t>> ready;
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    missing[i] = before[i].size();
    for (const std::size_t b : before[i]) after[b].push_back(i);
    if (missing[i] == 0) ready[memory_of(m, m.ops[i])].insert(i);
  }
  std::vector<ModuleOp> ordered;
  int memory = kHost;
  while (ordered.size() < m.ops.size()) {
    if (ready[memory].empty()) {
      std::size_t first = m.ops.size();
      for (const auto& [where, ops] : ready) {
        if (!ops.empty() && *ops.begin() < first) first = *ops.begin(), memory = where;
      }
    }
    const std::size_t next = *ready[memory].begin();
    ready[memory].erase(next);
    for (const std::size_t a : after[next]) {
      if (--missing[a] == 0) ready[memory_of(m, m.ops[a])].insert(a);
    }
    ordered.push_back(std::move(m.ops[next]));
  }
  m.ops = std::move(ordered);
}

class Partitioner {
 public:
  explicit Partitioner(Module& m) : m_(m) {}

  void run() {
    const bool devices = std::any_of(m_.ops.begin(), m_.ops.end(), [&](const ModuleOp& op) {
      return memory_of(m_, op) != kHost;
    });
    if (devices) schedule(m_);
    find_homes();
    for (std::size_t i = 0; i < m_.ops.size();) {
      const int memory = memory_of(m_, m_.ops[i]);
      std::size_t end = i;
      while (end < m_.ops.size() && memory_of(m_, m_.ops[end]) == memory) ++end;
      bring(i, end, memory);
      for (; i < end; ++i) place(i, memory);
    }
    for (std::size_t s = 0; s < homes_.size(); ++s) {
      if (m_.storages[s].output >= 0) transfer(static_cast<int>(s), kHost);
    }
    m_.times = time_;
  }

 private:
  // Ports lie on the host, other storages where they are written first.
  void find_homes() {
    homes_.assign(m_.storages.size(), kHost);
    valid_.resize(m_.storages.size());
    std::vector<bool> seen(m_.storages.size(), false);
    for (std::size_t s = 0; s < m_.storages.size(); ++s) {
      seen[s] = m_.storages[s].input >= 0 || m_.storages[s].output >= 0;
      if (m_.storages[s].input >= 0) valid_[s].insert(kHost);
    }
    for (const ModuleOp& op : m_.ops) {
      const int memory = memory_of(m_, op);
      for (const Access& a : accesses(op)) {
        const auto s = static_cast<std::size_t>(a.storage);
        if (seen[s] || !a.writes) continue;
        seen[s] = true;
        homes_[s] = m_.storages[s].device = memory;
      }
      if (op.scratch >= 0) m_.storages[static_cast<std::size_t>(op.scratch)].device = memory;
    }
  }

  // The storage that holds `storage` in a memory.
  int copy_in(int storage, int memory) {
    if (homes_[static_cast<std::size_t>(storage)] == memory) return storage;
    const auto [at, fresh] =
        copies_.try_emplace({storage, memory}, static_cast<int>(m_.storages.size()));
    if (fresh) {
      const Storage& original = m_.storages[static_cast<std::size_t>(storage)];
      Storage copy;
      copy.name = original.name;
      copy.bytes = storage_bytes(m_, original);
      copy.device = memory;
      m_.storages.push_back(copy);
    }
    return at->second;
  }

  // Makes the copy in a memory the newest, through the host.
  void transfer(int storage, int memory) {
    std::set<int>& valid = valid_[static_cast<std::size_t>(storage)];
    if (valid.empty() || valid.contains(memory)) return;
    const int from = valid.contains(kHost) ? kHost : *valid.begin();
    if (from != kHost && memory != kHost) {
      transfer(storage, kHost);
      transfer(storage, memory);
      return;
    }
    ModuleStep step;
    step.from = copy_in(storage, from);
    step.to = copy_in(storage, memory);
    step.time = time_++;
    m_.steps.push_back(step);
    valid.insert(memory);
  }

  // What ops [first, end), all in one memory, need of others. A storage that they write in part
  // keeps what others have written.
  void bring(std::size_t first, std::size_t end, int memory) {
    std::set<int> written;
    for (std::size_t i = first; i < end; ++i) {
      for (const Access& a : accesses(m_.ops[i])) {
        if (!written.contains(a.storage)) transfer(a.storage, memory);
        if (a.writes) written.insert(a.storage);
      }
    }
  }

  void place(std::size_t i, int memory) {
    ModuleOp& op = m_.ops[i];
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      Operand& o = op.operands[k];
      if (o.at != Operand::At::kStorage) continue;
      if (static_cast<int>(k) == op.output) valid_[static_cast<std::size_t>(o.index)] = {memory};
      o.index = copy_in(o.index, memory);
    }
    op.time = time_++;
    if (m_.steps.empty() || m_.steps.back().function < 0 ||
        m_.functions.back().target != op.target) {
      ModuleStep step;
      step.function = static_cast<int>(m_.functions.size());
      step.time = op.time;
      m_.steps.push_back(step);
      m_.functions.push_back({op.target, static_cast<int>(i), 0, {}});
    }
    ++m_.functions.back().op_count;
  }

  Module& m_;
  std::vector<int> homes_;            // storage -> memory
  std::vector<std::set<int>> valid_;  // storage -> memories with its newest content
  std::map<std::pair<int, int>, int> copies_;
  int time_ = 0;
};

}  // namespace

std::size_t storage_bytes(const Module& m, const Storage& s) {
  const auto of = [](const ModulePort& p) { return byte_count(p.dtype, p.dims); };
  if (s.input >= 0) return of(m.inputs[static_cast<std::size_t>(s.input)]);
  if (s.output >= 0) return of(m.outputs[static_cast<std::size_t>(s.output)]);
  return s.bytes;
}

void partition(Module& module) { Partitioner(module).run(); }

}  // namespace xrt::lite
