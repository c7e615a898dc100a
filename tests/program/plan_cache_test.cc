// SPDX-License-Identifier: Apache-2.0
// What programs keep in the disk cache is found again, and never stands for something else.
#include "program/plan_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "plan/plan.h"
#include "tests/support/test_engines.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;
using testing::picky;

constexpr std::int64_t kSize = 64;

// y = relu(x · w) + b, for x of [rows, kSize].
Graph product_graph(const Dim& rows, float first_weight = 1) {
  Graph g("product");
  Tensor w = Tensor::allocate(DType::kFloat32, {kSize, kSize});
  std::iota(w.data<float>(), w.data<float>() + w.count(), first_weight);
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{rows, Dim(kSize)}));
  const ValueId product = g.add_op("MatMul", {x, g.add_constant("w", w)});
  const ValueId b = g.add_constant("b", Tensor::scalar(0.5F));
  g.add_output(g.add_op("Add", {g.add_op("Relu", {product}), b}, {}, "y"));
  return g;
}

class PlanCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("xrt_plan_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    model_ = folder_ / "model.onnx";
    options_.engines = {"native"};
    options_.cache_dir = folder_ / "cache";
    export_onnx_file(product_graph(Dim(2)), model_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  float run(std::int64_t rows = 2) const { return run(options_, rows); }
  float run(const ProgramOptions& options, std::int64_t rows = 2) const {
    const auto program = Program::load(model_, options);
    return first_of(*program, rows);
  }
  static float first_of(Program& program, std::int64_t rows = 2) {
    Tensor x = Tensor::allocate(DType::kFloat32, {rows, kSize});
    std::fill_n(x.data<float>(), x.count(), 1.0F);
    return program.run({{"x", x}}).at(0).tensor().data<float>()[0];
  }
  // The sum of the first column of w, and b.
  static float expected(float first_weight = 1) {
    constexpr std::int64_t kSteps = kSize * kSize * (kSize - 1) / 2;
    return kSize * first_weight + static_cast<float>(kSteps) + 0.5F;
  }
  bool is_kept(const ProgramOptions& options) const {
    const auto cache = PlanCache::open(model_, {}, options);
    return cache != nullptr && cache->find();
  }
  bool is_kept() const { return is_kept(options_); }
  fs::path plan_entry() const {
    for (const auto& e : fs::directory_iterator(*options_.cache_dir)) {
      const std::string name = e.path().filename().string();
      if (name.starts_with("plan-") && name.ends_with(".xrtc")) return e.path();
    }
    return {};
  }

  fs::path folder_, model_;
  ProgramOptions options_;
};

TEST_F(PlanCacheTest, TheSecondStartTakesThePlan) {
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(run(), expected());
  EXPECT_TRUE(is_kept());
  const auto program = Program::load(model_, options_);
  EXPECT_EQ(first_of(*program), expected());
  EXPECT_EQ(program->inputs().at(0).name, "x");
  EXPECT_EQ(to_string(program->inputs().at(0).type), "float32[2,64]");
  EXPECT_EQ(program->outputs().at(0).name, "y");
  const ProgramOptions uncached{.engines = {"native"}, .cache_dir = ""};
  const auto fresh = Program::load(model_, uncached);
  EXPECT_EQ(program->graph_text(), fresh->graph_text());
  const Explanation kept = program->explain();
  const Explanation made = fresh->explain();
  ASSERT_EQ(kept.nodes.size(), made.nodes.size());
  for (std::size_t i = 0; i < kept.nodes.size(); ++i) {
    EXPECT_EQ(kept.nodes[i].name, made.nodes[i].name);
    EXPECT_EQ(kept.nodes[i].inputs, made.nodes[i].inputs);
    EXPECT_EQ(kept.nodes[i].output_types, made.nodes[i].output_types);
  }
  EXPECT_EQ(kept.nodes_per_engine, made.nodes_per_engine);
}

TEST_F(PlanCacheTest, SymbolicShapesHaveAPlanEach) {
  export_onnx_file(product_graph(Dim("rows")), model_);
  EXPECT_EQ(run(3), expected());
  EXPECT_EQ(run(3), expected());
  EXPECT_EQ(run(4), expected());  // the program is kept, these shapes are not
  const auto program = Program::load(model_, options_);
  for (const std::int64_t rows : {4, 3, 5, 3}) EXPECT_EQ(first_of(*program, rows), expected());
}

TEST_F(PlanCacheTest, BytesAreFoundByTheirContent) {
  const std::string bytes = read_file(model_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(first_of(*Program::load_bytes(bytes, options_)), expected());
  }
  const auto cache = PlanCache::open({}, bytes, options_);
  EXPECT_TRUE(cache->find());
}

TEST_F(PlanCacheTest, AnotherModelIsAnotherEntry) {
  run();
  const auto time = fs::last_write_time(model_);
  const auto size = fs::file_size(model_);
  export_onnx_file(product_graph(Dim(2), 7), model_);
  fs::last_write_time(model_, time);  // size and time alone say nothing
  ASSERT_EQ(fs::file_size(model_), size);
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(run(), expected(7));
  EXPECT_EQ(run(), expected(7));
}

TEST_F(PlanCacheTest, ExternalDataIsPartOfTheModel) {
  export_onnx_file(product_graph(Dim(2)), model_, {.inline_limit = 128});
  const fs::path data = model_.string() + ".data";
  ASSERT_TRUE(fs::exists(data));
  EXPECT_EQ(run(), expected());
  EXPECT_TRUE(is_kept());
  EXPECT_LT(fs::file_size(plan_entry()), kSize * kSize * sizeof(float));  // it stays in its file
  EXPECT_EQ(run(), expected());

  std::string bytes = read_file(data);
  const float changed = 1001;  // was 1
  std::memcpy(bytes.data(), &changed, sizeof(changed));
  const auto time = fs::last_write_time(data);
  write_file_atomic(data, bytes);
  fs::last_write_time(data, time);
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(run(), expected() + 1000);
  EXPECT_EQ(run(), expected() + 1000);

  fs::remove(data);
  EXPECT_FALSE(is_kept());
  EXPECT_THROW(run(), Error);
}

TEST_F(PlanCacheTest, OptionsArePartOfTheKey) {
  const int budget = thread_budget();
  set_thread_budget(8);
  run();
  const auto differs = [&](auto change) {
    ProgramOptions other = options_;
    change(other);
    return !is_kept(other);
  };
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.num_threads = 7; }));
  EXPECT_FALSE(differs([](ProgramOptions& o) { o.num_threads = 9; })) << "all there are";
  set_thread_budget(2);
  EXPECT_TRUE(differs([](ProgramOptions&) {}));
  set_thread_budget(8);
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.strict = true; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.cluster_minimum_nodes = 2; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.cluster_maximum_nodes = 2; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.aliases = {{"x", "y"}}; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.precision = Precision::kBF16; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.engine_options["native"]["a"] = "b"; }));
  EXPECT_TRUE(differs([](ProgramOptions& o) { o.node_engines["MatMul"] = "native"; }));
  EXPECT_FALSE(differs([](ProgramOptions& o) { o.max_specializations = 3; }));
  set_thread_budget(budget);
}

