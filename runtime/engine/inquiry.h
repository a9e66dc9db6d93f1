#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/diagnosis/stall.h"
#include "runtime/engine/baton.h"
#include "runtime/net/mesh.h"

namespace rueda::core {

/// What rank 0 asks ranks about what they are doing, and what they answer.
///
///   kAsk      rank 0 to a rank    number, count { set id, batch number }
///   kAnswer   a rank to rank 0    number, text of at most kMaxAnswerBytes, count { stage (u8), number }
///   The last number is that of the rank that the batch waits for, less Mesh::kDevice, which is -3.
inline constexpr size_t kMaxAnswerBytes = 4096;

struct BatchName {
  SetId set = kGlobalSet;  ///< the id that rank 0 gave
  uint64_t number = 0;
};
/// "What are you doing, and how far are you with these batches?"
struct Ask {
  uint64_t number = 0;
  std::vector<BatchName> batches = {};
};
enum class BatchStage : uint8_t { kNotStarted = 0, kRunning = 1, kOver = 2 };
struct BatchProgress {
  BatchStage stage = BatchStage::kNotStarted;
  int awaited = Mesh::kNobody;  ///< the rank it waits for; see `Mesh::awaited`
};
struct Answer {
  uint64_t number = 0;
  std::string text;
  std::vector<BatchProgress> batches = {};  ///< as they were asked about
};
std::vector<std::byte> encode_ask(const Ask& ask);
/// Returns kPeerLost, naming `rank`, if the bytes break the protocol; so does `decode_answer`.
Result<Ask> decode_ask(std::span<const std::byte> body, int rank);
std::vector<std::byte> encode_answer(const Answer& answer);
Result<Answer> decode_answer(std::span<const std::byte> body, int rank);

/// Answers on their way to the next turn: the task thread makes them, the baton's holder sends them.
class Answers {
 public:
  void push(Answer answer) RUEDA_EXCLUDES(mutex_);
  bool empty() const { return !filled_.load(); }
  std::vector<Answer> take() RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<Answer> waiting_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<bool> filled_{false};
};

/// A verdict about stalls, in words.
struct StallText {
  std::vector<std::string> lines;
  bool shut_down = false;  ///< the limit has passed
  std::string reason;      ///< one sentence: a report, with its first missing rank's answer
  int missing = -1;        ///< that rank; -1 if no report is about missing ranks
};

/// Rank 0's questions about stalls. It asks the ranks that a stall waits for what they do instead, and the members of a
/// batch that has run for long how far they are and for which rank they wait. Pure: it is told the time, and others
/// send and receive. The engine owns it; the baton's holder uses it.
class Inquiry {
 public:
  /// The most ranks that are asked what they do instead; the others are counted.
  static constexpr size_t kMostAsked = 8;
  /// The most members that are asked about a batch.
  static constexpr size_t kMostMembers = 64;
  /// How long a report waits for answers.
  static constexpr std::chrono::seconds kPatience{2};

  /// Begins a report about a verdict and returns the ranks to ask. Forgets a report that is under way.
  std::vector<int> begin(StallVerdict verdict, SteadyClock::time_point now);
  const Ask& ask() const { return ask_; }
  /// The number that an answer must carry.
  uint64_t number() const { return ask_.number; }
  void answer(int rank, const Answer& answer);
  /// Returns the report once, when all have answered or their time is over. `full_names` by rank ("rank 3 (host b, pid
  /// 7)").
  std::optional<StallText> due(SteadyClock::time_point now, const std::vector<std::string>& full_names,
                               const RankNames& names);
  bool under_way() const { return !verdict_.reports.empty(); }

 private:
  std::string answer_of(int rank, const std::vector<std::string>& full_names) const;
  std::vector<std::string> progress_of(const StallReport& report, size_t batch, const RankNames& names);

  StallVerdict verdict_;
  Ask ask_;
  SteadyClock::time_point end_;
  std::vector<int> asked_;
  std::set<int> told_;  ///< ranks that the report quotes
  size_t not_asked_ = 0;
  std::map<int, Answer> answers_;
};

}  // namespace rueda::core
