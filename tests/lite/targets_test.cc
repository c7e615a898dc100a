// SPDX-License-Identifier: Apache-2.0
// Files for several targets. "cuda" runs on stand-ins for NVRTC and libcuda (standin/): the same
// kernel sources, compiled for this machine's processor.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "base/file.h"
#include "compile.h"
#include "drivers/cuda/code.h"
#include "host_model.h"
#include "internal.h"
#include "ir/parser.h"
#include "measure/difference.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace xrt::lite {
namespace {

using Ints = std::vector<std::int64_t>;

// Whether this process is for a libcuda without graphs (CMakeLists.txt).
bool older() { return std::getenv("XRT_STANDIN_OLDER") != nullptr; }

class Environment : public testing::Environment {
 public:
  void SetUp() override {
    setenv("XRT_NVRTC", XRT_STANDIN_NVRTC, 1);
    setenv("XRT_CUDA_ARCHS", "90", 1);
    setenv("ASCEND_TOOLKIT_HOME", XRT_STANDIN_CANN, 1);
    // What is loaded already is found by its SONAME. (A run path would not do: AddressSanitizer's
    // dlopen does not look along that of its caller.)
    const char* cuda = older() ? XRT_STANDIN_CUDA_OLDER : XRT_STANDIN_CUDA;
    for (const char* standin : {cuda, XRT_STANDIN_ASCENDCL}) {
      ASSERT_NE(dlopen(standin, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    }
  }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new Environment);

// Sets a variable of the environment for as long as it lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* set = std::getenv(name)) before_ = set;
    setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

Tensor random_tensor(Dims dims, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) {
    t.data<float>()[i] = scale * (static_cast<float>(generator()) / 2147483648.0F - 1.0F);
  }
  return t;
}

Tensor integers(const Ints& values) {
  Tensor t = Tensor::allocate(DType::kInt64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data<std::int64_t>());
  return t;
}

class Net {
 public:
  explicit Net(const Dims& dims) { x = graph.add_input("x", Type::tensor(DType::kFloat32, dims)); }

  ValueId weights(Dims dims, float scale = 0.3F) {
    const std::string name = "w" + std::to_string(seed_);
    return graph.add_constant(name, random_tensor(std::move(dims), seed_++, scale));
  }
  ValueId ints(const Ints& values) {
    return graph.add_constant("i" + std::to_string(seed_++), integers(values));
  }
  ValueId conv(ValueId in, Dims w, std::int64_t groups, Ints strides = {1, 1}) {
    const std::int64_t channels = w[0];
    const ValueId k = weights(std::move(w)), b = weights({channels});
    return graph.add_op("Conv", {in, k, b},
                        {{"pads", Ints{1, 1, 1, 1}}, {"group", groups}, {"strides", strides}});
  }
  ValueId op(const std::string& type, const std::vector<ValueId>& inputs,
             Attributes attributes = {}) {
    return graph.add_op(type, inputs, std::move(attributes));
  }
  Graph finish(const std::vector<ValueId>& outputs) {
    for (const ValueId v : outputs) graph.add_output(v);
    graph.opsets()[""] = kOnnxOpset;
    return graph;
  }

  unsigned unique() { return seed_++; }

  Graph graph{"net"};
  ValueId x;

