#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/store/memory_store.h"

namespace rueda::test {

/// Throws std::runtime_error with `sentence`: Catch's macros belong to the test's own thread.
void require(bool holds, const std::string& sentence);
/// Requires a code and, in the sentence, a text.
void require_failure(const core::Status& status, core::Code code, const std::string& text);

/// Engines of the ranks of one job, each used by a thread of its own. Made, joined and destroyed by the test's thread.
class EngineRanks {
 public:
  struct Options {
    int size = 2;
    core::Settings settings = {};
    std::function<void(int rank, core::Settings&)> of_rank = nullptr;  ///< changes one rank's
    core::MemoryStore* store = nullptr;                                ///< null: a new one
    std::string job = "job";
    std::vector<std::string> workers = {};  ///< names of the processes; empty: by rank
    std::vector<std::string> hosts = {};    ///< by rank; empty: all on one
    std::function<std::unique_ptr<core::VerdictSource>(int rank)> launcher = nullptr;  ///< null: rank 0 judges
  };
  using Body = std::function<void(core::Engine& engine, int rank)>;

  /// Forms an epoch of `options.size` ranks, runs `body` on a thread for each rank and shuts each engine down after its
  /// body, unless that did. Throws what a body threw first.
  static void run(const Options& options, const Body& body);
};

/// One rank's engine, by itself: blocks until all ranks have come.
std::shared_ptr<core::Engine> start_engine(const EngineRanks::Options& options, core::MemoryStore& store, int rank);

/// How a test describes an operation; the vectors are lent until it is done.
struct Sum {
  std::string name;
  std::vector<std::vector<float>*> tensors;  ///< in place, summed; several: a group
  std::function<void(core::Code)> callback = nullptr;
  std::function<void*(size_t bytes)> allocate = nullptr;  ///< where given, outputs come from it
  bool more = false;                                      ///< as in OperationSpec
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  core::SetId set = core::kGlobalSet;
  std::function<void(core::Code)> announce = nullptr;
};
std::shared_ptr<core::Operation> make_sum(core::Engine& engine, const Sum& sum);
/// Enqueues; requires that it was taken.
std::shared_ptr<core::Operation> start_sum(core::Engine& engine, const Sum& sum);
/// Enqueues one vector and waits; the operation's status.
core::Status sum_now(core::Engine& engine, const std::string& name, std::vector<float>& values);
/// Waits without a limit.
core::Status finish(core::Engine& engine, core::Operation& operation);
/// Requires that the ranks' numbers add up.
void require_usable(core::Engine& engine, const std::string& name);

}  // namespace rueda::test
