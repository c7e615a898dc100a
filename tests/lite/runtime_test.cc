// SPDX-License-Identifier: Apache-2.0
// The C runtime: what it refuses, what memory it takes, and results against the native engine.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/file.h"
#include "compile.h"
#include "host_model.h"
#include "internal.h"
#include "ir/parser.h"
#include "measure/difference.h"
#include "vector_math.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace {
std::atomic<int> allocations = 0;
}

// The linker's names (--wrap).
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {
void* __real_malloc(std::size_t);
void* __real_calloc(std::size_t, std::size_t);
void* __real_realloc(void*, std::size_t);
int __real_posix_memalign(void**, std::size_t, std::size_t);
void __real_free(void*);
void* __wrap_malloc(std::size_t n) { return ++allocations, __real_malloc(n); }
void* __wrap_calloc(std::size_t n, std::size_t m) { return ++allocations, __real_calloc(n, m); }
void* __wrap_realloc(void* p, std::size_t n) { return ++allocations, __real_realloc(p, n); }
int __wrap_posix_memalign(void** p, std::size_t a, std::size_t n) {
  return ++allocations, __real_posix_memalign(p, a, n);
}
void __wrap_free(void* p) { ++allocations, __real_free(p); }
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace xrt::lite {
namespace {

Tensor random_tensor(Dims dims, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) {
    t.data<float>()[i] = scale * (static_cast<float>(generator()) / 2147483648.0F - 1.0F);
  }
  return t;
}

// Convolutions (one depthwise), residual, pool, product, softmax.
Graph small_network() {
  Graph g("small");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 3, 12, 10}));
  const auto conv = [&](ValueId in, Dims w, std::int64_t groups, const std::string& name) {
    const std::int64_t channels = w[0];
    const ValueId weights = g.add_constant(name + ".w", random_tensor(std::move(w), 7, 0.4F));
    const ValueId bias = g.add_constant(name + ".b", random_tensor({channels}, 8, 0.1F));
    return g.add_op("Conv", {in, weights, bias},
                    {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}, {"group", groups}}, name);
  };
  const ValueId a = g.add_op("Relu", {conv(x, {12, 3, 3, 3}, 1, "a")});
  const ValueId b = g.add_op("Relu", {conv(a, {12, 1, 3, 3}, 12, "b")});
  const ValueId c = g.add_op("Add", {conv(b, {12, 12, 3, 3}, 1, "c"), a});
  const ValueId s = g.add_op("Mul", {c, g.add_op("Sigmoid", {c})});
  const ValueId p = g.add_op("MaxPool", {s},
                             {{"kernel_shape", std::vector<std::int64_t>{2, 2}},
                              {"strides", std::vector<std::int64_t>{2, 2}}});
  const ValueId flat = g.add_op("Flatten", {p});
  const ValueId w = g.add_constant("fc", random_tensor({360, 10}, 9, 0.2F));
  g.add_output(g.add_op("Softmax", {g.add_op("MatMul", {flat, w})}, {}, "y"));
  g.opsets()[""] = kOnnxOpset;
  return g;
}

std::string compiled(Graph graph, Precision precision = Precision::kFloat32) {
  std::vector<std::string> notes;
  CompileOptions options;
  options.precision = precision;
  return write_file(compile(std::move(graph), options, notes));
}