 private:
  unsigned seed_ = 1;
};

Graph image_network() {
  Net n({2, 3, 13, 11});
  const ValueId a = n.op("Relu", {n.conv(n.x, {20, 3, 3, 3}, 1)});
  const ValueId b = n.op("Relu", {n.conv(a, {20, 1, 3, 3}, 20)});
  const ValueId c = n.op("Add", {n.conv(b, {20, 20, 3, 3}, 1), a});
  const ValueId g = n.conv(c, {40, 10, 3, 3}, 2, {2, 2});
  const ValueId s = n.op("Mul", {g, n.op("Sigmoid", {g})});
  const ValueId p =
      n.op("MaxPool", {s},
           {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  const ValueId m =
      n.op("AveragePool", {p}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}});
  const ValueId flat = n.op("Flatten", {m});
  const ValueId global = n.op("Flatten", {n.op("GlobalAveragePool", {p})});
  const ValueId joined = n.op("Concat", {flat, global}, {{"axis", std::int64_t{1}}});
  return n.finish({n.op("Softmax", {joined})});
}

std::string compiled(Graph graph, const std::vector<std::string>& targets,
                     Precision precision = Precision::kFloat32) {
  std::vector<std::string> notes;
  CompileOptions options;
  options.targets = targets;
  options.precision = precision;
  return write_file(compile(std::move(graph), options, notes));
}

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("xrt_lite_targets_" + std::to_string(getpid()) + name);
}

std::vector<Tensor> run(const std::string& file, const std::vector<Tensor>& inputs) {
  const auto path = temporary(".bin");
  write_file_atomic(path, file);
  HostModel model(path, 2, true);
  std::vector<Tensor> outputs = model.allocate_outputs();
  model.bind(inputs, outputs);
  model.run();
  model.run();  // nothing of the first run may matter
  std::filesystem::remove(path);
  return outputs;
}

void expect_native(const Graph& graph, const std::vector<std::string>& targets, double tolerance,
                   Precision precision = Precision::kFloat32) {
  const Tensor x = random_tensor(*graph.value(graph.inputs()[0]).type.static_dims(), 99);
  const auto program = Program::compile(graph, {.engines = {"native"}});
  const std::vector<Data> expected = program->run({{"x", Data(x)}});
  const std::vector<Tensor> outputs = run(compiled(graph, targets, precision), {x});
  ASSERT_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_LT(compare(outputs[i], expected[i].tensor(), 0, 0).max_of_range, tolerance) << i;
  }
}

// A product over constants and one over values, layer normalisation, a table that is looked up.
Graph sequence_network() {
  Net n({2, 6, 16});
  const ValueId q = n.op("MatMul", {n.x, n.weights({16, 24})});
  const ValueId k = n.op("Add", {n.op("MatMul", {n.x, n.weights({16, 24})}), n.weights({24})});
  const ValueId scores = n.op("MatMul", {q, n.op("Transpose", {k}, {{"perm", Ints{0, 2, 1}}})});
  const ValueId mixed = n.op("MatMul", {n.op("Softmax", {scores}), q});
  const ValueId normal = n.op("LayerNormalization", {mixed, n.weights({24}), n.weights({24})},
                              {{"axis", std::int64_t{-1}}});
  const ValueId best =
      n.op("ArgMax", {normal}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}});
  const ValueId looked_up = n.op("Gather", {n.weights({24, 5}), best});
  const ValueId sum = n.op("ReduceSum", {normal, n.ints({1})}, {{"keepdims", std::int64_t{0}}});
  const ValueId padded = n.op("Pad", {looked_up, n.ints({0, 1, 0, 0, 2, 1})});
  return n.finish({n.op("Exp", {sum}), n.op("Tanh", {padded})});
}

TEST(LiteTargets, CudaKernelsAgreeWithTheNativeEngine) {
  expect_native(image_network(), {"cuda"}, 1e-5);
  expect_native(image_network(), {"cuda"}, 1e-2, Precision::kFloat16);
}

// pack_k of the convolutions, which says what multiplies them.
std::set<int> packings(const Graph& graph) {
  std::vector<std::string> notes;
  const Module m = compile(graph, {.targets = {"cuda"}}, notes);
  std::set<int> result;
  for (const ModuleOp& op : m.ops) {
    if (op.kernel != XRT_K_CONV_F32) continue;
    xrt_k_conv p;
    std::memcpy(&p, op.params.data(), sizeof(p));
    result.insert(p.pack_k);
  }
  return result;
}

