// SPDX-License-Identifier: Apache-2.0
#include "base/control_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/memory.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

class ControlGroup : public testing::Test {
 protected:
  ControlGroup()
      : folder_(fs::temp_directory_path() / ("xrt_groups_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ControlGroup() override { fs::remove_all(folder_); }

  // Relative to the mount.
  std::vector<std::string> folders(const std::string& controller, const std::string& groups) {
    std::ofstream(folder_ / "groups") << groups;
    std::vector<std::string> found;
    for (const fs::path& each :
         control_group_folders(controller, folder_ / "mount", folder_ / "groups")) {
      found.push_back(each.lexically_relative(folder_ / "mount").string());
    }
    return found;
  }
  void make(const std::string& group) { fs::create_directories(folder_ / "mount" / group); }
  void write(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / "mount" / file) << text;
  }

  fs::path folder_;
};

using Names = std::vector<std::string>;

TEST_F(ControlGroup, VersionTwoIsReadFromTheOwnGroupUp) {
  make("user.slice/run-1.scope");
  EXPECT_EQ(folders("memory", "0::/user.slice/run-1.scope\n"),
            (Names{"user.slice/run-1.scope", "user.slice", "."}));
}

TEST_F(ControlGroup, VersionOneHasAFolderPerController) {
  make("memory/a/b");
  make("cpu/a");
  const std::string groups = "4:memory:/a/b\n3:cpu,cpuacct:/a\n2:cpuset:/c\n";
  EXPECT_EQ(folders("memory", groups), (Names{"memory/a/b", "memory/a", "memory"}));
  EXPECT_EQ(folders("cpu", groups), (Names{"cpu/a", "cpu"}));
  EXPECT_EQ(folders("cpus", groups), Names());
}

TEST_F(ControlGroup, AContainerSeesItsGroupAtTheMount) {
  make("memory");
  EXPECT_EQ(folders("memory", "4:memory:/docker/0123\n"), Names{"memory"});
  EXPECT_EQ(folders("memory", "0::/\n"), Names{"."});
}

TEST_F(ControlGroup, WhatIsNoListOfGroupsNamesNone) {
  make("memory");
  EXPECT_EQ(folders("memory", ""), Names());
  EXPECT_EQ(folders("memory", "garbage\n:\n\n"), Names());
}

TEST_F(ControlGroup, TheLeastLimitHolds) {
  make("a/b");
  write("a/b/memory.max", "max\n");
  write("a/memory.max", "1000000\n");
  write("a/memory.current", "700000\n");
  write("a/memory.stat", "anon 500000\ninactive_file 200000\n");
  const std::vector<fs::path> groups = {folder_ / "mount/a/b", folder_ / "mount/a",
                                        folder_ / "mount"};
  EXPECT_EQ(machine_memory(groups), 1000000U);
  EXPECT_EQ(available_memory(groups), 500000U);
}

TEST_F(ControlGroup, VersionOneStatesLimitsInOtherFiles) {
  make("memory/a");
  write("memory/memory.limit_in_bytes", "2000000\n");
  write("memory/memory.usage_in_bytes", "100000\n");
  write("memory/a/memory.limit_in_bytes", "1000000\n");
  write("memory/a/memory.usage_in_bytes", "100000\n");
  write("memory/a/memory.stat", "total_inactive_file 40000\n");
  const std::vector<fs::path> groups = {folder_ / "mount/memory/a", folder_ / "mount/memory"};
  EXPECT_EQ(machine_memory(groups), 1000000U);
  EXPECT_EQ(available_memory(groups), 940000U);
}

TEST_F(ControlGroup, WithoutOneTheMachineIsTheLimit) {
  EXPECT_GE(machine_memory({}), machine_memory());
  EXPECT_GT(available_memory(), 0U);
}

}  // namespace
}  // namespace xrt
