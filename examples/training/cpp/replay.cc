// SPDX-License-Identifier: Apache-2.0
// Trains in C++ what digits.py wrote: the same network, from the same weights, on the same batches.
// Prints the loss of every step.
//
//   python ../digits.py --export FOLDER
//   ./replay FOLDER [engine]        native by default; a list such as openvino,xla works too
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "xrt/onnx.h"
#include "xrt/trainer.h"

namespace {

constexpr std::int64_t kBatch = 64;

// The next batch of a file of row-major tensors; false at its end.
bool read(std::ifstream& file, xrt::Tensor& tensor) {
  const auto bytes = static_cast<std::streamsize>(tensor.bytes());
  file.read(static_cast<char*>(tensor.raw()), bytes);
  return file.gcount() == bytes;
}

std::ifstream open(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "replay FOLDER [engine]\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    xrt::TrainerOptions options;
    options.optimizer.learning_rate = 0.01;
    options.optimizer.momentum = 0.9;
    if (argc > 2) {
      options.program.engines.clear();
      const std::string list = argv[2];
      for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        options.program.engines.push_back(list.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    const auto trainer = xrt::Trainer::create(xrt::import_onnx(folder / "network.onnx"), options);
    std::ifstream images = open(folder / "images.bin");
    std::ifstream labels = open(folder / "labels.bin");
    xrt::Tensor x = xrt::Tensor::allocate(xrt::DType::kFloat32, {kBatch, 1, 8, 8});
    xrt::Tensor y = xrt::Tensor::allocate(xrt::DType::kInt64, {kBatch});
    const std::string input = trainer->input_names().front();
    while (read(images, x) && read(labels, y)) {
      std::printf("%.9g\n", trainer->step({{input, x}, {"target", y}}));
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay: %s\n", error.what());
    return 1;
  }
}
