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

/// What ranks answer when rank 0 asks what they are doing.
///
///   kAsk      rank 0 to a rank    number, count { set id, batch number }
///   kAnswer   a rank to rank 0    number, text of at most kMaxAnswerBytes, count { stage (u8), awaited rank + 2 }
inline constexpr size_t kMaxAnswerBytes = 4096;

struct BatchName {
  SetId set = kGlobalSet;  ///< the id that rank 0 gave
  uint64_t number = 0;
};
/// What are you doing, and how far are you with these batches?
struct Ask {
  uint64_t number = 0;
  std::vector<BatchName> batches = {};
};
enum class BatchStage : uint8_t { kNotStarted = 0, kRunning = 1, kOver = 2 };
struct BatchProgress {
  BatchStage stage = BatchStage::kNotStarted;
  int awaited = Mesh::kNobody;  ///< for whom it waits; see `Mesh::awaited`
};
struct Answer {
  uint64_t number = 0;
  std::string text;
  std::vector<BatchProgress> batches = {};  ///< as they were asked about
};
std::vector<std::byte> encode_ask(const Ask& ask);
/// kPeerLost, naming `rank`, if it breaks the protocol.
Result<Ask> decode_ask(std::span<const std::byte> body, int rank);
std::vector<std::byte> encode_answer(const Answer& answer);
Result<Answer> decode_answer(std::span<const std::byte> body, int rank);

/// Answers on their way to the next turn: made on the worker's thread, sent by the baton's holder.
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
  std::string reason;      ///< the report that ends the job with its first missing rank's answer, as one sentence
  int missing = -1;        ///< that rank
};

/// Rank 0's question to the ranks that a stall waits for, what are you doing instead, and to all members of a set of
/// which a batch has run for long: how far are you, and for whom do you wait? Pure; the baton's holder.
class Inquiry {
 public:
  /// At most so many ranks are asked what they do instead; the others are counted.
  static constexpr size_t kMostAsked = 8;
  /// At most so many members are asked about a batch.
  static constexpr size_t kMostMembers = 64;
  /// How long an answer is waited for.
  static constexpr std::chrono::seconds kPatience{2};

  /// Begins to speak of a verdict; who is to be asked. One that is under way is forgotten.
  std::vector<int> begin(StallVerdict verdict, SteadyClock::time_point now);
  const Ask& ask() const { return ask_; }
  /// The number that an answer has to bear.
  uint64_t number() const { return ask_.number; }
  void answer(int rank, const Answer& answer);
  /// Once, when all have answered or their time is over. `names` by rank ("rank 3 (host b, pid 7)"), `hosts` by rank.
  std::optional<StallText> due(SteadyClock::time_point now, const std::vector<std::string>& names,
                               const std::vector<std::string>& hosts);
  bool under_way() const { return !verdict_.reports.empty(); }

 private:
  std::string answer_of(int rank, const std::vector<std::string>& names) const;
  std::vector<std::string> progress_of(const StallReport& report, size_t batch, const std::vector<std::string>& hosts);

  StallVerdict verdict_;
  Ask ask_;
  SteadyClock::time_point end_;
  std::vector<int> asked_;
  std::set<int> told_;  ///< whose answers are told
  size_t not_asked_ = 0;
  std::map<int, Answer> answers_;
};

}  // namespace rueda::core