// TF32 has ten bits of mantissa: float32 stays float32 unless it is asked for.
TEST(LiteTargets, CudaUsesTf32WhereItIsAskedFor) {
  {
    const Setting tf32("XRT_CUDA_TF32", "1");
    expect_native(image_network(), {"cuda"}, 5e-3);
    EXPECT_EQ(packings(image_network()), (std::set<int>{4}));
  }
  EXPECT_EQ(packings(image_network()), (std::set<int>{1}));
  const Setting wrong("XRT_CUDA_TF32", "yes");
  EXPECT_THAT([] { compiled(image_network(), {"cuda"}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("XRT_CUDA_TF32")));
}

// Convolutions, a residual and a product between QuantizeLinear and DequantizeLinear.
Graph quantized_network(DType dtype) {
  Net n({1, 3, 9, 10});
  const auto zero = [&](int v) {
    Tensor t = Tensor::allocate(dtype, {});
    *t.data<std::uint8_t>() = static_cast<std::uint8_t>(v);
    return n.graph.add_constant("z" + std::to_string(v) + "_" + std::to_string(n.unique()), t);
  };
  const auto scale = [&](float v) {
    Tensor t = Tensor::allocate(DType::kFloat32, {});
    *t.data<float>() = v;
    return n.graph.add_constant("s" + std::to_string(n.unique()), t);
  };
  const int middle = dtype == DType::kUInt8 ? 121 : -3;
  const auto quantized = [&](ValueId v, float step, int z) {
    const ValueId s = scale(step), zz = zero(z);
    return n.op("DequantizeLinear", {n.op("QuantizeLinear", {v, s, zz}), s, zz});
  };
  const auto weights = [&](Dims dims, unsigned seed) {
    const Tensor real = random_tensor(dims, seed, 127);
    Tensor t = Tensor::allocate(DType::kInt8, dims);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      t.data<std::int8_t>()[i] = static_cast<std::int8_t>(real.data<float>()[i]);
    }
    return n.op("DequantizeLinear",
                {n.graph.add_constant("q" + std::to_string(n.unique()), t), scale(0.004F)});
  };
  const auto conv = [&](ValueId x, Dims dims, std::int64_t groups, unsigned seed) {
    return n.op("Conv", {x, weights(std::move(dims), seed)},
                {{"pads", Ints{1, 1, 1, 1}}, {"group", groups}});
  };
  const ValueId x = quantized(n.x, 0.01F, middle);
  const ValueId a = quantized(n.op("Relu", {conv(x, {24, 3, 3, 3}, 1, 1)}), 0.01F, middle + 1);
  const ValueId b = quantized(conv(a, {24, 1, 3, 3}, 24, 2), 0.02F, middle + 2);
  const ValueId c = quantized(n.op("Add", {conv(b, {24, 24, 3, 3}, 1, 3), a}), 0.05F, middle);
  const ValueId d = quantized(conv(c, {70, 12, 3, 3}, 2, 4), 0.2F, middle);
  const ValueId p = n.op("MaxPool", {d}, {{"kernel_shape", Ints{9, 10}}});
  const ValueId flat = quantized(n.op("Flatten", {p}), 0.2F, middle);
  return n.finish({quantized(n.op("MatMul", {flat, weights({70, 33}, 5)}), 0.3F, middle)});
}

TEST(LiteTargets, CudaEqualsTheProcessorInInt8) {
  for (const DType dtype : {DType::kUInt8, DType::kInt8}) {
    const Graph graph = quantized_network(dtype);
    std::vector<std::string> notes;
    const Module m = compile(graph, {.targets = {"cuda"}}, notes);
    std::set<int> kernels;
    for (const ModuleOp& op : m.ops) kernels.insert(op.kernel);
    EXPECT_THAT(kernels, testing::IsSupersetOf({XRT_K_CONV_Q8, XRT_K_DWCONV_Q8, XRT_K_GEMM_Q8}));
    const Tensor x = random_tensor({1, 3, 9, 10}, 5);
    const Tensor device = run(compiled(graph, {"cuda"}), {x})[0];
    const Tensor processor = run(compiled(graph, {"generic"}), {x})[0];
    std::set<float> values;
    for (std::int64_t i = 0; i < device.count(); ++i) {
      EXPECT_EQ(device.data<float>()[i], processor.data<float>()[i]) << i;
      values.insert(device.data<float>()[i]);
    }
    EXPECT_GT(values.size(), 10U);  // not all saturated
  }
}

