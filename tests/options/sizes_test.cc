// SPDX-License-Identifier: Apache-2.0
#include "options/sizes.h"

#include <gtest/gtest.h>

#include <string>

#include "xrt/error.h"

namespace xrt {
namespace {

std::string refusal(const auto& parse) {
  try {
    parse();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Sizes, AShapeIsSizesNamesAndWhatIsLeft) {
  EXPECT_EQ(parse_shape("x", "batch, 3,?,224"), (Shape{Dim("batch"), Dim(3), Dim(), Dim(224)}));
  EXPECT_EQ(parse_shape("x", "2*seq+1"), Shape{Dim("2*seq+1")});
  EXPECT_TRUE(parse_shape("x", "").empty());
}

TEST(Sizes, ShapesThatAreRefused) {
  for (const char* text : {"3,", ",", "0", "-1", "1,-0", "99999999999999999999", "+2", " "}) {
    EXPECT_NE(refusal([&] { parse_shape("x", text); }).find("'x'"), std::string::npos) << text;
  }
}

TEST(Sizes, ARangeHasAUsualSize) {
  EXPECT_EQ(parse_range("n", "1:8:64"), (NamedRange{"n", 1, 8, 64}));
  EXPECT_EQ(parse_range("n", "2 : 9"), (NamedRange{"n", 2, 9, 9}));
  EXPECT_EQ(parse_range("n", "5"), (NamedRange{"n", 5, 5, 5}));
}

TEST(Sizes, RangesThatAreRefused) {
  for (const char* text : {"", ":", "1:", "0:4", "-1:4", "8:1", "1:9:8", "4:2:8", "1:2:3:4", "a:b",
                           "1.5:2", "1:99999999999999999999", "1,8"}) {
    EXPECT_NE(refusal([&] { parse_range("n", text); }).find("'n'"), std::string::npos) << text;
  }
}

TEST(Sizes, RangesAreWhatTheOptionTakes) {
  ProgramOptions options;
  set_option(options, "ranges", "batch=1:8:64");
  set_option(options, "ranges", "x[1]=3");
  const std::vector<NamedRange> ranges = named_ranges(options);
  EXPECT_EQ(ranges, (std::vector<NamedRange>{{"batch", 1, 8, 64}, {"x[1]", 3, 3, 3}}));
  EXPECT_EQ(to_option(ranges), (OptionMap{{"batch", "1:8:64"}, {"x[1]", "3:3:3"}}));
}

}  // namespace
}  // namespace xrt
