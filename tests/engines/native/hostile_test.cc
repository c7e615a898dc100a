// SPDX-License-Identifier: Apache-2.0
// Sizes in attributes and small inputs that a hostile model may hold: each is an error, or a result
// in time that the size of the input bounds.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/work_scope.h"
#include "tests/engines/native/native_fixture.h"
#include "tests/support/engine_calls.h"

namespace xrt {
namespace {

using testing_native::compile;

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr std::int64_t kMax = INT64_MAX;

Tensor floats(Dims dims) {
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) t.data<float>()[i] = static_cast<float>(i % 7) - 3;
  return t;
}

Tensor ints(std::vector<std::int64_t> values) { return Tensor::from_int64(values); }
Tensor numbers(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from<float>(DType::kFloat32, {n}, std::span<const float>(values));
}

using Ints = std::vector<std::int64_t>;

struct Case {
  std::string name, op;
  std::vector<Tensor> inputs;  // not defined: left out
  Attributes attributes;
};

std::vector<Case> cases() {
  const Tensor image = floats({1, 2, 5, 5});
  const Tensor line = floats({1, 2, 5});
  const auto one = Tensor::scalar(std::int64_t{1});
  const auto huge = Tensor::scalar(kHuge);
  std::vector<Case> list;
  const auto add = [&](std::string name, std::string op, std::vector<Tensor> inputs,
                       Attributes attributes = {}) {
    list.push_back({std::move(name), std::move(op), std::move(inputs), std::move(attributes)});
  };
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    const std::string name = op;
    add(name + "Kernel", op, {image}, {{"kernel_shape", Ints{kHuge, kHuge}}});
    add(name + "KernelMax", op, {image}, {{"kernel_shape", Ints{kMax, kMax}}});
    add(name + "KernelPads", op, {image},
        {{"kernel_shape", Ints{kHuge, kHuge}}, {"pads", Ints{kHuge, kHuge, kHuge, kHuge}}});
    // One window over an image that is nearly all padding.
    constexpr std::int64_t k = 1 << 30;
    add(name + "Padding", op, {image},
        {{"kernel_shape", Ints{k, k}}, {"pads", Ints{k / 2, k / 2, k / 2 - 5, k / 2 - 5}}});
    add(name + "PaddingCounted", op, {image},
        {{"kernel_shape", Ints{k, k}},
         {"pads", Ints{k / 2, k / 2, k / 2 - 5, k / 2 - 5}},
         {"count_include_pad", std::int64_t{1}}});
    add(name + "Same", op, {image},
        {{"kernel_shape", Ints{k, k}}, {"auto_pad", std::string("SAME_UPPER")}});
    add(name + "SameMax", op, {image},
        {{"kernel_shape", Ints{kMax, kMax}}, {"auto_pad", std::string("SAME_LOWER")}});
    add(name + "Strides", op, {image},
        {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{kMax, kMax}}});
    add(name + "Dilations", op, {image},
        {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{kMax, kMax}}});
    add(name + "Pads", op, {image},
        {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{kHuge, kHuge, kHuge, kHuge}}});
    add(name + "PadsMax", op, {image},
        {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{kMax, kMax, kMax, kMax}}});
    add(name + "PadsNegative", op, {image},
        {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{-kHuge, -4, -4, -4}}});
    add(name + "Ceil", op, {image},
        {{"kernel_shape", Ints{2, 2}},
         {"strides", Ints{kMax, kMax}},
         {"ceil_mode", std::int64_t{1}}});
  }
  add("LpPoolP", "LpPool", {image}, {{"kernel_shape", Ints{2, 2}}, {"p", kMax}});
  add("MaxUnpool", "MaxUnpool",
      {image, Tensor::from<std::int64_t>(DType::kInt64, {1, 2, 5, 5},
                                         std::span<const std::int64_t>(Ints(50, 0)))},
      {{"kernel_shape", Ints{kHuge, kHuge}}, {"strides", Ints{kHuge, kHuge}}});
  for (const char* op : {"Conv", "ConvTranspose"}) {
    const std::string name = op;
    const Tensor w = floats({2, 2, 3, 3});
    add(name + "Strides", op, {image, w}, {{"strides", Ints{kMax, kMax}}});
    add(name + "StridesHuge", op, {image, w}, {{"strides", Ints{kHuge, kHuge}}});
    add(name + "Dilations", op, {image, w}, {{"dilations", Ints{kMax, kMax}}});
    add(name + "DilationsHuge", op, {image, w}, {{"dilations", Ints{kHuge, kHuge}}});
    add(name + "Pads", op, {image, w}, {{"pads", Ints{kMax, kMax, kMax, kMax}}});
    add(name + "PadsHuge", op, {image, w}, {{"pads", Ints{kHuge, kHuge, kHuge, kHuge}}});
    add(name + "DilationsPadded", op, {image, w},
        {{"dilations", Ints{kHuge, kHuge}}, {"pads", Ints{kHuge, kHuge, kHuge, kHuge}}});
    add(name + "Kernel", op, {image, w}, {{"kernel_shape", Ints{kMax, kMax}}});
    add(name + "Group", op, {image, w}, {{"group", kMax}});
    add(name + "GroupNegative", op, {image, w}, {{"group", std::int64_t{-1}}});
  }
  add("ConvTransposeOutputPadding", "ConvTranspose", {image, floats({2, 2, 3, 3})},
      {{"output_padding", Ints{kMax, kMax}}});
  add("ConvTransposeOutputShape", "ConvTranspose", {image, floats({2, 2, 3, 3})},
      {{"output_shape", Ints{kHuge, kHuge}}});
  add("DeformConv", "DeformConv", {image, floats({2, 2, 3, 3}), floats({1, 18, 3, 3})},
      {{"dilations", Ints{kMax, kMax}}});
  add("DeformConvOffsetGroup", "DeformConv", {image, floats({2, 2, 3, 3}), floats({1, 18, 3, 3})},
      {{"offset_group", kMax}});
  add("Col2Im", "Col2Im", {floats({1, 4, 4}), ints({kHuge, kHuge}), ints({2, 2})});
  add("Col2ImBlock", "Col2Im", {floats({1, 4, 4}), ints({3, 3}), ints({kHuge, kHuge})});
  add("Col2ImPads", "Col2Im", {floats({1, 4, 4}), ints({3, 3}), ints({2, 2})},
      {{"pads", Ints{kMax, kMax, kMax, kMax}}});
  add("LRN", "LRN", {image}, {{"size", kMax}});
  add("LRNHuge", "LRN", {image}, {{"size", kHuge}});
  add("RoiAlign", "RoiAlign", {image, floats({1, 4}), ints({0})},
      {{"output_height", kHuge}, {"output_width", kHuge}});
  add("RoiAlignNoChannels", "RoiAlign", {floats({1, 0, 4, 4}), floats({1, 4}), ints({0})},
      {{"output_height", kHuge}, {"output_width", std::int64_t{3}}});
  add("RoiAlignRatio", "RoiAlign", {image, floats({1, 4}), ints({0})},
      {{"sampling_ratio", kHuge}, {"output_height", std::int64_t{2}}});
  {
    // A region as large as it can be: the ratio follows from it.
    Tensor roi = Tensor::allocate(DType::kFloat32, {1, 4});
    const float corners[] = {0, 0, 1e30F, 1e30F};
    std::copy_n(corners, 4, roi.data<float>());
    add("RoiAlignRegion", "RoiAlign", {image, roi, ints({0})},
        {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}});
    Tensor smaller = roi.clone();
    smaller.data<float>()[2] = smaller.data<float>()[3] = 1e9F;
    add("RoiAlignRegionSmaller", "RoiAlign", {image, smaller, ints({0})},
        {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}});
    add("MaxRoiPool", "MaxRoiPool", {image, numbers({0, 0, 0, 1e9F, 1e9F}).reshaped({1, 5})},
        {{"pooled_shape", Ints{2, 2}}});
    add("MaxRoiPoolShape", "MaxRoiPool", {image, numbers({0, 0, 0, 3, 3}).reshaped({1, 5})},
        {{"pooled_shape", Ints{kHuge, kHuge}}});
  }
  add("Range", "Range", {Tensor::scalar(std::int64_t{0}), Tensor::scalar(kMax), one});
  add("RangeFloat", "Range", {Tensor::scalar(0.0F), Tensor::scalar(1e30F), Tensor::scalar(1.0F)});
  add("RangeTiny", "Range", {Tensor::scalar(0.0F), Tensor::scalar(1.0F), Tensor::scalar(1e-38F)});
  add("RangeZero", "Range",
      {Tensor::scalar(std::int64_t{0}), one, Tensor::scalar(std::int64_t{0})});
  add("RangeSigned", "Range", {Tensor::scalar(INT64_MIN), Tensor::scalar(kMax), one});
  add("OneHot", "OneHot", {ints({0, 1}), huge, numbers({0, 1})});
  add("OneHotAxis", "OneHot", {ints({0, 1}), one, numbers({0, 1})}, {{"axis", kMax}});
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    add(op, op, {huge});
    add(std::string(op) + "Max", op, {Tensor::scalar(kMax)});
    add(std::string(op) + "Negative", op, {Tensor::scalar(std::int64_t{-5})});
  }
  const auto real = [](float v) { return Tensor::scalar(v); };
  add("MelBins", "MelWeightMatrix",
      {huge, Tensor::scalar(std::int64_t{16}), Tensor::scalar(std::int64_t{8192}), real(0),
       real(4096)});
  add("MelLength", "MelWeightMatrix",
      {Tensor::scalar(std::int64_t{8}), Tensor::scalar(kMax), Tensor::scalar(std::int64_t{8192}),
       real(0), real(4096)});
  add("DFT", "DFT", {floats({1, 8, 1}), huge});
  add("DFTMax", "DFT", {floats({1, 8, 1}), Tensor::scalar(kMax)});
  add("STFTStep", "STFT", {floats({1, 32, 1}), huge, Tensor{}, Tensor::scalar(std::int64_t{8})});
  add("STFTStepZero", "STFT",
      {floats({1, 32, 1}), Tensor::scalar(std::int64_t{0}), Tensor{},
       Tensor::scalar(std::int64_t{8})});
  add("STFTLength", "STFT", {floats({1, 32, 1}), one, Tensor{}, huge});
  {
    const Attributes pool = {{"mode", std::string("TF")},
                             {"ngram_counts", Ints{0, 2}},
                             {"ngram_indexes", Ints{0, 1, 2}},
                             {"pool_int64s", Ints{1, 2, 3, 4}}};
    const auto with = [&](std::int64_t low, std::int64_t high, std::int64_t skip) {
      Attributes a = pool;
      a["min_gram_length"] = low;
      a["max_gram_length"] = high;
      a["max_skip_count"] = skip;
      return a;
    };
    add("TfIdfLength", "TfIdfVectorizer", {ints({1, 2, 3})}, with(1, kMax, 0));
    add("TfIdfSkip", "TfIdfVectorizer", {ints({1, 2, 3})}, with(1, 2, kMax));
    Attributes index = with(1, 2, 0);
    index["ngram_indexes"] = Ints{0, 1, kHuge};
    add("TfIdfIndex", "TfIdfVectorizer", {ints({1, 2, 3})}, index);
  }
  add("Split", "Split", {floats({5})}, {{"num_outputs", kMax}});
  add("SplitToSequence", "SplitToSequence", {floats({5}), huge});
  add("SplitToSequenceZero", "SplitToSequence", {floats({5}), Tensor::scalar(std::int64_t{0})});
  add("CenterCropPad", "CenterCropPad", {floats({5, 5}), ints({kHuge, kHuge})});
  add("ResizeScales", "Resize", {image, Tensor{}, numbers({1, 1, 1e9F, 1e9F})});
  add("ResizeScalesInfinite", "Resize", {image, Tensor{}, numbers({1, 1, INFINITY, 1})});
  add("ResizeSizes", "Resize", {image, Tensor{}, Tensor{}, ints({1, 2, kHuge, kHuge})});
  add("ResizeShrink", "Resize", {image, Tensor{}, numbers({1, 1, 1e-30F, 1e-30F})},
      {{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}});
  add("AffineGrid", "AffineGrid", {floats({1, 2, 3}), ints({1, 1, kHuge, kHuge})});
  add("GridSample", "GridSample",
      {image, numbers({1e30F, -1e30F, INFINITY, NAN}).reshaped({1, 1, 2, 2})},
      {{"padding_mode", std::string("reflection")}});
  add("Multinomial", "Multinomial", {floats({1, 3})}, {{"sample_size", kHuge}});
  add("RandomNormal", "RandomNormal", {}, {{"shape", Ints{kHuge, kHuge}}});
  add("RandomUniform", "RandomUniform", {}, {{"shape", Ints{kHuge, 4}}});
  add("NonMaxSuppression", "NonMaxSuppression",
      {floats({1, 3, 4}), floats({1, 1, 3}), Tensor::scalar(kMax), real(0.5F), real(0)});
  add("TopK", "TopK", {floats({5}), ints({kHuge})});
  add("TopKNegative", "TopK", {floats({5}), ints({-1})});
  add("Trilu", "Trilu", {floats({5, 5}), Tensor::scalar(kMax)});
  add("TriluMin", "Trilu", {floats({5, 5}), Tensor::scalar(INT64_MIN)});
  add("EyeLike", "EyeLike", {floats({5, 5})}, {{"k", kMax}});
  add("EyeLikeMin", "EyeLike", {floats({5, 5})}, {{"k", INT64_MIN}});
  add("DepthToSpace", "DepthToSpace", {floats({1, 4, 2, 2})}, {{"blocksize", kMax}});
  add("SpaceToDepth", "SpaceToDepth", {floats({1, 4, 2, 2})}, {{"blocksize", kHuge}});
  add("ReverseSequence", "ReverseSequence", {floats({5, 1}), ints({kMax})});
  add("CumSumAxis", "CumSum", {floats({5}), huge});
  add("LSTM", "LSTM", {floats({2, 1, 3}), floats({1, 8, 3}), floats({1, 8, 2})},
      {{"hidden_size", kHuge}});
  add("BitShift", "BitShift",
      {Tensor::from<std::uint32_t>(DType::kUInt32, {1}, std::vector<std::uint32_t>{1}),
       Tensor::from<std::uint32_t>(DType::kUInt32, {1}, std::vector<std::uint32_t>{4000000000U})},
      {{"direction", std::string("LEFT")}});
  add("Slice", "Slice", {floats({5}), ints({0}), ints({kMax}), ints({0}), ints({INT64_MIN})});
  add("SliceStep", "Slice",
      {floats({5}), ints({INT64_MIN}), ints({kMax}), ints({0}), ints({kMax})});
  add("SliceZero", "Slice", {floats({5}), ints({0}), ints({5}), ints({0}), ints({0})});
  add("GatherND", "GatherND", {floats({5}), ints({kMax})});
  add("Unsqueeze", "Unsqueeze", {floats({5}), ints({kMax})});
  add("GroupNormalization", "GroupNormalization", {image, floats({2}), floats({2})},
      {{"num_groups", kMax}});
  add("PadEdge", "Pad", {floats({5}), ints({kHuge, 0})}, {{"mode", std::string("edge")}});
  add("PadReflect", "Pad", {floats({5}), ints({kHuge, 0})}, {{"mode", std::string("reflect")}});
  add("PadWrap", "Pad", {floats({5}), ints({kMax, kMax})}, {{"mode", std::string("wrap")}});
  add("BlockQuantised", "DequantizeLinear",
      {Tensor::from<std::uint8_t>(DType::kUInt8, {4}, std::vector<std::uint8_t>{1, 2, 3, 4}),
       numbers({1, 2})},
      {{"axis", std::int64_t{0}}, {"block_size", kMax}});
  // Their range is infinite, and the quotient that gives the zero point no number.
  add("DynamicQuantizeLinear", "DynamicQuantizeLinear", {numbers({-INFINITY, 1, INFINITY})});
  return list;
}