TEST_F(PlanCacheTest, WhatMayChangeUnseenIsNotKept) {
  const auto engine = picky("plan_own", {"MatMul", "Relu", "Add"});
  options_.engines = {"plan_own"};
  EXPECT_EQ(run(), expected());
  EXPECT_EQ(PlanCache::open(model_, {}, options_), nullptr);
  options_.engines = {"native"};
  options_.dump_dir = folder_ / "dump";
  EXPECT_EQ(PlanCache::open(model_, {}, options_), nullptr);
}

TEST_F(PlanCacheTest, OtherVersionsAndMachinesAreStale) {
  run();
  const auto entry = read_entry(plan_entry());
  ASSERT_TRUE(entry);
  const std::string payload(static_cast<const char*>(std::as_const(entry->payload).raw()),
                            entry->payload.bytes());
  const std::string key = plan_entry().stem().string();
  const std::string_view piece = payload;
  for (std::string EntryHeader::*part : {&EntryHeader::xrt_version, &EntryHeader::engine,
                                         &EntryHeader::engine_version, &EntryHeader::machine}) {
    EntryHeader other = entry->header;
    other.*part += "x";
    write_entry(*options_.cache_dir, key, other, std::span(&piece, 1));
    EXPECT_FALSE(is_kept()) << other.*part;
    EXPECT_EQ(run(), expected());
    EXPECT_TRUE(is_kept()) << other.*part;  // replaced
  }
}

