// SPDX-License-Identifier: Apache-2.0
// Files of data: whatever is in them, the answer is a tensor or an xrt::Error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/element.h"
#include "base/file.h"
#include "data/decode.h"
#include "data/image.h"
#include "data/npy.h"
#include "measure/difference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / ("xrt-data-test-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Files() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path folder_;
};

Tensor sample() {
  const std::vector<float> values = {1.5F, -2.0F, 0.0F, 4.0F, 5.0F, -6.25F};
  return Tensor::from<float>(DType::kFloat32, {2, 3}, values);
}

// Flips bits, cuts off, doubles: one damaged copy per call.
std::string damaged(std::string content, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % std::max<std::size_t>(n, 1); };
  for (std::size_t i = 0, n = 1 + below(4); i < n && !content.empty(); ++i) {
    switch (below(4)) {
      case 0:
        content.resize(below(content.size()));
        break;
      case 1:
        content.insert(below(content.size()), content.substr(below(content.size()), below(16)));
        break;
      default:
        content[below(content.size())] ^= static_cast<char>(1U << below(8));
    }
  }
  return content;
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST_F(Files, NpyKeepsTensors) {
  const Tensor tensor = sample();
  EXPECT_TRUE(parse_npy(format_npy(tensor), "test").identical(tensor));
  const Tensor scalar = Tensor::scalar(std::int64_t{-7});
  EXPECT_TRUE(parse_npy(format_npy(scalar), "test").identical(scalar));
  const Tensor strings = Tensor::from_strings({3}, {"a", "", "日本語"});
  EXPECT_TRUE(parse_npy(format_npy(strings), "test").identical(strings));
  const Tensor empty = Tensor::allocate(DType::kInt8, {0, 4});
  EXPECT_TRUE(parse_npy(format_npy(empty), "test").identical(empty));
}

TEST_F(Files, NpzKeepsTensors) {
  const fs::path file = folder_ / "arrays.npz";
  write_npz(file, {{"a", sample()}, {"b/c", Tensor::scalar(1.0F)}});
  const auto arrays = read_npz(file);
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_TRUE(arrays.at("a").identical(sample()));
  EXPECT_TRUE(arrays.at("b/c").identical(Tensor::scalar(1.0F)));
}

TEST_F(Files, HostileNpyHeaders) {
  const auto with = [](const std::string& header) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xFFU);
    file += static_cast<char>(header.size() >> 8U);
    return file + header + std::string(16, '\0');
  };
  for (const char* header :
       {"", "{}", "{'descr': '<f4'", "{'descr': '<f4', 'shape': (99999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1000, 1000)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<U99999999999999999999', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"}) {
    EXPECT_THROW(parse_npy(with(header), "test"), Error) << header;
  }
}

