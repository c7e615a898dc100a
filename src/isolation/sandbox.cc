// SPDX-License-Identifier: Apache-2.0
#include "isolation/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "isolation/landlock.h"

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

constexpr int kRefusedCalls[] = {
    // Sockets by another way.
    SYS_io_uring_setup,
    // Other processes: their memory, their descriptors.
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp,
    SYS_pidfd_open, SYS_pidfd_getfd, SYS_perf_event_open, SYS_userfaultfd,
    // Mounts, name spaces.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare, SYS_fsopen,
    SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree, SYS_mount_setattr,
    // The kernel, the machine, keys.
    SYS_bpf, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_kexec_file_load, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_add_key, SYS_request_key,
    SYS_keyctl};

constexpr std::uint32_t kNameSpaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID |
                                      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

sock_filter statement(std::uint32_t code, std::uint32_t value) {
  return BPF_STMT(static_cast<std::uint16_t>(code), value);
}
// Leaves out `yes` statements where it holds, else `no`.
sock_filter test(std::uint32_t how, std::uint32_t value, std::size_t yes, std::size_t no) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | how | BPF_K), value,
                  static_cast<std::uint8_t>(yes), static_cast<std::uint8_t>(no));
}
sock_filter load(std::size_t offset) {
  return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
sock_filter refuse(std::uint32_t error = EPERM) {
  return statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
}
sock_filter allow() { return statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }

// A filter of system calls that grows by one rule after the other; what no rule names is allowed.
// Arguments are compared by their low halves: what is compared here are ints to the kernel.
class Filter {
 public:
  Filter() {
    statements_ = {
        load(offsetof(seccomp_data, arch)), test(BPF_JEQ, kArchitecture, 1, 0), refuse(),
        load(offsetof(seccomp_data, nr)),   test(BPF_JGE, kOtherNumbers, 0, 1), refuse()};
  }
  void refuse_call(int call, int error = EPERM) {
    statements_.push_back(test(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1));
    statements_.push_back(refuse(static_cast<std::uint32_t>(error)));
  }
  // Allowed only where the argument is one of the values.
  void allow_only(int call, int argument, const std::vector<std::uint32_t>& values) {
    look_at(call, argument, values.size() + 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      statements_.push_back(test(BPF_JEQ, values[i], values.size() - i, 0));
    }
    statements_.push_back(refuse());
    statements_.push_back(allow());
  }
  // Refused where the argument is one of the values; with BPF_JSET where it has a bit of one.
  void refuse_if(int call, int argument, const std::vector<std::uint32_t>& values,
                 std::uint32_t how = BPF_JEQ) {
    look_at(call, argument, values.size() + 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      statements_.push_back(test(how, values[i], values.size() - i, 0));
    }
    statements_.push_back(allow());
    statements_.push_back(refuse());
  }
  // For every thread of this process.
  bool enter() {
    statements_.push_back(allow());
    const sock_fprog program = {static_cast<unsigned short>(statements_.size()),
                                statements_.data()};
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
           0;
  }

 private:
  // The statements behind it, `count`, are for this call alone and do not come back.
  void look_at(int call, int argument, std::size_t count) {
    statements_.push_back(test(BPF_JEQ, static_cast<std::uint32_t>(call), 0, count + 1));
    statements_.push_back(load(offsetof(seccomp_data, args) +
                               static_cast<std::size_t>(argument) * sizeof(std::uint64_t)));
  }

  std::vector<sock_filter> statements_;
};

// Signals to other processes, for where Landlock does not refuse them. Processes that this one
// starts are others, too: the filter does not know their numbers.
void refuse_signals(Filter& filter, std::uint32_t self) {
  for (const int call :
       {SYS_kill, SYS_tgkill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    filter.allow_only(call, 0, {self});
  }
  filter.refuse_call(SYS_pidfd_send_signal);
  // A descriptor signals its owner, with any signal that F_SETSIG names.
  filter.refuse_if(SYS_fcntl, 1, {F_SETOWN, F_SETOWN_EX});
}

Filter make_filter(bool with_signals) {
  Filter filter;
  for (const int call : kRefusedCalls) filter.refuse_call(call);
  filter.allow_only(SYS_socket, 0, {AF_UNIX});
  filter.allow_only(SYS_socketpair, 0, {AF_UNIX});
  filter.refuse_if(SYS_clone, 0, {kNameSpaces}, BPF_JSET);
  // Its flags lie in memory, where no filter sees them: callers use clone() then.
  filter.refuse_call(SYS_clone3, ENOSYS);
  // Limits and pages of other processes: a limit of processor time ends one.
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (const int call : {SYS_prlimit64, SYS_move_pages, SYS_migrate_pages}) {
    filter.allow_only(call, 0, {0, self});
  }
  // Input for a terminal is as if the user had typed it.
  std::vector<std::uint32_t> controls = {TIOCSTI, TIOCLINUX};
  if (with_signals) {
    refuse_signals(filter, self);
    controls.insert(controls.end(), {FIOSETOWN, SIOCSPGRP});
  }
  filter.refuse_if(SYS_ioctl, 1, controls);
  return filter;
}

void die_first_without_memory() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // without /proc there is nothing to say
  constexpr std::string_view kMost = "1000";
  if (::write(file, kMost.data(), kMost.size()) < 0) log_debug("oom_score_adj cannot be set");
  ::close(file);
}

// What root's worker keeps of root's rights: those to files, and to keep memory from being swapped.
// A process with fewer rights than another may not open its memory, with Landlock or without.
bool give_up_capabilities() {
  constexpr std::uint32_t kKept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE |
                                  1U << CAP_DAC_READ_SEARCH | 1U << CAP_FOWNER | 1U << CAP_FSETID |
                                  1U << CAP_IPC_LOCK;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  sets[0].effective &= kKept;
  sets[0].permitted &= kKept;
  sets[0].inheritable &= kKept;
  sets[1] = {};
  return ::syscall(SYS_capset, &header, sets) == 0;
}

}  // namespace

void enter_sandbox(int most_landlock) {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  die_first_without_memory();
  const auto cause = [] { return std::generic_category().message(errno); };
  if (!give_up_capabilities()) log_info("a worker keeps its capabilities: " + cause());
  const bool gains_nothing = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const int landlock = gains_nothing ? enter_landlock(most_landlock) : 0;
  if (landlock == 0) {
    log_info(
        "a worker runs without Landlock, which this kernel does not have: it may be able to open "
        "the memory of other processes of its user: " +
        cause());
  }
  if (kArchitecture == 0 || !gains_nothing ||
      !make_filter(landlock < kLandlockWithSignals).enter()) {
    log_info("a worker runs without a filter of system calls, which this kernel does not have: " +
             cause());
  }
}

}  // namespace xrt
