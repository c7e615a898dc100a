// SPDX-License-Identifier: Apache-2.0
// What is known for each op, by the op's name: lowerings of an engine, handlers of a frontend,
// gradient rules. A table is filled once, by one function per file, and read from then on.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/error.h"

namespace xrt {

template <typename Entry>
class OpTable {
 public:
  // `op` is a qualified name: "Relu", "xrt.After". Throws kInternal where it is taken.
  void add(std::string_view op, Entry entry) {
    if (!entries_.emplace(op, std::move(entry)).second) {
      throw Error(ErrorCode::kInternal, "op '" + std::string(op) + "' has two entries in a table");
    }
  }
  void add(std::initializer_list<std::string_view> ops, const Entry& entry) {
    for (const std::string_view op : ops) add(op, entry);
  }
  // Null where there is none.
  const Entry* find(std::string_view op) const {
    const auto found = entries_.find(op);
    return found == entries_.end() ? nullptr : &found->second;
  }
  // Sorted.
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    names.reserve(entries_.size());
    for (const auto& [op, entry] : entries_) names.push_back(op);
    return names;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace xrt
