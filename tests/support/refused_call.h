#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace rueda::core {

/// Puts a filter of system calls before this thread and its children. Cannot be undone: call it in a process of its
/// own. Returns false if the kernel has no seccomp filters.
inline bool install_filter(std::vector<sock_filter> program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// From now on the kernel answers these system calls with EPERM, as a container's seccomp profile does; as
/// `install_filter`.
inline bool refuse_calls(std::span<const long> calls) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return install_filter(std::move(program));
}

/// The same for one call with this number as its first argument, such as socket(AF_UNIX, ...).
inline bool refuse_call_with(long call, unsigned argument) {
  return install_filter({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 3),
                         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),  // the low half comes first
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
}

}  // namespace rueda::core
