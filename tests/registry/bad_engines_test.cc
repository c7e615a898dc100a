// SPDX-License-Identifier: Apache-2.0
// Engine libraries that fail: each failure is an error that says who failed, where and why.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cache/cache_entry.h"
#include "xrt/op.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadEngines : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XRT_ENGINE_PATH", XRT_BAD_ENGINES, 1); }

  // y = Relu(x) twice, on the engine and what it does not take natively.
  static std::shared_ptr<Program> program(const std::string& engine, ProgramOptions options = {},
                                          std::vector<Dim> dims = {Dim(2)}) {
    Graph graph("test");
    const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape(std::move(dims))));
    graph.add_output(graph.add_op("Exp", {graph.add_op("Relu", {x})}));
    graph.opsets()[""] = kOnnxOpset;
    options.engines = {engine};
    return Program::compile(std::move(graph), options);
  }

  static std::string failure(ErrorCode code, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  static std::string run_failure(const std::string& engine, std::vector<Dim> dims) {
    return failure(ErrorCode::kEngine, [&] {
      Tensor x = Tensor::allocate(DType::kFloat32, {2});
      std::fill_n(x.data<float>(), 2, 1.0F);
      std::vector<Data> outputs;
      const std::vector<Data> inputs{x};
      program(engine, {}, std::move(dims))->run(inputs, outputs);
    });
  }
};

TEST_F(BadEngines, WhatCannotBeLoadedSaysWhichFileAndWhy) {
  const auto load = [](const std::string& name) {
    return failure(ErrorCode::kEngine, [&] { get_engine(name); });
  };
  EXPECT_THAT(load("bad_abi"), AllOf(HasSubstr("libxrt_engine_bad_abi.so"),
                                     HasSubstr("version 2.0 of the engine contract")));
  EXPECT_THAT(load("bad_empty"), HasSubstr("table of functions is missing"));
  EXPECT_THAT(load("bad_symbol"), HasSubstr("does not export xrt_engine_entry"));
  EXPECT_THAT(load("bad_register"), HasSubstr("not today"));
  // A failure is remembered, and reported again.
  EXPECT_THAT(load("bad_register"), HasSubstr("not today"));
}

// Opening it would run its initialisers a second time, which ends the process.
TEST_F(BadEngines, ACopyOfTheRuntimeIsNotOpened) {
  Dl_info info{};
  ASSERT_NE(::dladdr(reinterpret_cast<const void*>(&engine_names), &info), 0);
  const std::filesystem::path copy =
      std::filesystem::path(::testing::TempDir()) / "libxrt_engine_copy.so";
  std::filesystem::copy_file(info.dli_fname, copy,
                             std::filesystem::copy_options::overwrite_existing);
  ::setenv("XRT_ENGINE_PATH", ::testing::TempDir().c_str(), 1);
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { get_engine("copy"); }),
              AllOf(HasSubstr(copy.string()), HasSubstr("does not export xrt_engine_entry")));
  EXPECT_THAT(failure(ErrorCode::kEngine, [&] { load_op_library(copy); }),
              HasSubstr("does not export xrt_register_ops"));
  std::filesystem::remove(copy);
}

TEST_F(BadEngines, FilesThatAreMissingOrNoLibraries) {
  const std::string folder = ::testing::TempDir();
  const std::string file = folder + "libxrt_engine_text.so";
  std::ofstream(file) << "no library";
  ::setenv("XRT_ENGINE_PATH", (file + ":" + folder + "nowhere/libxrt_engine_gone.so").c_str(), 1);
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { get_engine("text"); }), HasSubstr(file));
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { get_engine("gone"); }),
              AllOf(HasSubstr("nowhere"), HasSubstr("No such file")));
  EXPECT_THAT(failure(ErrorCode::kNotFound, [] { get_engine("nobody"); }), HasSubstr("known: "));
  EXPECT_THAT(failure(ErrorCode::kNotFound, [] { get_engine("natve"); }),
              HasSubstr("did you mean 'native'?"));
}

// What the dynamic loader itself waits for (a pipe) or dies of (a file that ends too early).
TEST_F(BadEngines, FilesThatTheLoaderWouldDieOf) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "xrt_bad_files";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "libxrt_engine_folder.so");
  const auto file = [&](const std::string& name) {
    return folder / ("libxrt_engine_" + name + ".so");
  };
  const std::filesystem::path whole =
      std::filesystem::path(XRT_BAD_ENGINES) / "libxrt_engine_bad_run.so";
  std::filesystem::copy_file(whole, file("cut"));
  std::filesystem::resize_file(file("cut"), 5000);
  std::filesystem::copy_file(whole, file("head"));
  std::filesystem::resize_file(file("head"), 70);
  std::filesystem::copy_file(whole, file("renamed"));
  std::ofstream(file("empty")).flush();
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  ::setenv("XRT_ENGINE_PATH", folder.c_str(), 1);
  const auto load = [](const std::string& name) {
    return failure(ErrorCode::kEngine, [&] { get_engine(name); });
  };
  EXPECT_THAT(load("cut"), AllOf(HasSubstr(file("cut").string()), HasSubstr("cut short")));
  EXPECT_THAT(load("head"), HasSubstr("cut short"));
  EXPECT_THAT(load("empty"), HasSubstr("too short"));
  EXPECT_THAT(load("folder"), HasSubstr("it is a folder"));
  EXPECT_THAT(load("pipe"), HasSubstr("no regular file"));
  EXPECT_THAT(load("renamed"), HasSubstr("its engine bears the name 'bad_run'"));
  std::filesystem::remove_all(folder);
}