// Runs the case's node; an error is as good as a result. `known`: whether shapes are known when it
// is compiled, so that shape inference has its say, or only at the run.
void try_case(const Case& c, bool known) {
  Graph g;
  std::vector<ValueId> values;
  std::vector<Data> inputs;
  for (const Tensor& t : c.inputs) {
    if (!t.defined()) {
      values.emplace_back();
      continue;
    }
    values.push_back(
        g.add_input("", known ? Type::tensor(t.dtype(), t.dims()) : Type::tensor(t.dtype())));
    inputs.emplace_back(t);
  }
  std::vector<std::string> outputs_named = {"y"};
  if (c.op == "TopK") outputs_named.emplace_back("indices");
  if (c.op == "DynamicQuantizeLinear") outputs_named.insert(outputs_named.end(), {"scale", "zero"});
  const NodeId node = g.add_node("", c.op, values, outputs_named, c.attributes, "y");
  for (const ValueId v : g.node(node).outputs) g.add_output(v);
  try {
    const auto executable = compile(g);
    std::vector<Data> outputs(g.outputs().size());
    run_once(*executable, nullptr, inputs, outputs);
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 10U);
    if (std::getenv("XRT_TEST_VERBOSE") != nullptr) std::puts(error.what());
  }
}

class HostileAttributes : public ::testing::TestWithParam<Case> {};

