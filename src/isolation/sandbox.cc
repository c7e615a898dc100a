// SPDX-License-Identifier: Apache-2.0
#include "isolation/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "base/log.h"

namespace xrt {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
// Numbers from here on are of the x32 interface: the same calls by other numbers.
constexpr std::uint32_t kOtherNumbers = 0x40000000;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kOtherNumbers = 0x7fffffff;
#else
constexpr std::uint32_t kArchitecture = 0;
constexpr std::uint32_t kOtherNumbers = 0;
#endif

constexpr int kRefusedCalls[] = {SYS_io_uring_setup,
                                 SYS_ptrace,
                                 SYS_process_vm_readv,
                                 SYS_process_vm_writev,
                                 SYS_mount,
                                 SYS_umount2,
                                 SYS_pivot_root,
                                 SYS_chroot,
                                 SYS_setns,
                                 SYS_unshare,
                                 SYS_bpf,
                                 SYS_init_module,
                                 SYS_finit_module,
                                 SYS_delete_module,
                                 SYS_kexec_load,
                                 SYS_add_key,
                                 SYS_request_key,
                                 SYS_keyctl,
                                 SYS_userfaultfd,
                                 SYS_perf_event_open};

sock_filter statement(std::uint32_t code, std::uint32_t value) {
  return BPF_STMT(static_cast<std::uint16_t>(code), value);
}
// Goes on with the next statement where it holds, else leaves out one.
sock_filter test(std::uint32_t how, std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | how | BPF_K), value, yes, no);
}

std::vector<sock_filter> make_filter() {
  const sock_filter refuse = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const auto load = [](std::size_t offset) {
    return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  std::vector<sock_filter> filter = {
      load(offsetof(seccomp_data, arch)), test(BPF_JEQ, kArchitecture, 1, 0), refuse,
      load(offsetof(seccomp_data, nr)),   test(BPF_JGE, kOtherNumbers, 0, 1), refuse};
  for (const int call : kRefusedCalls) {
    filter.push_back(test(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1));
    filter.push_back(refuse);
  }
  // socket(domain, ...): the low half of the first argument.
  filter.push_back(test(BPF_JEQ, SYS_socket, 0, 3));
  filter.push_back(load(offsetof(seccomp_data, args)));
  filter.push_back(test(BPF_JEQ, AF_UNIX, 1, 0));
  filter.push_back(refuse);
  filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter;
}

void die_first_without_memory() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // without /proc there is nothing to say
  constexpr std::string_view kMost = "1000";
  if (::write(file, kMost.data(), kMost.size()) < 0) log_debug("oom_score_adj cannot be set");
  ::close(file);
}

}  // namespace

void enter_sandbox() {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  die_first_without_memory();
  bool filtered = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && kArchitecture != 0;
  if (filtered) {
    std::vector<sock_filter> filter = make_filter();
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    filtered = ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }
  if (!filtered) {
    log_info("a worker runs without a filter of system calls, which this kernel does not have: " +
             std::generic_category().message(errno));
  }
}

}  // namespace xrt