TEST(LiteTargets, WhatADeviceCannotRunFallsToTheHost) {
  EXPECT_THAT([] { compiled(sequence_network(), {"cuda"}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("--targets")));
  expect_native(sequence_network(), {"cuda", "generic"}, 1e-5);
  std::vector<std::string> notes;
  const Module m = compile(sequence_network(), {.targets = {"cuda", "generic"}}, notes);
  ASSERT_EQ(m.functions.size(), 3U);  // device, the table on the host, device
  EXPECT_EQ(m.functions[1].op_count, 1);
  EXPECT_EQ(m.ops[static_cast<std::size_t>(m.functions[1].first_op)].kernel, XRT_K_GATHER);
  int transfers = 0;
  for (const ModuleStep& s : m.steps) transfers += s.function < 0 ? 1 : 0;
  EXPECT_EQ(transfers, 5);  // the input, indices there, rows back, two outputs
  EXPECT_GT(m.device_arena_bytes[0], 0U);
  EXPECT_GT(m.arena_bytes, 0U);
}

// Where the host's target comes first everything stays there, and no GPU is looked for.
TEST(LiteTargets, TheFirstTargetTakesWhatItCan) {
  std::vector<std::string> notes;
  const Module m = compile(sequence_network(), {.targets = {"generic", "cuda"}}, notes);
  EXPECT_EQ(m.functions.size(), 1U);
  EXPECT_EQ(m.steps.size(), 1U);
  setenv("XRT_STANDIN_NO_DEVICE", "1", 1);
  expect_native(sequence_network(), {"generic", "cuda"}, 1e-5);
  unsetenv("XRT_STANDIN_NO_DEVICE");
}

// What the stand-in for libcuda was asked in two runs. Lines that begin alike follow each other
// once.
struct Calls {
  std::vector<std::string> lines, kinds;
  std::vector<Tensor> outputs;
};
Calls calls_of(const std::string& file, const std::vector<Tensor>& inputs) {
  const auto path = temporary(".log");
  Calls calls;
  {
    const Setting log("XRT_STANDIN_LOG", path.string());
    calls.outputs = run(file, inputs);
  }
  std::istringstream log(read_file(path));
  std::filesystem::remove(path);
  for (std::string line; std::getline(log, line);) {
    const std::string kind = line.substr(0, line.find(' '));
    if (kind == "overlap") {
      calls.lines.push_back(line);
      continue;
    }
    if (calls.kinds.empty() || calls.kinds.back() != kind) calls.kinds.push_back(kind);
    calls.lines.push_back(line);
  }
  return calls;
}

std::ptrdiff_t count(const Calls& calls, const std::string& kind) {
  return std::count_if(calls.lines.begin(), calls.lines.end(),
                       [&](const std::string& l) { return l.starts_with(kind + " "); });
}

// Small: tensor cores are emulated.
Graph small_network() {
  Net n({1, 3, 4, 5});
  const ValueId a = n.op("Relu", {n.conv(n.x, {6, 3, 3, 3}, 1)});
  const ValueId b = n.conv(n.conv(a, {6, 1, 3, 3}, 6), {5, 6, 3, 3}, 1);
  return n.finish({n.op("Softmax", {n.op("Flatten", {b})})});
}

TEST(LiteTargets, CallsOfTheDeviceAreInOrderAndMemoryIsGivenBack) {
  const std::string file = compiled(small_network(), {"cuda"}, Precision::kFloat16);
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 4, 5}, 1)};
  // The first run makes a graph, the second one uses it again.
  const Calls graph = calls_of(file, inputs);
  EXPECT_THAT(graph.kinds, testing::ElementsAre("device", "alloc", "module", "alloc", "write",
                                                "capture", "graph", "read", "synchronize", "write",
                                                "graph", "read", "synchronize", "live"));
  EXPECT_EQ(graph.lines.back(), "live allocations: 0, graphs: 0");
  const std::ptrdiff_t kernels = count(graph, "capture");
  EXPECT_GT(kernels, 3);
  EXPECT_EQ(count(graph, "graph"), 2);
  EXPECT_EQ(count(graph, "graph " + std::to_string(kernels)), 0);
  EXPECT_THAT(graph.lines, testing::Contains("graph " + std::to_string(kernels)).Times(2));
  EXPECT_EQ(count(graph, "overlap"), kernels - 1);  // the first one follows a copy

  const Setting off("XRT_LITE_CUDA_GRAPH", "0");
  const Calls plain = calls_of(file, inputs);
  EXPECT_THAT(plain.kinds, testing::ElementsAre("device", "alloc", "module", "alloc", "write",
                                                "launch", "read", "synchronize", "write", "launch",
                                                "read", "synchronize", "live"));
  EXPECT_EQ(count(plain, "launch"), 2 * kernels);
  EXPECT_EQ(count(plain, "overlap"), 2 * (kernels - 1));
  const Setting waits("XRT_LITE_CUDA_OVERLAP", "0");
  const Calls separate = calls_of(file, inputs);
  EXPECT_EQ(count(separate, "overlap"), 0);
  for (const Calls* other : {&plain, &separate}) {
    EXPECT_EQ(std::memcmp(graph.outputs[0].data<float>(), other->outputs[0].data<float>(),
                          graph.outputs[0].bytes()),
              0);
  }
}