TEST_F(Files, DamagedNpyIsATensorOrAnError) {
  std::mt19937 random(1);
  const std::vector<std::string> seeds = {format_npy(sample()),
                                          format_npy(Tensor::from_strings({2}, {"ab", "日本"})),
                                          format_npy(Tensor::scalar(1.0F))};
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    try {
      parse_npy(damaged(seeds[static_cast<std::size_t>(i) % seeds.size()], random), "test",
                DType::kBFloat16);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Files, DamagedNpzIsTensorsOrAnError) {
  std::mt19937 random(2);
  const fs::path good = folder_ / "good.npz";
  const fs::path bad = folder_ / "bad.npz";
  write_npz(good, {{"a", sample()}, {"b", Tensor::scalar(1.0F)}});
  const std::string content = read_file(good);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    write(bad, damaged(content, random));
    try {
      read_npz(bad);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

// The directory at the end of an archive says where the content of each entry begins and how much
// of it there is.
TEST_F(Files, AnNpzOfEntriesThatShareBytesIsRefused) {
  const std::string array = format_npy(sample());
  const auto numbers = [](std::initializer_list<std::pair<std::uint64_t, int>> list) {
    std::string bytes;
    for (const auto& [value, size] : list) {
      for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
    }
    return bytes;
  };
  std::uint32_t checksum = 0xFFFFFFFF;  // CRC-32
  for (const char c : array) {
    checksum ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) checksum = checksum >> 1 ^ (checksum % 2) * 0xEDB88320;
  }
  checksum = ~checksum;
  const auto archive = [&](int entries, std::uint64_t size) {
    std::string file = numbers({{0x04034b50, 4}, {20, 2}, {0, 2}, {0, 2}, {0, 4}, {checksum, 4}});
    file += numbers({{array.size(), 4}, {array.size(), 4}, {5, 2}, {0, 2}}) + "a.npy" + array;
    std::string directory;
    for (int i = 0; i < entries; ++i) {
      directory += numbers({{0x02014b50, 4}, {20, 2}, {20, 2}, {0, 2}, {0, 2}, {0, 4}});
      directory += numbers({{checksum, 4}, {size, 4}, {size, 4}, {5, 2}, {0, 2}, {0, 2}});
      directory += numbers({{0, 2}, {0, 2}, {0, 4}, {0, 4}}) + "a.npy";
    }
    const std::size_t at = file.size();
    const auto count = static_cast<std::uint64_t>(entries);
    return file + directory +
           numbers({{0x06054b50, 4}, {0, 4}, {count, 2}, {count, 2}, {directory.size(), 4}}) +
           numbers({{at, 4}, {0, 2}});
  };
  const auto message = [&](const std::string& content) -> std::string {
    const fs::path file = folder_ / "shared.npz";
    write(file, content);
    try {
      read_npz(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(message(archive(1, array.size())), "read");
  for (const auto& [entries, size] : {std::pair{10, array.size()}, {1, std::size_t{0xF0000000}}}) {
    const std::string said = message(archive(entries, size));
    EXPECT_NE(said.find("an impossible size"), std::string::npos) << said;
  }
}

TEST_F(Files, DamagedPicturesAreAPictureOrAnError) {
  std::mt19937 random(3);
  const std::string content = read_file("examples/ocr/page.png").substr(0, 4000);
  const fs::path bad = folder_ / "bad.png";
  for (int i = 0; i < 100; ++i) {
    write(bad, damaged(content, random));
    EXPECT_THROW(read_image(bad), Error);  // all of them are cut off
  }
}

// Each form of PNM with its last byte and without it: in text a sample takes a digit and, but for
// the last one, a space.
TEST(Pictures, PnmHoldsAllSamplesThatItsHeaderSays) {
  for (const std::string whole :
       {"P5 5 4 255\n0123456789abcdefghij", "P6 2 2 255\n0123456789ab", "P5 1 1 255\n0",
        "P2 3 1 9\n1 2 3", "P3 1 2 9\n1 2 3 4 5 6", "P2 1 1 9\n1"}) {
    EXPECT_EQ(decode_image(whole).pixels.size() % 3, 0U) << whole;
    // A copy of the exact size, so that AddressSanitizer sees what is read behind it.
    const std::vector<char> cut(whole.begin(), whole.end() - 1);
    EXPECT_THROW(decode_image({cut.data(), cut.size()}), Error) << whole;
  }
}

TEST(Resize, KeepsConstantPictures) {
  Image image{7, 5, std::vector<std::uint8_t>(7 * 5 * 3, 99)};
  for (const auto& [width, height] : {std::pair{3, 2}, {20, 30}, {1, 1}}) {
    const Image resized = resize(image, width, height);
    EXPECT_EQ(resized.pixels,
              std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3, 99));
  }
}

TEST(Compare, FindsTheFirstDifference) {
  Tensor other = sample().clone();
  EXPECT_TRUE(compare(other, sample(), 0, 0).within);
  other.data<float>()[4] += 0.5F;
  const Difference difference = compare(other, sample(), 1e-3, 1e-3);
  EXPECT_FALSE(difference.within);
  EXPECT_DOUBLE_EQ(difference.max_absolute, 0.5);
  EXPECT_DOUBLE_EQ(difference.max_of_range, 0.5 / 11.25);
  EXPECT_NE(difference.text.find("index 4"), std::string::npos);
  EXPECT_TRUE(compare(other, sample(), 0.2, 0).within);
  EXPECT_FALSE(compare(Tensor::scalar(1.0F), sample(), 1, 1).within);
}

TEST(Compare, NarrowFloats) {
  const auto value = [](DType dtype, std::uint8_t bits) {
    Tensor tensor = Tensor::allocate(dtype, {1});
    tensor.data<std::uint8_t>()[0] = bits;
    return element_as_double(tensor, 0);
  };
  EXPECT_EQ(value(DType::kFloat8E4M3FN, 0x7E), 448.0);
  EXPECT_TRUE(std::isnan(value(DType::kFloat8E4M3FN, 0xFF)));
  EXPECT_EQ(value(DType::kFloat8E4M3FN, 0x01), 0x1.0p-9);
  EXPECT_EQ(value(DType::kFloat8E4M3FNUZ, 0x7F), 240.0);
  EXPECT_TRUE(std::isnan(value(DType::kFloat8E4M3FNUZ, 0x80)));
  EXPECT_EQ(value(DType::kFloat8E5M2, 0x7B), 57344.0);
  EXPECT_TRUE(std::isinf(value(DType::kFloat8E5M2, 0xFC)));
  EXPECT_EQ(value(DType::kFloat8E5M2FNUZ, 0x7F), 57344.0);
  EXPECT_EQ(value(DType::kFloat8E8M0, 127), 1.0);
  EXPECT_EQ(value(DType::kFloat4E2M1, 0x0F), -6.0);
  EXPECT_EQ(value(DType::kInt4, 0x08), -8.0);
  EXPECT_EQ(value(DType::kUInt4, 0x0F), 15.0);
  EXPECT_EQ(value(DType::kInt2, 0x02), -2.0);
}

}  // namespace
}  // namespace xrt