// A copy of a file at an aligned address.
class Bytes {
 public:
  explicit Bytes(const std::string& s) : size_(s.size()) {
    data_ = static_cast<std::uint8_t*>(std::aligned_alloc(64, (s.size() + 64) / 64 * 64));
    std::memcpy(data_, s.data(), s.size());
  }
  ~Bytes() { std::free(data_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::uint8_t* data() { return data_; }
  std::size_t size() const { return size_; }
  xrt_file_header* header() { return reinterpret_cast<xrt_file_header*>(data_); }
  void fix_checksum() {
    header()->meta_checksum =
        xrt_checksum(data_ + XRT_FILE_CHECKED_FROM, header()->meta_bytes - XRT_FILE_CHECKED_FROM);
  }

 private:
  std::uint8_t* data_;
  std::size_t size_;
};

xrt_lite_status load_status(const void* data, std::size_t size,
                            const xrt_lite_load_options* given = nullptr) {
  register_drivers();
  xrt_lite_load_options options = {};
  if (given != nullptr) options = *given;
  options.allocator = xrt_lite_default_allocator();
  xrt_lite_model* model = nullptr;
  const xrt_lite_status status = xrt_lite_load(data, size, &options, &model);
  xrt_lite_unload(model);
  return status;
}

TEST(LiteRuntime, AgreesWithTheNativeEngine) {
  const auto path = std::filesystem::temp_directory_path() / "xrt_lite_small.bin";
  const Tensor x = random_tensor({1, 3, 12, 10}, 3);
  const auto program = Program::compile(small_network(), {.engines = {"native"}});
  const Tensor expected = program->run({{"x", Data(x)}})[0].tensor();
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    write_file_atomic(path, compiled(small_network(), precision));
    for (const int threads : {1, 3}) {
      HostModel model(path, threads, true);
      std::vector<Tensor> outputs = model.allocate_outputs();
      model.bind({x}, outputs);
      model.run();
      EXPECT_LT(compare(outputs[0], expected, 0, 0).max_of_range,
                precision == Precision::kFloat32 ? 1e-5 : 1e-2);
    }
  }
  std::filesystem::remove(path);
}

TEST(LiteRuntime, TakesNoMemoryAfterTheContextIsMade) {
  Bytes file(compiled(small_network()));
  register_drivers();
  xrt_lite_load_options options = {};
  options.allocator = xrt_lite_default_allocator();
  xrt_lite_model* model = nullptr;
  ASSERT_EQ(xrt_lite_load(file.data(), file.size(), &options, &model), XRT_LITE_OK);
  xrt_lite_context* context = nullptr;
  const int before = allocations;
  ASSERT_EQ(xrt_lite_context_create(model, nullptr, &context), XRT_LITE_OK);
  EXPECT_GT(allocations, before);  // the counting works
  std::vector<float> x(360), y(10);
  const int ready = allocations;
  EXPECT_EQ(xrt_lite_run(context), XRT_LITE_NOT_READY);
  EXPECT_EQ(xrt_lite_set_input(context, 0, x.data(), 1439), XRT_LITE_INVALID_ARGUMENT);
  EXPECT_EQ(xrt_lite_set_input(context, 1, x.data(), 1440), XRT_LITE_INVALID_ARGUMENT);
  EXPECT_EQ(xrt_lite_set_input(context, 0, x.data(), 1440), XRT_LITE_OK);
  EXPECT_EQ(xrt_lite_set_output(context, 0, y.data(), 40), XRT_LITE_OK);
  EXPECT_EQ(xrt_lite_run(context), XRT_LITE_OK);
  EXPECT_EQ(allocations, ready);
  xrt_lite_context_destroy(context);
  xrt_lite_unload(model);
}

TEST(LiteRuntime, RunsInMemoryOfTheCaller) {
  Bytes file(compiled(small_network()));
  register_drivers();
  xrt_lite_sizes sizes;
  ASSERT_EQ(xrt_lite_query(file.data(), file.size(), &sizes), XRT_LITE_OK);
  std::vector<std::uint8_t> memory(sizes.model_bytes), arena(sizes.context_bytes);
  xrt_lite_load_options options = {};
  options.memory = memory.data();
  options.memory_bytes = memory.size();
  const int before = allocations;
  xrt_lite_model* model = nullptr;
  ASSERT_EQ(xrt_lite_load(file.data(), file.size(), &options, &model), XRT_LITE_OK);
  xrt_lite_context_options context_options = {};
  context_options.memory = arena.data();
  context_options.memory_bytes = arena.size() / 2;
  xrt_lite_context* context = nullptr;
  EXPECT_EQ(xrt_lite_context_create(model, &context_options, &context), XRT_LITE_OUT_OF_MEMORY);
  context_options.memory_bytes = arena.size();
  EXPECT_EQ(xrt_lite_context_create(model, &context_options, &context), XRT_LITE_OK);
  EXPECT_EQ(allocations, before);
  xrt_lite_context_destroy(context);
  xrt_lite_unload(model);
  options.memory_bytes = 100;
  EXPECT_EQ(xrt_lite_load(file.data(), file.size(), &options, &model), XRT_LITE_OUT_OF_MEMORY);
}

TEST(LiteRuntime, RefusesTruncatedFiles) {
  const std::string whole = compiled(small_network());
  EXPECT_EQ(load_status(nullptr, 0), XRT_LITE_INVALID_ARGUMENT);
  for (std::size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 997) {
    Bytes file(whole.substr(0, size));
    EXPECT_NE(load_status(file.data(), size), XRT_LITE_OK) << size;
  }
  Bytes longer(whole + std::string(64, 'x'));
  EXPECT_EQ(load_status(longer.data(), longer.size()), XRT_LITE_INVALID_FILE);
}

TEST(LiteRuntime, FindsFlippedBits) {
  Bytes file(compiled(small_network()));
  const std::size_t meta = file.header()->meta_bytes;
  for (std::size_t i = 0; i < meta; i += 3) {
    file.data()[i] ^= 16;
    EXPECT_NE(load_status(file.data(), file.size()), XRT_LITE_OK) << i;
    file.data()[i] ^= 16;
  }
  xrt_lite_load_options options = {};
  file.data()[file.size() - 100] ^= 1;  // in the weights: looked at on request
  EXPECT_EQ(load_status(file.data(), file.size(), &options), XRT_LITE_OK);
  options.verify_weights = 1;
  EXPECT_EQ(load_status(file.data(), file.size(), &options), XRT_LITE_BAD_CHECKSUM);
}

// With a right checksum the tables' own checks must hold. What still loads must run inside its
// memory: an address sanitizer sees the rest.
TEST(LiteRuntime, SurvivesHostileTables) {
  const std::string whole = compiled(small_network());
  std::mt19937 generator(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes file(whole);
    const std::size_t meta = file.header()->meta_bytes;
    const std::size_t at = XRT_FILE_CHECKED_FROM + generator() % (meta - XRT_FILE_CHECKED_FROM);
    file.data()[at] = static_cast<std::uint8_t>(generator());
    file.fix_checksum();
    refused += load_status(file.data(), file.size()) != XRT_LITE_OK ? 1 : 0;
  }
  EXPECT_GT(refused, 1000);
}

TEST(LiteRuntime, SaysWhatIsMissing) {
  Bytes file(compiled(small_network()));
  file.header()->version = 2;
  EXPECT_EQ(load_status(file.data(), file.size()), XRT_LITE_WRONG_VERSION);
  file.header()->version = 1;
  auto* name = reinterpret_cast<char*>(
      file.data() + file.header()->strings.offset +
      reinterpret_cast<xrt_file_target*>(file.data() + file.header()->targets.offset)->name);
  ASSERT_STREQ(name, "generic");
  name[0] = 'x';
  file.fix_checksum();
  EXPECT_EQ(load_status(file.data(), file.size()), XRT_LITE_NO_DRIVER);
  EXPECT_STREQ(xrt_lite_message(XRT_LITE_NO_DRIVER),
               "the file needs a driver that is not registered");
  xrt_lite_model* model = nullptr;
  EXPECT_EQ(xrt_lite_load_file("/nonexistent/model.bin", nullptr, &model), XRT_LITE_IO);
}

TEST(LiteRuntime, LoadsADriverFromALibrary) {
  Bytes file(compiled(small_network()));
  auto* name = reinterpret_cast<char*>(
      file.data() + file.header()->strings.offset +
      reinterpret_cast<xrt_file_target*>(file.data() + file.header()->targets.offset)->name);
  ASSERT_STREQ(name, "generic");
  std::memcpy(name, "counted", sizeof("counted"));
  file.fix_checksum();
  EXPECT_EQ(load_status(file.data(), file.size()), XRT_LITE_NO_DRIVER);
  EXPECT_EQ(xrt_lite_load_driver(nullptr), XRT_LITE_INVALID_ARGUMENT);
  EXPECT_EQ(xrt_lite_load_driver("/nonexistent/driver.so"), XRT_LITE_IO);
  EXPECT_EQ(xrt_lite_load_driver("libm.so.6"), XRT_LITE_NO_DRIVER);
  ASSERT_EQ(xrt_lite_load_driver(XRT_TEST_DRIVER), XRT_LITE_OK);
  EXPECT_EQ(load_status(file.data(), file.size()), XRT_LITE_OK);
  void* library = dlopen(XRT_TEST_DRIVER, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(*static_cast<int*>(dlsym(library, "times_opened")), 1);
  dlclose(library);
}

// Run by hand when the format's version changes: the file is committed and then left alone.
TEST(LiteRuntime, DISABLED_WritesTheFileOfThisVersion) {
  write_file_atomic("tests/lite/data/version_" + std::to_string(XRT_FILE_VERSION) + ".bin",
                    compiled(small_network()));
}

// Files of every format version keep loading.
TEST(LiteRuntime, ReadsFilesOfEveryVersion) {
  HostModel model("tests/lite/data/version_1.bin", 1, true);
  const Tensor x = random_tensor({1, 3, 12, 10}, 3);
  const auto program = Program::compile(small_network(), {.engines = {"native"}});
  std::vector<Tensor> outputs = model.allocate_outputs();
  model.bind({x}, outputs);
  model.run();
  const Tensor expected = program->run({{"x", Data(x)}})[0].tensor();
  EXPECT_LT(compare(outputs[0], expected, 0, 0).max_of_range, 1e-5);
}

TEST(LiteCompiler, FusesAndPlans) {
  std::vector<std::string> notes;
  const Module m = compile(small_network(), {}, notes);
  // x reordered, three convolutions with all that follows, Mul with Sigmoid, pool, reorder of the
  // flattened image, product, softmax.
  EXPECT_EQ(m.ops.size(), 9U);
  EXPECT_LE(static_cast<double>(m.arena_bytes), 1.05 * static_cast<double>(m.largest_live_bytes));
}

TEST(LiteCompiler, NamesWhatItCannotDo) {
  std::vector<std::string> notes;
  EXPECT_THAT([&] { compile(small_network(), {.targets = {"abacus"}}, notes); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("abacus")));
  Graph g("g");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
  g.add_output(g.add_op("NonZero", {x}));
  g.opsets()[""] = kOnnxOpset;
  EXPECT_THAT([&] { compile(g, {}, notes); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("NonZero")));
}

// What vector_math.h says of itself, against libm in double precision.
TEST(LiteRuntime, FunctionsAreAccurate) {
  double exp_error = 0, tanh_error = 0, sigmoid_error = 0, erf_error = 0;
  for (int i = -500000; i <= 500000; ++i) {
    const float x = static_cast<float>(i) * 1.74e-4F;  // -87 to 87
    const double e = std::exp(double{x}), t = std::tanh(double{x}),
                 s = 1 / (1 + std::exp(-double{x}));
    exp_error = std::max(exp_error, std::abs(xrt_exp(x) - e) / e);
    sigmoid_error = std::max(sigmoid_error, std::abs(xrt_sigmoid(x) - s) / s);
    erf_error = std::max(erf_error, std::abs(xrt_erf(x / 8) - std::erf(double{x / 8})));
    if (t != 0) tanh_error = std::max(tanh_error, std::abs(xrt_tanh(x) - t) / std::abs(t));
  }
  EXPECT_LT(exp_error, 2e-7);
  EXPECT_LT(tanh_error, 3e-7);
  EXPECT_LT(sigmoid_error, 3e-7);
  EXPECT_LT(erf_error, 2e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(xrt_exp(-infinity), 0);
  EXPECT_EQ(xrt_exp(infinity), infinity);
  EXPECT_EQ(xrt_exp(0), 1);
  for (const float big : {200.0F, 3e38F, infinity}) {
    EXPECT_EQ(xrt_tanh(big), 1);
    EXPECT_EQ(xrt_tanh(-big), -1);
    EXPECT_EQ(xrt_sigmoid(big), 1);
    EXPECT_EQ(xrt_sigmoid(-big), 0);
    EXPECT_EQ(xrt_erf(big), 1);
    EXPECT_EQ(xrt_erf(-big), -1);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(xrt_exp(nan)) && std::isnan(xrt_tanh(nan)) &&
              std::isnan(xrt_sigmoid(nan)) && std::isnan(xrt_erf(nan)));
}

}  // namespace
}  // namespace xrt::lite
