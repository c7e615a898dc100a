// SPDX-License-Identifier: Apache-2.0
// Models with a few damaged bytes go all the way: import, export, text, passes, function bodies.
// Whatever happens is an xrt::Error or a graph that verifies. Seeds are fixed; `./dev fuzz` goes on
// from where this ends.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/schema.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "xrt/error.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

const std::vector<const char*> kModels = {
    R"(graph cnn(%x: float32[N,1,8,8]) -> (%y) {
      constant %w: float32[2,1,1,1] = {1, 2}
      constant %c: float32[2] = {1, 2}
      constant %pads: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
      constant %zero: int64[1] = {0}
      constant %rest: int64[1] = {-1}
      %p = Pad(%x, %pads)
      %a = Conv(%p, %w, %c) {strides = ints[2, 2]}
      %b = BatchNormalization(%a, %c, %c, %c, %c) {epsilon = 0.001f}
      %d = MaxPool(%b) {kernel_shape = ints[2, 2], ceil_mode = 1}
      %s = Shape(%x)  %n = Gather(%s, %zero)  %t = Concat(%n, %rest) {axis = 0}
      %f = Reshape(%d, %t)
      %g = Gelu(%f)
      %y = LogSoftmax(%g)
    })",
    R"(graph control(%c: bool[], %x: float32[2], %n: int64[]) -> (%y, %z) {
      %y = If(%c) {
        then_branch = graph a() -> (%r) { capture %v: float32[2] = %x  %r = Relu(%v) },
        else_branch = graph b() -> (%r) { capture %v: float32[2] = %x  %r = Neg(%v) }}
      %s: float32[*], %z = Loop(%n, _, %y) {
        body = graph l(%i: int64[], %k: bool[], %h: float32[*]) -> (%k2, %h2, %o) {
          capture %v: float32[2] = %x  %k2 = Identity(%k)  %h2 = Add(%h, %v)  %o = Mul(%h, %v) }}
    })",
    R"(graph sequence(%x: float32[4,3]) -> (%y, %e) {
      constant %one: int64[] = {1}
      %s = SplitToSequence(%x, %one) {axis = 0}
      %m = SequenceMap(%s) {
        body = graph f(%v: float32[*]) -> (%r) { %r = Exp(%v) }}
      %y = ConcatFromSequence(%m) {axis = 0}
      %e = Einsum(%x, %x) {equation = "ij,kj->ik"}
    })",
    R"(graph scan(%h: float32[3], %x: float32[5,3]) -> (%a, %b, %t, %u) {
      constant %k: int64[1] = {2}
      %a, %b = Scan(%h, %x) {num_scan_inputs = 1,
        body = graph s(%p: float32[3], %q: float32[3]) -> (%r, %o) {
          %r = Add(%p, %q)  %o = Identity(%r) }}
      %t, %i = TopK(%x, %k)
      %q, %qs, %qz = DynamicQuantizeLinear(%x)
      %u = CastLike(%t, %i)
    })"};

std::string damaged(std::string bytes, std::mt19937* random) {
  const auto at = [&] { return (*random)() % bytes.size(); };
  const int times = 1 + static_cast<int>((*random)() % 3);
  for (int i = 0; i < times && !bytes.empty(); ++i) {
    switch ((*random)() % 8) {
      case 0:
        bytes.erase(at(), 1 + (*random)() % 8);
        break;
      case 1:
        bytes.insert(at(), bytes.substr(at(), (*random)() % 32));
        break;
      case 2:
        bytes.resize(at());
        break;
      default:
        bytes[at()] = static_cast<char>((*random)());
    }
  }
  return bytes;
}

void all_the_way(const std::string& bytes) {
  Graph graph = import_onnx_bytes(bytes);
  verify(parse_graph(print(graph, PrintOptions::exact())));
  import_onnx_bytes(export_onnx(graph));
  run_passes(graph, {});
  verify(graph);
  expand_functions(graph, [](const Graph&, NodeId) { return true; });
  verify(graph);
}

TEST(Mutations, DamagedModelsAreRefusedCleanly) {
  constexpr int kMutations = 500;  // of each model
  for (std::size_t m = 0; m < kModels.size(); ++m) {
    Graph graph = parse_graph(kModels[m]);
    infer_shapes(graph);
    const std::string bytes = export_onnx(graph);
    ASSERT_NO_THROW(all_the_way(bytes)) << kModels[m];
    std::mt19937 random(static_cast<std::mt19937::result_type>(m));
    int refused = 0;
    for (int i = 0; i < kMutations; ++i) {
      try {
        all_the_way(damaged(bytes, &random));
      } catch (const Error& e) {
        ++refused;
        EXPECT_NE(e.code(), ErrorCode::kInternal) << "model " << m << ", " << i << ": " << e.what();
      }
    }
    EXPECT_GT(refused, kMutations / 4);
  }
}

// Among them are files on which the fuzzer found faults.
TEST(Mutations, SeedsOfTheFuzzerAreReadOrRefused) {
  int read = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/corpus/run_model")) {
    try {
      all_the_way(read_file(file.path()));
      ++read;
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::kInternal) << file.path() << ": " << e.what();
    }
  }
  EXPECT_GT(read, 30);
}

}  // namespace
}  // namespace xrt