TEST_F(PlanCacheTest, CorruptEntriesAreRebuilt) {
  export_onnx_file(product_graph(Dim("rows")), model_);
  run();
  std::vector<fs::path> entries;
  for (const auto& e : fs::directory_iterator(*options_.cache_dir)) {
    if (e.path().extension() == ".xrtc") entries.push_back(e.path());
  }
  ASSERT_GE(entries.size(), 2U);
  for (const fs::path& path : entries) {
    const std::string whole = read_file(path);
    for (std::size_t at = 0; at < whole.size(); at += whole.size() / 40 + 1) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
      write_file_atomic(path, bytes);
      EXPECT_FALSE(read_entry(path)) << "byte " << at;
      if (at % 3 == 0) {
        EXPECT_EQ(run(), expected()) << path << " byte " << at;
      }
    }
    for (const std::size_t left :
         {whole.size() - 1, whole.size() / 2, std::size_t{3}, std::size_t{0}}) {
      write_file_atomic(path, std::string_view(whole).substr(0, left));
      EXPECT_EQ(run(), expected()) << path << " " << left << " bytes left";
    }
    write_file_atomic(path, whole);
  }
}

// A file in another one's place would be another model's plan or code.
TEST_F(PlanCacheTest, AnEntryUnderAnotherNameIsNone) {
  run();
  const std::string other_key = "plan-" + std::string(32, '0');
  const fs::path other = plan_entry().parent_path() / (other_key + ".xrtc");
  fs::copy_file(plan_entry(), other);
  EXPECT_TRUE(read_entry(plan_entry()));
  EXPECT_FALSE(read_entry(other));
}

// A start that finds its executables never reads the graph's constants, so that these were not
// checked goes unseen; but nothing is made from damaged ones.
TEST_F(PlanCacheTest, ConstantsAreCheckedBeforeTheyAreRead) {
  run();
  std::string bytes = read_file(plan_entry());
  const float second_weight = 2;  // the constants are 1, 2, 3 …
  const float third_weight = 3;
  std::string pattern(8, '\0');
  std::memcpy(pattern.data(), &second_weight, 4);
  std::memcpy(pattern.data() + 4, &third_weight, 4);
  const std::size_t at = bytes.find(pattern);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 2] = static_cast<char>(bytes[at + 2] ^ 0x10);
  write_file_atomic(plan_entry(), bytes);
  EXPECT_TRUE(open_entry(plan_entry()));
  EXPECT_FALSE(read_entry(plan_entry()));
  {
    const auto program = Program::load(model_, options_);
    EXPECT_EQ(first_of(*program), expected());
    EXPECT_THROW(program->graph_text(), Error);
  }
  // Another engine version, as it were: the function is compiled again.
  for (const auto& e : fs::directory_iterator(*options_.cache_dir)) {
    if (e.path().filename().string().starts_with("native-")) fs::remove(e.path());
  }
  EXPECT_EQ(run(), expected());
  EXPECT_TRUE(read_entry(plan_entry()));  // replaced
  EXPECT_EQ(run(), expected());
}

