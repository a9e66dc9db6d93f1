#pragma once
#include "runtime/base/thread_annotations.h"

namespace rueda::core {

/// A role that one thread at a time has, such as the holder of the baton or the coordinator thread. Only that thread
/// may call a function marked RUEDA_ON(role) or touch a member marked RUEDA_GUARDED_BY(role). Clang proves it
/// (-Wthread-safety), as it does for locks. A role has no state and costs nothing at run time.
///
/// One object stands for a role in all engines of the process. Clang compares the expressions that name a capability:
/// if each engine had its own, `turn.baton` and `engine.baton` would be two capabilities to it. The analysis looks at
/// one function at a time, and no function here works on two engines, so nothing is lost.
class RUEDA_CAPABILITY("role") ThreadRole {
 public:
  constexpr ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;
  /// Tells clang that the caller has the role when clang cannot see it: in a function that is called through
  /// std::function or on a new thread. Checks nothing at run time.
  void assert_held() const RUEDA_ATTRIBUTE(assert_capability(this)) {}
};

}  // namespace rueda::core
