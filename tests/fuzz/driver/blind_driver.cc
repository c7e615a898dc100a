// SPDX-License-Identifier: Apache-2.0
// main() of the programs of tests/fuzz in builds with AddressSanitizer but without libFuzzer, which
// only Clang has: inputs are mutated files of a corpus, whatever they reach. It takes libFuzzer's
// options and ends as libFuzzer does, so tools/run_fuzzers.py runs both:
//
//   build/asan/fuzz/parse_npy -max_total_time=60 -seed=1 -artifact_prefix=crashes/ CORPUS
//
// The input at which the program ends is in a file crashes/crash-<hash>.
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" [[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                             std::size_t most, unsigned seed);

// UndefinedBehaviorSanitizer is a library of its own, which knows nothing of the callback below.
extern "C" [[gnu::visibility("default")]] const char* __ubsan_default_options() {
  return "print_stacktrace=1:halt_on_error=1:abort_on_error=1";
}

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int kFailed = 77;

// What the end of the process saves; a handler of signals reads it.
struct {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::array<char, 4096> prefix{};
} current;

// The input into a file. Called where nothing may be allocated any more.
void save() {
  if (current.data == nullptr) return;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (std::size_t i = 0; i < current.size; ++i) hash = (hash ^ current.data[i]) * 0x100000001b3;
  std::array<char, 4200> path{};
  std::snprintf(path.data(), path.size(), "%scrash-%016llx", current.prefix.data(),
                static_cast<unsigned long long>(hash));
  const int file = ::open(path.data(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  for (std::size_t at = 0; at < current.size;) {
    const ssize_t written = ::write(file, current.data + at, current.size - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  ::close(file);
  current.data = nullptr;
}

void end(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  save();
  ::_exit(kFailed);
}

void on_signal(int number) {
  end(number == SIGALRM ? "the input takes too long" : "the program ends itself");
}

std::mt19937_64 random_number;
std::vector<Bytes> corpus;

std::size_t below(std::size_t end) { return end == 0 ? 0 : random_number() % end; }

// One change of some bytes.
void change(Bytes& bytes) {
  const std::size_t at = below(bytes.size() + 1);
  const std::size_t length = 1 + below(std::min<std::size_t>(64, bytes.size() + 1));
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto behind =
      bytes.begin() + static_cast<std::ptrdiff_t>(std::min(at + length, bytes.size()));
  switch (below(6)) {
    case 0:
      if (at < bytes.size()) bytes[at] ^= static_cast<std::uint8_t>(1U << below(8));
      return;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(random_number());
      return;
    case 2: {
      static constexpr std::uint64_t kNumbers[] = {
          0,    1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff,
          ~0ULL};
      const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
      const std::size_t width = std::size_t{1} << below(4);
      for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
        bytes[at + i] = static_cast<std::uint8_t>(number >> (8 * i));
      }
      return;
    }
    case 3:
      bytes.erase(place, behind);
      return;
    case 4: {  // more of the same
      const Bytes part(place, behind);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1)),
                   part.begin(), part.end());
      return;
    }
    default: {  // of another file
      if (corpus.empty()) {
        bytes.push_back(static_cast<std::uint8_t>(random_number()));
        return;
      }
      const Bytes& other = corpus[below(corpus.size())];
      const std::size_t from = below(other.size());
      const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
      bytes.insert(place, first,
                   first + static_cast<std::ptrdiff_t>(std::min(length, other.size() - from)));
    }
  }
}

// A file of the corpus with a few changes, by the program's own mutator where it has one.
Bytes next_input(std::size_t most) {
  Bytes bytes = corpus.empty() ? Bytes{} : corpus[below(corpus.size())];
  if (LLVMFuzzerCustomMutator != nullptr && bytes.size() <= most) {
    const std::size_t size = bytes.size();
    bytes.resize(most);
    bytes.resize(
        LLVMFuzzerCustomMutator(bytes.data(), size, most, static_cast<unsigned>(random_number())));
    return bytes;
  }
  for (std::size_t left = 1 + below(6); left > 0; --left) change(bytes);
  bytes.resize(std::min(bytes.size(), most));
  return bytes;
}

void run(const Bytes& input, unsigned timeout, long most_mb) {
  current.data = input.data();
  current.size = input.size();
  ::alarm(timeout);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ::alarm(0);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (usage.ru_maxrss >> 10 > most_mb) end("the input takes too much memory");
  current.data = nullptr;
}

}  // namespace

// libFuzzer's, for mutators of programs.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most) {
  Bytes bytes(data, data + size);
  change(bytes);
  bytes.resize(std::min(bytes.size(), most));
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

int main(int argc, char** argv) {
  std::map<std::string, std::string, std::less<>> options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (const std::size_t equals = word.find('='); word.starts_with('-')) {
      options[std::string(word.substr(1, equals - 1))] =
          equals == word.npos ? "" : word.substr(equals + 1);
      continue;
    }
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(word)) {
      for (const auto& entry : std::filesystem::directory_iterator(word)) files.push_back(entry);
    } else {
      files.emplace_back(word);
    }
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
      std::ifstream file(path, std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  const auto number = [&](std::string_view name, long otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::strtol(found->second.c_str(), nullptr, 10);
  };
  const long seconds = number("max_total_time", 0), runs = number("runs", -1);
  const auto timeout = static_cast<unsigned>(number("timeout", 1200));
  const long most_mb = number("rss_limit_mb", 2048);
  std::snprintf(current.prefix.data(), current.prefix.size(), "%s",
                options["artifact_prefix"].c_str());

  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  __sanitizer_set_death_callback(save);
  std::signal(SIGALRM, on_signal);
  std::signal(SIGABRT, on_signal);

  const auto start = std::chrono::steady_clock::now();
  long executed = 0;
  const auto ends = [&] {
    return (runs >= 0 && executed >= runs) ||
           (seconds > 0 &&
            std::chrono::steady_clock::now() - start > std::chrono::seconds(seconds));
  };
  for (std::size_t i = 0; i < corpus.size() && !ends(); ++i, ++executed) {
    run(corpus[i], timeout, most_mb);
  }
  random_number.seed(static_cast<std::uint64_t>(number("seed", 1)));
  const auto longest = static_cast<std::size_t>(number("max_len", 4096));
  for (; !ends() && (runs >= 0 || seconds > 0); ++executed) {
    run(next_input(longest), timeout, most_mb);
  }
  std::printf("stat::number_of_executed_units: %ld\n", executed);
  return 0;
}
