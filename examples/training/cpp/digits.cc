// SPDX-License-Identifier: Apache-2.0
// Training in C++ alone: a convolutional network learns to read seven-segment digits that are
// moved about and drowned in noise. The graph is built here, node by node.
//
//   ./digits [engine]        native by default; a list such as openvino,xla works too
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "xrt/trainer.h"

namespace {

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kSide = 16;

struct Batch {
  xrt::Tensor images = xrt::Tensor::allocate(xrt::DType::kFloat32, {kBatch, 1, kSide, kSide});
  xrt::Tensor labels = xrt::Tensor::allocate(xrt::DType::kInt64, {kBatch});
};

// Which of the segments (top, upper left, upper right, middle, lower left, lower right, bottom)
// each digit has, one bit each.
constexpr int kSegments[] = {0x77, 0x24, 0x5D, 0x6D, 0x2E, 0x6B, 0x7B, 0x25, 0x7F, 0x6F};
// First row and column, last row and column of each segment on a field of 9 rows and 5 columns.
constexpr int kLines[][4] = {{0, 0, 0, 4}, {0, 0, 4, 0}, {0, 4, 4, 4}, {4, 0, 4, 4},
                             {4, 0, 8, 0}, {4, 4, 8, 4}, {8, 0, 8, 4}};

Batch draw(std::mt19937& random) {
  Batch batch;
  std::normal_distribution<float> noise(0.0F, 0.3F);
  std::uniform_int_distribution<int> digit(0, 9);
  std::uniform_int_distribution<int> shift(0, 6);
  auto* pixels = batch.images.data<float>();
  std::generate(pixels, pixels + batch.images.count(), [&] { return noise(random); });
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const int label = digit(random);
    const int down = shift(random);
    const int right = shift(random);
    batch.labels.data<std::int64_t>()[i] = label;
    for (int s = 0; s < 7; ++s) {
      if ((kSegments[label] >> s & 1) == 0) continue;
      for (int r = kLines[s][0]; r <= kLines[s][2]; ++r) {
        for (int c = kLines[s][1]; c <= kLines[s][3]; ++c) {
          pixels[i * kSide * kSide + (r + down) * kSide + c + right] += 1.0F;
        }
      }
    }
  }
  return batch;
}

xrt::Tensor random_weights(const xrt::Dims& dims, std::mt19937& random) {
  xrt::Tensor tensor = xrt::Tensor::allocate(xrt::DType::kFloat32, dims);
  const std::int64_t fan_in = tensor.count() / dims[0];
  std::normal_distribution<float> normal(0.0F, std::sqrt(2.0F / static_cast<float>(fan_in)));
  std::generate(tensor.data<float>(), tensor.data<float>() + tensor.count(),
                [&] { return normal(random); });
  return tensor;
}

xrt::Tensor filled(std::int64_t count, float value) {
  xrt::Tensor tensor = xrt::Tensor::allocate(xrt::DType::kFloat32, {count});
  std::fill_n(tensor.data<float>(), count, value);
  return tensor;
}

// Convolution, batch normalisation, Relu and a maximum pool.
xrt::ValueId block(xrt::Graph& graph, xrt::ValueId x, std::int64_t from, std::int64_t to,
                   const std::string& name, std::mt19937& random) {
  const std::vector<std::int64_t> pads{1, 1, 1, 1};
  const std::vector<std::int64_t> two{2, 2};
  x = graph.add_op(
      "Conv", {x, graph.add_constant(name + ".weight", random_weights({to, from, 3, 3}, random))},
      {{"pads", pads}});
  x = graph.add_op("BatchNormalization",
                   {x, graph.add_constant(name + ".scale", filled(to, 1)),
                    graph.add_constant(name + ".bias", filled(to, 0)),
                    graph.add_constant(name + ".running_mean", filled(to, 0)),
                    graph.add_constant(name + ".running_var", filled(to, 1))});
  x = graph.add_op("Relu", {x});
  return graph.add_op("MaxPool", {x}, {{"kernel_shape", two}, {"strides", two}});
}

xrt::Graph network() {
  std::mt19937 random(0);
  xrt::Graph graph("digits");
  xrt::ValueId x = graph.add_input(
      "images",
      xrt::Type::tensor(xrt::DType::kFloat32, xrt::Shape{xrt::Dim("batch"), 1, kSide, kSide}));
  x = block(graph, x, 1, 8, "block1", random);
  x = block(graph, x, 8, 16, "block2", random);
  x = graph.add_op("Flatten", {x});
  x = graph.add_op("Gemm",
                   {x, graph.add_constant("head.weight", random_weights({10, 256}, random)),
                    graph.add_constant("head.bias", filled(10, 0))},
                   {{"transB", std::int64_t{1}}}, "logits");
  graph.add_output(x);
  return graph;
}

double accuracy(xrt::Trainer& trainer, const Batch& batch) {
  const std::vector<xrt::Data> outputs = trainer.evaluate({{"images", batch.images}});
  const auto* logits = outputs[0].tensor().data<float>();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const float* row = logits + i * 10;
    right += std::max_element(row, row + 10) - row == batch.labels.data<std::int64_t>()[i];
  }
  return static_cast<double>(right) / kBatch;
}

}  // namespace

int main(int argc, char** argv) {
  xrt::TrainerOptions options;
  options.optimizer.name = "adam";
  options.optimizer.learning_rate = 0.01;
  if (argc > 1) {
    options.program.engines.clear();
    std::string list = argv[1];
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      options.program.engines.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  try {
    const auto trainer = xrt::Trainer::create(network(), options);
    trainer->set_schedule(xrt::cosine_schedule(0.01, 800, 0.0001, 20));
    std::mt19937 random(1);
    for (int step = 0; step <= 800; ++step) {
      const Batch batch = draw(random);
      const double loss = trainer->step({{"images", batch.images}, {"target", batch.labels}});
      if (step % 100 == 0) std::printf("step %3d  loss %.4f\n", step, loss);
    }
    const double share = accuracy(*trainer, draw(random));
    std::printf("accuracy on a new batch: %.3f\n", share);
    trainer->save("digits.state");
    return share > 0.9 ? 0 : 1;
  } catch (const xrt::Error& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