// A graph holds addresses of an arena: each context has its own. Buffers of the caller may change.
TEST(LiteTargets, GraphsBelongToContexts) {
  const auto path = temporary(".bin"), log = temporary(".log");
  write_file_atomic(path, compiled(sequence_network(), {"cuda", "generic"}));
  const Setting logged("XRT_STANDIN_LOG", log.string());
  std::vector<std::vector<Tensor>> outputs;
  {
    HostModel first(path, 1, true), second(path, 1, true);
    for (HostModel* m : {&first, &second, &first, &second}) {
      const std::vector<Tensor> inputs = {random_tensor({2, 6, 16}, 7)};
      outputs.push_back(m->allocate_outputs());
      m->bind(inputs, outputs.back());
      m->run();
    }
  }
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < outputs[0].size(); ++k) {
      EXPECT_EQ(std::memcmp(outputs[i][k].data<char>(), outputs[0][k].data<char>(),
                            outputs[0][k].bytes()),
                0);
    }
  }
  const std::string lines = read_file(log);
  EXPECT_THAT(lines, testing::HasSubstr("live allocations: 0, graphs: 0"));
  std::filesystem::remove(path);
  std::filesystem::remove(log);
}

TEST(LiteTargets, KernelsOverlapOnlyWhereTheFileAndTheGpuAllowIt) {
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 4, 5}, 1)};
  const std::string file = compiled(small_network(), {"cuda"}, Precision::kFloat16);
  EXPECT_GT(count(calls_of(file, inputs), "overlap"), 0);
  // Sums in float32 keep the processors busy.
  EXPECT_EQ(count(calls_of(compiled(small_network(), {"cuda"}), inputs), "overlap"), 0);
  {
    const Setting old("XRT_STANDIN_VERSION", "12020");  // graphs would not keep it
    EXPECT_EQ(count(calls_of(file, inputs), "overlap"), 0);
  }
  std::string older = file;  // of a compiler without the flag
  xrt_file_header header;
  std::memcpy(&header, older.data(), sizeof(header));
  xrt_file_function function;
  std::memcpy(&function, older.data() + header.functions.offset, sizeof(function));
  std::memset(older.data() + function.blob_offset + offsetof(xrt_cuda_code, flags), 0, 4);
  header.data_checksum = xrt_checksum(older.data() + header.data_offset, header.data_bytes);
  std::memcpy(older.data(), &header, sizeof(header));
  header.meta_checksum =
      xrt_checksum(older.data() + XRT_FILE_CHECKED_FROM, header.meta_bytes - XRT_FILE_CHECKED_FROM);
  std::memcpy(older.data(), &header, sizeof(header));
  EXPECT_EQ(count(calls_of(older, inputs), "overlap"), 0);
  const Setting arch("XRT_CUDA_ARCHS", "80");
  const std::string ampere = compiled(small_network(), {"cuda"}, Precision::kFloat16);
  const Setting capability("XRT_STANDIN_CAPABILITY", "86");
  EXPECT_EQ(count(calls_of(ampere, inputs), "overlap"), 0);
}

TEST(LiteTargets, OlderLibcudaLaunchesKernelsOneByOne) {
  if (!older()) GTEST_SKIP() << "another test runs this with XRT_STANDIN_OLDER=1";
  expect_native(image_network(), {"cuda"}, 1e-5);
  const Calls calls =
      calls_of(compiled(image_network(), {"cuda"}), {random_tensor({2, 3, 13, 11}, 1)});
  EXPECT_GT(count(calls, "launch"), 10);
  for (const char* newer : {"capture", "graph", "overlap"}) EXPECT_EQ(count(calls, newer), 0);
}