// A payload of any content under a right checksum: an entry of a hostile hand.
TEST_F(PlanCacheTest, NoPayloadCrashes) {
  export_onnx_file(product_graph(Dim("rows")), model_);
  run();
  std::vector<std::pair<std::string, EntryFile>> entries;
  std::vector<std::string> payloads;
  for (const auto& e : fs::directory_iterator(*options_.cache_dir)) {
    const std::string key = e.path().stem().string();
    if (e.path().extension() != ".xrtc" || !key.starts_with("plan-")) continue;
    entries.emplace_back(key, *read_entry(e.path()));
    const Tensor& payload = entries.back().second.payload;
    payloads.emplace_back(static_cast<const char*>(payload.raw()), payload.bytes());
  }
  ASSERT_EQ(entries.size(), 2U);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    // Fields are at the beginning; tensors' elements may hold anything.
    const std::size_t fields = std::min<std::size_t>(payloads[i].size(), 2000);
    for (std::size_t at = 0; at < fields; at += 7) {
      std::string payload = payloads[i];
      payload[at] = static_cast<char>(payload[at] ^ (1 << at % 8));
      const std::string_view piece = payload;
      write_entry(*options_.cache_dir, entries[i].first, entries[i].second.header,
                  std::span(&piece, 1));
      const auto cache = PlanCache::open(model_, {}, options_);
      if (!cache->find()) continue;
      try {
        cache->graph();
      } catch (const Error&) {
      }
      cache->find_shapes({2, 2, kSize});
    }
    const std::string_view piece = payloads[i];
    write_entry(*options_.cache_dir, entries[i].first, entries[i].second.header,
                std::span(&piece, 1));
  }
}

TEST_F(PlanCacheTest, AReadOnlyFolderIsReadFrom) {
  run();
  fs::permissions(*options_.cache_dir, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(is_kept());
  EXPECT_EQ(run(), expected());
  ProgramOptions other = options_;
  other.num_threads = 1;
  EXPECT_EQ(run(other), expected());
  fs::permissions(*options_.cache_dir, fs::perms::owner_all);
}

TEST_F(PlanCacheTest, AFullDiskDoesNotFailTheRun) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight{2048, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const float result = run();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(result, expected());
  EXPECT_FALSE(is_kept());
  for (const auto& e : fs::directory_iterator(*options_.cache_dir)) {
    // Nothing half-written is left.
    EXPECT_TRUE(e.path().extension() == ".lock" || read_entry(e.path())) << e.path();
  }
  EXPECT_EQ(run(), expected());
  EXPECT_TRUE(is_kept());
}

TEST_F(PlanCacheTest, ManyAtOnce) {
  export_onnx_file(product_graph(Dim("rows")), model_);
  std::vector<std::thread> threads;
  std::vector<float> results(6);
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] { results[t] = run(static_cast<std::int64_t>(t % 3) + 1); });
  }
  for (auto& thread : threads) thread.join();
  for (const float r : results) EXPECT_EQ(r, expected());
  EXPECT_TRUE(is_kept());
  EXPECT_EQ(run(), expected());
}

// What is run as a launch has to be one, whatever a block says whose checksum is right.
TEST(PlanFile, NodesThatAreNoLaunches) {
  Plan plan;
  plan.folded = product_graph(Dim(2));
  plan.output_names = {"y"};
  plan.keys.resize(plan.folded.node_count());
  FlatWriter writer;
  write_plan(writer, plan);
  std::string bytes;
  for (const std::string_view piece : writer.finish()) bytes += piece;
  Tensor block = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())});
  std::memcpy(block.raw(), bytes.data(), bytes.size());
  FlatReader reader(block);
  try {
    read_plan(reader);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("launch of a function"), std::string::npos);
  }
}

}  // namespace
}  // namespace xrt