TEST_P(HostileAttributes, AreErrorsOrCostNoMoreThanTheInput) {
  const auto start = std::chrono::steady_clock::now();
  try_case(GetParam(), true);
  try_case(GetParam(), false);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 10);
}

INSTANTIATE_TEST_SUITE_P(Native, HostileAttributes, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Scratch, IsOnTheAccountOfTheRun) {
  Graph g;
  const Tensor line = floats({1, 100003, 1});
  const ValueId x = g.add_input("x", Type::tensor(line.dtype(), line.dims()));
  g.add_output(g.add_op("DFT", {x}));
  const auto executable = compile(g, {}, 1);
  const auto account = std::make_shared<MemoryAccount>();
  const auto run_within = [&](std::size_t most) {
    const WorkScope scope(account, most);
    const std::vector<Data> inputs{Data(line)};
    std::vector<Data> outputs(1);
    run_once(*executable, nullptr, inputs, outputs);
  };
  // The result is 0.8 MB, the roots of one, the chirp and what they are multiplied in 15 MB.
  try {
    run_within(std::size_t{4} << 20);
    ADD_FAILURE() << "it has a result";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_NE(std::string(error.what()).find("what is computed in between"), std::string::npos);
  }
  EXPECT_EQ(account->bytes, 0);
  run_within(std::size_t{64} << 20);
  EXPECT_EQ(account->bytes, 0);
}

}  // namespace
}  // namespace xrt