TEST(LiteTargets, CudaFailuresOfACaptureAreReported) {
  const auto path = temporary(".bin");
  write_file_atomic(path, compiled(image_network(), {"cuda"}));
  {
    HostModel model(path, 1, true);
    const std::vector<Tensor> inputs = {random_tensor({2, 3, 13, 11}, 1)};
    std::vector<Tensor> outputs = model.allocate_outputs();
    model.bind(inputs, outputs);
    {
      const Setting fails("XRT_STANDIN_CAPTURE_FAILS", "1");
      EXPECT_THROW(model.run(), Error);
    }
    model.run();
  }
  std::filesystem::remove(path);
}

xrt_lite_status load_status(std::string file) {
  const auto path = temporary(".bin");
  write_file_atomic(path, file);
  register_drivers();
  xrt_lite_model* model = nullptr;
  const xrt_lite_status status = xrt_lite_load_file(path.c_str(), nullptr, &model);
  xrt_lite_unload(model);
  std::filesystem::remove(path);
  return status;
}

TEST(LiteTargets, SaysWhatIsMissing) {
  const std::string file = compiled(image_network(), {"cuda"});
  EXPECT_EQ(load_status(file), XRT_LITE_OK);
  setenv("XRT_STANDIN_NO_DEVICE", "1", 1);
  EXPECT_EQ(load_status(file), XRT_LITE_NO_DEVICE);
  unsetenv("XRT_STANDIN_NO_DEVICE");
  {
    const Setting two("XRT_STANDIN_DEVICES", "2");
    for (const auto& [device, status] : {std::pair{"0", XRT_LITE_OK},
                                         {"1", XRT_LITE_OK},
                                         {"2", XRT_LITE_NO_DEVICE},
                                         {"99999999999", XRT_LITE_INVALID_ARGUMENT},
                                         {"-1", XRT_LITE_INVALID_ARGUMENT},
                                         {"gpu", XRT_LITE_INVALID_ARGUMENT}}) {
      const Setting set("XRT_LITE_CUDA_DEVICE", device);
      EXPECT_EQ(load_status(file), status) << device;
    }
    const Setting second("XRT_LITE_CUDA_DEVICE", "1");
    EXPECT_THAT(calls_of(file, {random_tensor({2, 3, 13, 11}, 1)}).lines,
                testing::Contains("device 1"));
  }
  for (const char* capability : {"80", "86", "100", "120"}) {  // the file has sm_90 only
    setenv("XRT_STANDIN_CAPABILITY", capability, 1);
    EXPECT_EQ(load_status(file), XRT_LITE_UNSUPPORTED) << capability;
  }
  unsetenv("XRT_STANDIN_CAPABILITY");
  EXPECT_STREQ(xrt_lite_message(XRT_LITE_NO_DEVICE),
               "the device, or the library to reach it, is not on this machine");
  setenv("XRT_CUDA_ARCHS", "ninety", 1);
  EXPECT_THAT([] { compiled(image_network(), {"cuda"}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("ninety")));
  setenv("XRT_CUDA_ARCHS", "90", 1);
}

// The code's tables are checked before they are used, whatever stands in them.
TEST(LiteTargets, SurvivesDamagedCode) {
  std::string file = compiled(image_network(), {"cuda"});
  xrt_file_header header;
  std::memcpy(&header, file.data(), sizeof(header));
  xrt_file_function function;
  std::memcpy(&function, file.data() + header.functions.offset, sizeof(function));
  xrt_cuda_code code;
  char* blob = file.data() + function.blob_offset;
  std::memcpy(&code, blob, sizeof(code));
  const std::size_t tables = sizeof(code) + code.image_count * sizeof(xrt_cuda_image) +
                             code.launch_count * sizeof(xrt_cuda_launch);
  int refused = 0;
  for (std::size_t i = 0; i < tables; ++i) {
    blob[i] = static_cast<char>(blob[i] ^ 0x80);
    refused += load_status(file) != XRT_LITE_OK ? 1 : 0;
    blob[i] = static_cast<char>(blob[i] ^ 0x80);
  }
  EXPECT_GT(refused, static_cast<int>(tables) / 3);
  const std::size_t image = (tables + 15) / 16 * 16;
  blob[image] = 'x';  // no cubin
  EXPECT_EQ(load_status(file), XRT_LITE_DEVICE_ERROR);
}

// Tables that are wrong but have the right checksum: what still loads runs inside its memory, or
// says what is wrong.
TEST(LiteTargets, SurvivesHostileTables) {
  const std::string whole = compiled(sequence_network(), {"cuda", "generic"});
  xrt_file_header header;
  std::memcpy(&header, whole.data(), sizeof(header));
  register_drivers();
  std::mt19937 generator(3);
  int refused = 0, loaded = 0;
  for (int round = 0; round < 400; ++round) {
    std::string file = whole;
    // Half of the rounds in what is new here: functions and steps.
    const std::size_t begin = round % 2 == 0 ? header.functions.offset : XRT_FILE_CHECKED_FROM;
    const std::size_t end = round % 2 == 0 ? header.ops.offset : header.meta_bytes;
    file[begin + generator() % (end - begin)] = static_cast<char>(generator());
    const std::uint32_t checksum = xrt_checksum(file.data() + XRT_FILE_CHECKED_FROM,
                                                header.meta_bytes - XRT_FILE_CHECKED_FROM);
    std::memcpy(file.data() + offsetof(xrt_file_header, meta_checksum), &checksum, 4);
    ++(load_status(file) == XRT_LITE_OK ? loaded : refused);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(loaded, 10);
}

TEST(LiteTargets, AscendRunsWholeFunctions) {
  expect_native(image_network(), {"ascend"}, 1e-5);
  std::vector<std::string> notes;
  const Module m = compile(image_network(), {.targets = {"ascend"}}, notes);
  ASSERT_EQ(m.ops.size(), 1U);
  EXPECT_EQ(m.ops[0].kernel, XRT_K_MODEL);
  EXPECT_TRUE(m.constants.empty());  // weights are in the .om
}

TEST(LiteTargets, AscendLeavesTheRestToOtherTargets) {
  expect_native(sequence_network(), {"ascend", "generic"}, 1e-5);
  expect_native(sequence_network(), {"ascend", "cuda", "generic"}, 1e-5);
  std::vector<std::string> notes;
  const Module m = compile(sequence_network(), {.targets = {"ascend", "generic"}}, notes);
  int models = 0, host = 0;
  for (const ModuleFunction& f : m.functions) ++(f.target == 0 ? models : host);
  EXPECT_GE(models, 1);
  EXPECT_GE(host, 1);
}

TEST(LiteTargets, SaysWhatIsMissingForAscend) {
  const std::string file = compiled(image_network(), {"ascend"});
  setenv("XRT_STANDIN_NO_DEVICE", "1", 1);
  EXPECT_EQ(load_status(file), XRT_LITE_NO_DEVICE);
  unsetenv("XRT_STANDIN_NO_DEVICE");
  EXPECT_EQ(load_status(file), XRT_LITE_OK);
  xrt_file_header header;
  std::memcpy(&header, file.data(), sizeof(header));
  xrt_file_function function;
  std::memcpy(&function, file.data() + header.functions.offset, sizeof(function));
  std::string damaged = file;
  damaged[function.blob_offset] = 'x';
  EXPECT_EQ(load_status(damaged), XRT_LITE_DEVICE_ERROR);
  setenv("XRT_STANDIN_ATC_FAILS", "1", 1);
  EXPECT_THAT([] { compiled(image_network(), {"ascend"}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("E10002")));
  unsetenv("XRT_STANDIN_ATC_FAILS");
  unsetenv("ASCEND_TOOLKIT_HOME");
  compiled(image_network(), {"cuda", "generic"});  // nobody asked for it
  EXPECT_THAT(
      [] {
        compiled(image_network(), {"ascend", "generic"});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("ASCEND_TOOLKIT_HOME")));
  setenv("ASCEND_TOOLKIT_HOME", XRT_STANDIN_CANN, 1);
}

}  // namespace
}  // namespace xrt::lite
