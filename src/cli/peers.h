// SPDX-License-Identifier: Apache-2.0
// Other runtimes, measured beside this one: `xrt bench --peers`.
//
// Each peer is a Python process that runs bench_peers.py: it loads the model once and then answers
// one line per request, so that its runs can be interleaved with ours.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace xrt::cli {

class Peer {
 public:
  // `inputs` is a .npz with one array per input. Throws xrt::Error kEngine, with the peer's own
  // words, where Python or the peer's package is missing or refuses the model.
  Peer(std::string name, const std::string& model, const std::filesystem::path& inputs,
       int threads);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  double load_seconds() const { return load_seconds_; }

  double run();  // one run's seconds, measured inside the peer
  void write_outputs(const std::filesystem::path& path);  // the results as a .npz

 private:
  std::string ask(const std::string& request);
  std::string read_line();
  void finish();

  std::string name_, version_;
  double load_seconds_ = 0;
  pid_t process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace xrt::cli
