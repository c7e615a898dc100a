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

// One op with `count` operands and results, all of this type, and attributes that many handlers
// read.
std::string job_of(const std::string& op, int count, const std::string& type) {
  std::string arguments, operands, results, types;
  for (int i = 0; i < count; ++i) {
    const std::string comma = i == 0 ? "" : ", ", number = std::to_string(i);
    arguments += comma + "%a" + number + ": " + type;
    operands += comma + "%a" + number;
    results += comma + "%y" + number;
    types += comma + type;
  }
  return "oneflow.job @J(" + arguments + ") -> (" + types + ") {\n" + results + " = \"oneflow." +
         op + "\"(" + operands +
         R"() {op_name = "it", axis = 0 : si64, dim = 0 : si64, start = 0 : si64,
      length = 1 : si64, begin_norm_axis = 0 : si64, begin_params_axis = 0 : si64, depth = 3 : si64,
      kernel_size = [2 : si32, 2 : si32], stride = [1 : si32, 1 : si32], alpha = 0.5 : f32,
      strides = [1 : si32, 1 : si32], padding = [1 : si32, 1 : si32], num_groups = 1 : si32,
      padding_before = [0 : si32, 0 : si32], padding_after = [0 : si32, 0 : si32],
      dilation_rate = [1 : si32, 1 : si32], pool_size = [2 : si32, 2 : si32], beta = 0.5 : f32,
      epsilon = 0.1 : f32, float_operand = 2.0 : f64, k = 1 : si32, repeat_num = 2 : si64,
      learning_rate_val = 0.1 : f32, beta1 = 0.9 : f32, beta2 = 0.9 : f32, decay_rate = 0.9 : f32,
      momentum = 0.9 : f32, rate = 0.5 : f32, scale = 2.0 : f32, training = true, center = true,
      affine = true, src_scalar = 1.0 : f32, floating_min = 0.0 : f64, floating_max = 1.0 : f64,
      min_val = 0.0 : f64, max_val = 1.0 : f64, threshold_val = 0.5 : f64, value = 1.0 : f64,
      is_floating_value = true, floating_value = 1.0 : f64, op_type_case = 290 : i32}
      : ()" +
         types + ") -> (" + types + ")\noneflow.return " + results + " : " + types + "\n}";
}

// No handler reads an operand, or a dimension of one, that is not there.
TEST(EveryHandler, TakesOrRefusesOperandsOfAnyRank) {
  int taken = 0;
  for (const std::string& op : oneflow_ops()) {
    for (int count = 1; count <= 6; ++count) {
      for (const char* type : {"tensor<f32>", "tensor<2xf32>", "tensor<2x3xf32>",
                               "tensor<0x2x2xf32>", "tensor<2x2x3x3xf32>", "tensor<?x2xf32>",
                               "tensor<*xf32>", "tensor<2147483648x2147483648x2xf32>"}) {
        try {
          import_oneflow_job(job_of(op, count, type), {});
          ++taken;
        } catch (const Error& e) {
          EXPECT_NE(e.code(), ErrorCode::kInternal) << op << ": " << e.what();
        }
      }
    }
  }
  EXPECT_GT(taken, 100);
}

INSTANTIATE_TEST_SUITE_P(Models, DamagedJob, testing::Values("cnn", "mobile", "attention"));

}  // namespace
}  // namespace xrt
