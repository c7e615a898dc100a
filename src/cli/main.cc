// SPDX-License-Identifier: Apache-2.0
extern "C" int xrt_run_command(int argc, const char* const* argv);

int main(int argc, char** argv) { return xrt_run_command(argc, argv); }
