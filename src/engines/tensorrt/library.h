// SPDX-License-Identifier: Apache-2.0
// What the engine needs of NVIDIA's library beside networks: its version, its messages, and
// builders and runtimes made with the right version number.
//
// Classes of the headers are tables of virtual functions to the library. TensorRT-RTX's lack
// functions that TensorRT's have, so the headers must be those of the product that is loaded;
// refuse_pair() decides which pairs are accepted.
#pragma once

#include <NvInfer.h>

#include <memory>
#include <mutex>
#include <string>

namespace xrt::tensorrt {

// Collects what NVIDIA's library reports. Thread-safe: a builder logs from threads of its own.
class Logger : public nvinfer1::ILogger {
 public:
  void log(Severity severity, const char* message) noexcept override;
  // The first error since the last call that this thread caused or, if there was none, one of the
  // library's own threads; "" without either.
  std::string take_error();

 private:
  std::mutex mutex_;
  std::string error_;  // of the library's own threads
};

// The one of the process: the library keeps the first logger that it is given for messages that
// belong to no builder, so none may go away.
Logger& logger();

// "TensorRT-RTX 1.7.1.116", "TensorRT 11.1.0.106"
std::string library_version();
// The file that the functions come from.
std::string library_location();
bool is_rtx();
// Why a library of version `library` (major, minor) cannot be used with headers of `headers`, or ""
// if it can. Separate for the test.
std::string refuse_pair(int header_major, int header_minor, int library_major, int library_minor);

// Throw kEngine with the library's own reason where it gives none.
std::unique_ptr<nvinfer1::IBuilder> make_builder();
std::unique_ptr<nvinfer1::IRuntime> make_runtime();
std::unique_ptr<nvinfer1::INetworkDefinition> make_network(nvinfer1::IBuilder& builder);

}  // namespace xrt::tensorrt
