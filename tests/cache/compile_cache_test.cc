// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "cache/cache_entry.h"
#include "plan/compile_progress.h"
#include "tests/support/test_engines.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;
using testing::picky;

Graph relu_graph(float scale) {
  Graph g("relu");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId s = g.add_constant("s", Tensor::scalar(scale));
  g.add_output(g.add_op("Mul", {g.add_op("Relu", {x}), s}, {}, "y"));
  return g;
}

class CompileCache : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("xrt_cache_test_" + std::to_string(::getpid()));
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  float run(const std::string& engine, float scale = 3) const {
    const auto program =
        Program::compile(relu_graph(scale), {.engines = {engine}, .cache_dir = dir_});
    const std::vector<float> x = {2, -2};
    const Tensor input = Tensor::from<float>(DType::kFloat32, {2}, std::span<const float>(x));
    return program->run({{"x", input}}).at(0).tensor().data<float>()[0];
  }

  fs::path only_entry() const {
    std::vector<fs::path> found;
    for (const auto& e : fs::directory_iterator(dir_)) {
      if (e.path().extension() == ".xrtc") found.push_back(e.path());
    }
    EXPECT_EQ(found.size(), 1U);
    return found.at(0);
  }

  fs::path dir_;
};

TEST_F(CompileCache, TheSecondStartLoads) {
  const auto engine = picky("cache_second", {"Relu", "Mul"});
  EXPECT_EQ(run("cache_second"), 6);
  EXPECT_EQ(run("cache_second"), 6);
  EXPECT_EQ(engine->compiled, 1);
  EXPECT_EQ(engine->loaded, 1);
  EXPECT_EQ(run("cache_second", 4), 8);  // another weight is another function
  EXPECT_EQ(engine->compiled, 2);
  EXPECT_EQ(fs::status(dir_).permissions() & fs::perms::all, fs::perms::owner_all);
}

TEST_F(CompileCache, WhoObservesIsToldHowFarCompilingIs) {
  picky("cache_progress", {"Relu", "Mul"});
  std::vector<std::string> outer;
  std::vector<std::string> inner;
  const ObserveCompiling first([&](const std::string& line) { outer.push_back(line); });
  {
    const ObserveCompiling second([&](const std::string& line) { inner.push_back(line); });
    run("cache_progress");
    run("cache_progress");  // loads
  }
  run("cache_progress", 4);
  EXPECT_EQ(inner, std::vector<std::string>{"cache_progress_0: at it, 25 %"});
  EXPECT_EQ(outer, inner);
}

TEST_F(CompileCache, CorruptEntriesAreRebuilt) {
  const auto engine = picky("cache_corrupt", {"Relu", "Mul"});
  run("cache_corrupt");
  const fs::path path = only_entry();
  const auto size = fs::file_size(path);
  for (std::uintmax_t at = 0; at < size; at += 7) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 0x10));
    }
    const int before = engine->compiled;
    EXPECT_EQ(run("cache_corrupt"), 6) << "byte " << at;
    EXPECT_EQ(engine->compiled, before + 1) << "byte " << at;
  }
  for (const std::uintmax_t left : {size - 1, size / 2, std::uintmax_t{3}, std::uintmax_t{0}}) {
    fs::resize_file(path, left);
    const int before = engine->compiled;
    EXPECT_EQ(run("cache_corrupt"), 6) << left << " bytes left";
    EXPECT_EQ(engine->compiled, before + 1);
  }
  EXPECT_EQ(engine->loaded, 0);
}

TEST_F(CompileCache, WhatAnEngineDoesNotLoadIsReplaced) {
  const auto engine = picky("cache_unloadable", {"Relu", "Mul"});
  run("cache_unloadable");
  const auto entry = read_entry(only_entry());
  ASSERT_TRUE(entry);
  const std::string_view other = "a blob of other make";
  write_entry(dir_, only_entry().stem().string(), entry->header, std::span(&other, 1));
  EXPECT_EQ(run("cache_unloadable"), 6);
  EXPECT_EQ(engine->compiled, 2);
  EXPECT_EQ(engine->loaded, 0);
  EXPECT_EQ(run("cache_unloadable"), 6);
  EXPECT_EQ(engine->compiled, 2);
  EXPECT_EQ(engine->loaded, 1);
}

TEST_F(CompileCache, WhatAKilledProcessLeftIsRemoved) {
  picky("cache_killed", {"Relu", "Mul"});
  run("cache_killed");
  const fs::path old = dir_ / "native-0.xrtc.tmp1_0";
  const fs::path fresh = dir_ / "native-0.xrtc.tmp2_0";
  const fs::path ahead = dir_ / "native-0.xrtc.tmp3_0";  // of a clock that has been set back
  for (const fs::path& path : {old, fresh, ahead}) std::ofstream(path).put('x');
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(ahead, fs::file_time_type::clock::now() + std::chrono::hours(2));
  run("cache_killed", 4);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(ahead));
  EXPECT_TRUE(fs::exists(fresh));  // somebody may be at it
  fs::remove(fresh);
}

TEST_F(CompileCache, AnotherEngineVersionIsAnotherEntry) {
  const auto engine = picky("cache_version", {"Relu", "Mul"});
  run("cache_version");
  engine->set_version("2");
  run("cache_version");
  EXPECT_EQ(engine->compiled, 2);
  EXPECT_EQ(engine->loaded, 0);
  run("cache_version");
  EXPECT_EQ(engine->loaded, 1);
}

TEST_F(CompileCache, AnUnusableFolderDoesNotFailTheRun) {
  picky("cache_folder", {"Relu", "Mul"});
  std::ofstream(dir_).put('x');  // a file where the folder should be
  EXPECT_EQ(run("cache_folder"), 6);
  fs::remove(dir_);
  fs::create_directory(dir_);
  fs::permissions(dir_, fs::perms::all);  // others may write: not trusted, not used
  EXPECT_EQ(run("cache_folder"), 6);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(CompileCache, SizeIsBounded) {
  picky("cache_bound", {"Relu", "Mul"});
  ::setenv("XRT_CACHE_MAX_BYTES", "1500", 1);
  for (int i = 1; i < 20; ++i) run("cache_bound", static_cast<float>(i));
  ::unsetenv("XRT_CACHE_MAX_BYTES");
  std::size_t bytes = 0;
  for (const CacheEntry& entry : list_cache(dir_)) {
    EXPECT_TRUE(entry.valid);
    EXPECT_EQ(entry.engine, "cache_bound");
    bytes += entry.bytes;
  }
  EXPECT_GT(bytes, 0U);
  EXPECT_LE(bytes, 1500U);
  EXPECT_GT(clear_cache(dir_), 0U);
  EXPECT_TRUE(list_cache(dir_).empty());
}

TEST_F(CompileCache, ConcurrentMissesCompileOnce) {
  const auto engine = picky("cache_concurrent", {"Relu", "Mul"});
  std::vector<std::thread> threads;
  std::vector<float> results(6);
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] { results[t] = run("cache_concurrent"); });
  }
  for (auto& thread : threads) thread.join();
  for (const float r : results) EXPECT_EQ(r, 6);
  EXPECT_EQ(engine->compiled, 1);
}

}  // namespace
}  // namespace xrt
