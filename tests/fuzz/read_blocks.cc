// SPDX-License-Identifier: Apache-2.0
// Any block given as what a cache keeps of a program, or as what a worker says of its engine, is
// that or an xrt::Error; and so are the options that the worker is sent. The first byte says which:
// a digit, in the seeds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ir/flat.h"
#include "isolation/description.h"
#include "plan/plan.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace {

void plan(xrt::FlatReader& reader) { xrt::read_plan(reader); }
void description(xrt::FlatReader& reader) { xrt::read_description(reader); }
void executable(xrt::FlatReader& reader) { xrt::read_executable(reader); }
void options(xrt::FlatReader& reader) { xrt::read_options(reader); }
void type(xrt::FlatReader& reader) { xrt::to_string(reader.type()); }

constexpr auto kBlocks =
    std::to_array<void (*)(xrt::FlatReader&)>({plan, description, executable, options, type});

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    xrt::Tensor block =
        xrt::Tensor::allocate(xrt::DType::kUInt8, {static_cast<std::int64_t>(size - 1)});
    if (size > 1) std::memcpy(block.raw(), data + 1, size - 1);
    xrt::FlatReader reader(block);
    kBlocks[static_cast<std::uint8_t>(data[0] - '0') % kBlocks.size()](reader);
    reader.end();
  } catch (const xrt::Error& error) {
    if (error.code() == xrt::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
