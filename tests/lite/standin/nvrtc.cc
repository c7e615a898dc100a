// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVRTC: compiles with the machine's C++ compiler. The "cubin" is a shared library
// that the stand-in for libcuda opens. XRT_STANDIN_CXX and XRT_STANDIN_INCLUDE are set by CMake.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace {

struct Program {
  std::string source, log, code;
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void put(const std::string& text, char* to) { text.copy(to, text.size()); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
EXPORT int nvrtcCreateProgram(Program** out, const char* source, const char*, int,
                              const char* const*, const char* const*) {
  *out = new Program{source, {}, {}};
  return 0;
}
EXPORT int nvrtcDestroyProgram(Program** p) {
  delete *p;
  *p = nullptr;
  return 0;
}
EXPORT int nvrtcCompileProgram(Program* p, int, const char* const*) {
  char folder[] = "/tmp/xrt-nvrtc-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string base = folder;
  std::ofstream(base + "/model.cc")
      << "#include \"device_language.h\"\n"
      << "standin_index standin_thread, standin_block, standin_block_size;\n"
      << "void (*standin_barrier)();\n"
      << "unsigned standin_barriers;\n"
      << p->source;
  const std::string command = std::string(XRT_STANDIN_CXX) +
                              " -std=c++17 -O1 -w -fPIC -shared -ffp-contract=off -I" +
                              XRT_STANDIN_INCLUDE + " " + base + "/model.cc -o " + base +
                              "/model.so > " + base + "/log 2>&1";
  const int result = std::system(command.c_str());
  p->log = read(base + "/log");
  p->code = read(base + "/model.so");
  for (const char* name : {"/model.cc", "/model.so", "/log"}) std::remove((base + name).c_str());
  rmdir(folder);
  return result == 0 ? 0 : 6;
}
EXPORT int nvrtcGetProgramLogSize(Program* p, std::size_t* n) {
  *n = p->log.size();
  return 0;
}
EXPORT int nvrtcGetProgramLog(Program* p, char* to) {
  put(p->log, to);
  return 0;
}
EXPORT int nvrtcGetCUBINSize(Program* p, std::size_t* n) {
  *n = p->code.size();
  return 0;
}
EXPORT int nvrtcGetCUBIN(Program* p, char* to) {
  put(p->code, to);
  return 0;
}
EXPORT int nvrtcGetPTXSize(Program* p, std::size_t* n) {
  *n = p->code.size() + 1;
  return 0;
}
EXPORT int nvrtcGetPTX(Program* p, char* to) {
  put(p->code, to);
  to[p->code.size()] = '\0';
  return 0;
}
EXPORT const char* nvrtcGetErrorString(int code) {
  return code == 6 ? "NVRTC_ERROR_COMPILATION" : "an error";
}
