// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/shape_inference.h"
#include "xrt/calibration.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using testing::HasSubstr;

// x -> MatMul w -> Relu -> MatMul v -> y; the values between are named after `prefix`.
Graph network(const std::string& name, float weight, std::int64_t width,
              const std::string& prefix) {
  Graph g(name);
  const auto weights = [&](const std::string& w) {
    Tensor t = Tensor::allocate(DType::kFloat32, {width, width});
    std::fill_n(t.data<float>(), t.count(), weight);
    return g.add_constant(w, t);
  };
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, width}));
  const ValueId a = g.add_op("MatMul", {x, weights("w")}, {}, prefix + "a");
  const ValueId b = g.add_op("Relu", {a}, {}, prefix + "b");
  g.add_output(g.add_op("MatMul", {b, weights("v")}, {}, "y"));
  infer_shapes(g);
  return g;
}

// Every value of the graph goes from -1 to `high`.
CalibrationTable table_of(const Graph& g, float high, const QuantizeOptions& options = {}) {
  const GraphRunner runner = [high](Graph watched) -> GraphRun {
    const std::size_t outputs = watched.outputs().size();
    return [outputs, high](const std::vector<Tensor>&) {
      Tensor t = Tensor::allocate(DType::kFloat32, {2});
      t.data<float>()[0] = -1, t.data<float>()[1] = high;
      return std::vector<Tensor>(outputs, t);
    };
  };
  Calibrator calibrator(g, options, runner);
  Tensor x = Tensor::allocate(DType::kFloat32, *g.type(g.inputs()[0]).static_dims());
  std::fill_n(x.data<float>(), x.count(), high);
  calibrator.add({x});
  return make_table(g, calibrator, options);
}

template <typename Function>
std::string refusal(Function function, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    function();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "nothing was refused";
}

TEST(CalibrationTable, IsReadAsItWasWritten) {
  CalibrationTable table = table_of(network("net", 1, 4, ""), 3.3333333F);
  table.model = "a \"model\" with\nlines \xC3\xA9.onnx";
  table.values[1].name = "name with spaces - 1 2";
  const std::string text = format_table(table);
  const CalibrationTable again = parse_table(text, "it");
  EXPECT_EQ(format_table(again), text);
  EXPECT_EQ(again.model, table.model);
  EXPECT_EQ(again.samples, 1U);
  EXPECT_EQ(again.observer, "minmax");
  ASSERT_EQ(again.values.size(), table.values.size());
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    EXPECT_EQ(again.values[i].name, table.values[i].name);
    EXPECT_EQ(again.values[i].op, table.values[i].op);
    EXPECT_EQ(again.values[i].range.high, table.values[i].range.high);
  }
}

TEST(CalibrationTable, DamageIsSeen) {
  const std::string text = format_table(table_of(network("net", 1, 4, ""), 3));
  for (std::size_t length = 0; length < text.size(); ++length) {
    refusal([&] { parse_table(text.substr(0, length), "it"); }, ErrorCode::kInvalidModel);
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[length] = static_cast<char>(changed[length] ^ (1 << bit));
      EXPECT_THAT(refusal([&] { parse_table(changed, "it"); }, ErrorCode::kInvalidModel),
                  HasSubstr("calibration table 'it'"))
          << length;
    }
  }
  EXPECT_THAT(
      refusal([&] { parse_table("openxrt calibration 2\n", "it"); }, ErrorCode::kInvalidModel),
      HasSubstr("'openxrt calibration 2' is not read here"));
}

TEST(CalibrationTable, KnowsItsGraph) {
  const Graph own = network("own", 1, 4, "");
  const CalibrationTable table = table_of(own, 3);
  EXPECT_EQ(ranges_for(table, own, {}).at("b").high, 3);
  const auto refused = [&](const Graph& g, TableMatch match) {
    return refusal([&] { ranges_for(table, g, {}, match); });
  };
  const Graph wider = network("wider", 1, 5, ""), trained = network("trained", 2, 4, "");
  EXPECT_THAT(refused(wider, TableMatch::kStructure), HasSubstr("of 'own'"));
  EXPECT_THAT(refused(wider, TableMatch::kStructure), HasSubstr("not of this graph, 'wider'"));
  EXPECT_THAT(refused(trained, TableMatch::kModel), HasSubstr("weights are others"));
  EXPECT_EQ(ranges_for(table, trained, {}, TableMatch::kStructure).at("b").high, 3);
  // Other names, the same ops in the same order.
  EXPECT_EQ(ranges_for(table, network("own", 1, 4, "n/"), {}).at("n/b").high, 3);
  CalibrationTable less = table;
  less.values.erase(less.values.begin() + 1);
  EXPECT_THAT(refusal([&] { ranges_for(less, own, {}); }), HasSubstr("no range for 'b'"));
}