// An engine may throw what is no std::exception; nothing of it ends the process.
TEST_F(BadEngines, WhatIsThrownNeedNotBeAnException) {
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { program("bad_thrown_supports"); }),
              AllOf(HasSubstr("bad_thrown_supports"), HasSubstr("no std::exception")));
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { program("bad_thrown_compile"); }),
              AllOf(HasSubstr("(Relu)"), HasSubstr("no std::exception")));
  EXPECT_THAT(run_failure("bad_thrown_run", {Dim(2)}),
              AllOf(HasSubstr("bad_thrown_run"), HasSubstr("(Relu)"), HasSubstr("std::exception")));
  EXPECT_THAT(run_failure("bad_context", {Dim(2)}),
              AllOf(HasSubstr("bad_context"), HasSubstr("(Relu)"), HasSubstr("no stream left")));
  // Written, and read, beside the compilation: it goes on.
  const std::filesystem::path cache =
      std::filesystem::path(::testing::TempDir()) / "xrt_bad_engine_cache";
  std::filesystem::remove_all(cache);
  ProgramOptions options;
  options.cache_dir = cache;
  EXPECT_NE(program("bad_thrown_serialize", options), nullptr);
  EXPECT_NE(program("bad_thrown_load", options), nullptr);
  finish_writing();
  EXPECT_NE(program("bad_thrown_load", options), nullptr);
  std::filesystem::remove_all(cache);
}

TEST_F(BadEngines, ThrowsWhenAsked) {
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { program("bad_supports"); }),
              AllOf(HasSubstr("bad_supports"), HasSubstr("no idea")));
}

TEST_F(BadEngines, AFailedCompilationNamesNodeEngineAndCause) {
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { program("bad_compile"); }),
              AllOf(HasSubstr("'bad_compile'"), HasSubstr("(Relu)"), HasSubstr("out of tactics")));
  EXPECT_THAT(failure(ErrorCode::kEngine, [] { program("bad_null"); }),
              HasSubstr("returned no executable"));
}

TEST_F(BadEngines, FallbackIsExplicitAndExplained) {
  ProgramOptions options;
  options.fallback = true;
  const auto loaded = program("bad_compile", options);
  Tensor x = Tensor::allocate(DType::kFloat32, {2});
  x.data<float>()[0] = -1;
  x.data<float>()[1] = 0;
  const std::vector<Data> inputs{x};
  std::vector<Data> outputs;
  loaded->run(inputs, outputs);
  EXPECT_FLOAT_EQ(outputs[0].tensor().data<float>()[0], 1);
  const Explanation explanation = loaded->explain();
  EXPECT_EQ(explanation.nodes_per_engine, (std::map<std::string, std::size_t>{{"native", 2}}));
  EXPECT_THAT(explanation.notes,
              ::testing::Contains(AllOf(HasSubstr("fallback"), HasSubstr("out of tactics"))));
  EXPECT_THAT(explanation.nodes[0].refusals.at("bad_compile"), HasSubstr("failed to compile"));
  // Nobody is left: the failure itself is reported.
  options.strict = true;
  EXPECT_THROW(program("bad_compile", options), Error);
}

TEST_F(BadEngines, WhatARunHandsOverIsChecked) {
  EXPECT_THAT(run_failure("bad_run", {Dim(2)}),
              AllOf(HasSubstr("bad_run"), HasSubstr("(Relu)"), HasSubstr("fell off")));
  EXPECT_THAT(run_failure("bad_shape", {Dim(2)}), HasSubstr("the engine gave float32[7,7]"));
  EXPECT_THAT(run_failure("bad_dtype", {Dim(2)}), HasSubstr("the engine gave int32[2]"));
  EXPECT_THAT(run_failure("bad_shape", {Dim(std::string("N"))}),
              HasSubstr("the engine gave float32[7,7]"));
}

TEST_F(BadEngines, OptionsSuggestTheNearestName) {
  ProgramOptions options;
  options.engine_options["bad_run"]["tacticts"] = "1";
  EXPECT_THAT(failure(ErrorCode::kInvalidArgument, [&] { program("bad_run", options); }),
              HasSubstr("did you mean 'tactics'?"));
}

TEST_F(BadEngines, OptionsOfEnginesThatAreNotThereMatterOnlyWhereTheyAreNamed) {
  ProgramOptions options;
  options.engine_options["bad_register"]["tactics"] = "1";
  EXPECT_NE(program("native", options), nullptr);
  EXPECT_THAT(failure(ErrorCode::kEngine, [&] { program("bad_register", options); }),
              HasSubstr("not today"));
  options.engine_options["bad_rn"]["tactics"] = "1";
  EXPECT_THAT(failure(ErrorCode::kNotFound, [&] { program("native", options); }),
              HasSubstr("did you mean 'bad_run'?"));
}

}  // namespace
}  // namespace xrt
