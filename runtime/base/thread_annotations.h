#pragma once
// Clang's thread-safety analysis (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html); nothing for other compilers.

#if defined(__clang__)
#define RUEDA_ATTRIBUTE(x) __attribute__((x))
#else
#define RUEDA_ATTRIBUTE(x)
#endif

#define RUEDA_GUARDED_BY(mutex) RUEDA_ATTRIBUTE(guarded_by(mutex))
#define RUEDA_REQUIRES(...) RUEDA_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define RUEDA_EXCLUDES(...) RUEDA_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define RUEDA_CAPABILITY(name) RUEDA_ATTRIBUTE(capability(name))
/// Marks a function that only the thread with a role may call (see `ThreadRole`). Clang checks its callers.
#define RUEDA_ON(...) RUEDA_ATTRIBUTE(requires_capability(__VA_ARGS__))
