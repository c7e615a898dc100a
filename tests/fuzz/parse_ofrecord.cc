// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a record of OneFlow's OFRecord are fields or an xrt::Error. What was read lies
// in the record, or takes no more than a multiple of its size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/ofrecord.h"
#include "wire_mutator.h"
#include "xrt/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  const auto lies_within = [&](std::string_view part) {
    return part.empty() ||
           (part.data() >= record.data() && part.data() + part.size() <= record.data() + size);
  };
  try {
    for (const auto& [name, feature] : xrt::parse_ofrecord(record)) {
      if (!lies_within(name)) std::abort();
      for (const std::string_view bytes : feature.bytes) {
        if (!lies_within(bytes)) std::abort();
      }
      constexpr std::size_t kMostPerByte = 8;  // a varint of one byte is an int64
      if (feature.numbers.bytes() > kMostPerByte * size) std::abort();
    }
  } catch (const xrt::Error&) {
    return 0;
  }
  return 0;
}
