#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/diagnosis/stall.h"

namespace rueda::core {

/// What ranks answer when rank 0 asks what they are doing.
///
///   kAsk      rank 0 to a rank    number
///   kAnswer   a rank to rank 0    number, text of at most kMaxAnswerBytes
inline constexpr size_t kMaxAnswerBytes = 4096;

struct Answer {
  uint64_t number = 0;
  std::string text;
};
std::vector<std::byte> encode_ask(uint64_t number);
/// kPeerLost, naming `rank`, if it breaks the protocol.
Result<uint64_t> decode_ask(std::span<const std::byte> body, int rank);
std::vector<std::byte> encode_answer(const Answer& answer);
Result<Answer> decode_answer(std::span<const std::byte> body, int rank);

/// Answers on their way to the next turn: made on the worker's thread, sent by the baton's holder.
class Answers {
 public:
  void push(Answer answer) RUEDA_EXCLUDES(mutex_);
  bool empty() const { return !filled_.load(); }
  std::vector<Answer> take() RUEDA_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<Answer> waiting_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<bool> filled_{false};
};

/// A verdict about stalls, in words.
struct StallText {
  std::vector<std::string> lines;
  bool shut_down = false;  ///< the limit has passed
  std::string reason;      ///< the first report with its first missing rank's answer, as one sentence
  int missing = -1;        ///< that rank
};

/// Rank 0's question to the ranks that a stall waits for: what are you doing instead? Pure; the baton's holder.
class Inquiry {
 public:
  /// At most so many ranks are asked; the others are counted.
  static constexpr size_t kMostAsked = 8;
  /// How long an answer is waited for.
  static constexpr std::chrono::seconds kPatience{2};

  /// Begins to speak of a verdict; who is to be asked. One that is under way is forgotten.
  std::vector<int> begin(StallVerdict verdict, SteadyClock::time_point now);
  /// The number that an answer has to bear.
  uint64_t number() const { return number_; }
  void answer(int rank, const Answer& answer);
  /// Once, when all have answered or their time is over. `names` by rank ("rank 3 (host b, pid 7)"), `hosts` by rank.
  std::optional<StallText> due(SteadyClock::time_point now, const std::vector<std::string>& names,
                               const std::vector<std::string>& hosts);
  bool under_way() const { return !verdict_.reports.empty(); }

 private:
  std::string answer_of(int rank, const std::vector<std::string>& names) const;

  StallVerdict verdict_;
  uint64_t number_ = 0;
  SteadyClock::time_point end_;
  std::vector<int> asked_;
  size_t not_asked_ = 0;
  std::map<int, std::string> answers_;
};

}  // namespace rueda::core