TEST(CalibrationTable, MergedRangesHoldBoth) {
  const Graph g = network("net", 1, 4, "");
  const CalibrationTable both = merged(table_of(g, 3), table_of(g, 5));
  EXPECT_EQ(both.samples, 2U);
  for (const CalibratedValue& value : both.values) EXPECT_EQ(value.range.high, 5) << value.name;
  EXPECT_THAT(refusal([&] { merged(table_of(g, 3), table_of(network("n", 2, 4, ""), 3)); }),
              HasSubstr("different models"));
  QuantizeOptions other;
  other.clipping = Clipping::kPercentile;
  EXPECT_THAT(refusal([&] { merged(table_of(g, 3), table_of(g, 3, other)); }),
              HasSubstr("percentile 99.99"));
}

TEST(CalibrationTable, DifferencesAreRanked) {
  const Graph g = network("net", 1, 4, "");
  CalibrationTable a = table_of(g, 3), b = a;
  EXPECT_TRUE(difference(a, b).empty());
  b.values[0].range.high *= 2;  // 3 of 6
  b.values[1].range.low -= 0.5F;
  a.values.push_back({.name = "gone", .op = "Relu", .range = {-1, 1}});
  const std::vector<RangeDifference> rows = difference(a, b);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].change, 1);
  EXPECT_FALSE(rows[0].second);
  EXPECT_EQ(rows[1].name, a.values[0].name);
  EXPECT_GT(rows[1].change, rows[2].change);
}

TEST(TensorRtCache, HoldsScalesInHexadecimalDigits) {
  const Graph g = network("net", 1, 4, "");
  CalibrationTable table = table_of(g, 3);
  for (CalibratedValue& value : table.values) value.range = {-1, 127 * 0.0078125F};
  const std::string text = format_tensorrt_cache(table, 8601);
  EXPECT_THAT(text, testing::StartsWith("TRT-8601-EntropyCalibration2\n"));
  EXPECT_THAT(text, HasSubstr("\nx: 3c010204\n"));  // 1 / 127
  const CalibrationTable back = table_of_cache(parse_tensorrt_cache(text, "cache"), "cache", g, {});
  for (const CalibratedValue& value : back.values) {
    EXPECT_FLOAT_EQ(value.range.high, 1);
    EXPECT_FLOAT_EQ(value.range.low, value.name == "b" ? 0 : -1) << value.name;  // b is a Relu's
  }
  EXPECT_NO_THROW(ranges_for(back, g, {}));
}

TEST(TensorRtCache, RefusesWhatIsNone) {
  const std::string head = "TRT-8601-EntropyCalibration2\n";
  for (const char* bad : {"", "x: 3c01020\nno scale\n", "x: zz\n", "x: 7f800000\n", "x: bf800000\n",
                          "x: 3c0102043\n"}) {
    EXPECT_THAT(refusal([&] { parse_tensorrt_cache(head + bad, "c"); }, ErrorCode::kInvalidModel),
                HasSubstr("TensorRT calibration cache 'c', line"))
        << bad;
  }
  refusal([] { parse_tensorrt_cache("TRT-x\n", "c"); }, ErrorCode::kInvalidModel);
  const Graph g = network("net", 1, 4, "");
  EXPECT_THAT(refusal([&] {
                table_of_cache(parse_tensorrt_cache(head + "other: 3c010204\n", "c"), "c", g, {});
              }),
              HasSubstr("no scale for 'x'"));
  EXPECT_THAT(refusal([&] { format_tensorrt_cache(table_of(g, 3), 12); }), HasSubstr("12"));
}

}  // namespace
}  // namespace xrt
