// SPDX-License-Identifier: Apache-2.0
// Damaged jobs either become a graph or are an xrt::Error; the sanitizers' builds run this too.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/file.h"
#include "xrt/error.h"
#include "xrt/oneflow.h"

namespace xrt {
namespace {

constexpr int kMutations = 200;

// One byte changed, a piece left out, a piece doubled, or a number made another one.
std::string damaged(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return random() % bound; };
  const std::size_t at = below(text.size());
  const std::size_t length = 1 + below(40);
  switch (below(4)) {
    case 0:
      text[at] = static_cast<char>(below(128));
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, text.substr(below(text.size()), length));
      break;
    default: {
      const std::size_t digit = text.find_first_of("0123456789", at);
      const char* numbers[] = {"-1", "0", "3", "99999999", "9223372036854775807"};
      if (digit != std::string::npos) text.replace(digit, 1, numbers[below(5)]);
    }
  }
  return text;
}

class DamagedJob : public testing::TestWithParam<const char*> {};

TEST_P(DamagedJob, IsAGraphOrAnError) {
  const std::string text =
      read_file(std::string("tests/frontends/oneflow/data/") + GetParam() + "/model.mlir");
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string mutant = damaged(text, random);
    try {
      import_oneflow_job(mutant, {});
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kMutations / 10);
  EXPECT_LT(refused, kMutations);
}

INSTANTIATE_TEST_SUITE_P(Models, DamagedJob, testing::Values("cnn", "mobile", "attention"));

}  // namespace
}  // namespace xrt
