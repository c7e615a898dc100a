// SPDX-License-Identifier: Apache-2.0
#include "targets/target.h"

namespace xrt::lite {
namespace {

const std::vector<const Target*>& targets() {
  static const std::vector<const Target*> list = {
      &x86_target(),     &arm_target(),  &cortex_m_target(),
      &generic_target(), &cuda_target(), &ascend_target(),
  };
  return list;
}

}  // namespace

const Target* find_target(std::string_view name) {
  for (const Target* t : targets()) {
    if (t->name() == name) return t;
  }
  return nullptr;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target* t : targets()) names.push_back(t->name());
  return names;
}

}  // namespace xrt::lite
