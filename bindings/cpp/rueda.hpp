/// Rueda for C++20, header-only over rueda.h: RAII sessions and handles, typed tensors, and a distributed optimizer.
///
///   rueda::Session session;                              // rank and size from hvdrun's environment
///   std::vector<float> gradient = ...;
///   session.allreduce(gradient, {.name = "w1"});         // averaged over all ranks, in place
///   auto handle = session.allreduce_async(gradient, {.op = rueda::ReduceOp::kSum, .name = "w2"});
///   handle.wait();                                       // throws rueda::Error
#pragma once
#include "rueda/activity.hpp"               // IWYU pragma: export
#include "rueda/distributed_optimizer.hpp"  // IWYU pragma: export
#include "rueda/elastic.hpp"                // IWYU pragma: export
#include "rueda/error.hpp"                  // IWYU pragma: export
#include "rueda/groups.hpp"                 // IWYU pragma: export
#include "rueda/handle.hpp"                 // IWYU pragma: export
#include "rueda/init.hpp"                   // IWYU pragma: export
#include "rueda/log.hpp"                    // IWYU pragma: export
#include "rueda/memory.hpp"                 // IWYU pragma: export
#include "rueda/options.hpp"                // IWYU pragma: export
#include "rueda/process_set.hpp"            // IWYU pragma: export
#include "rueda/session.hpp"                // IWYU pragma: export
#include "rueda/sparse.hpp"                 // IWYU pragma: export
#include "rueda/store.hpp"                  // IWYU pragma: export
#include "rueda/tensor.hpp"                 // IWYU pragma: export
