#include "runtime/engine/inquiry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

Status broken(int rank, const char* what) {
  return {Code::kPeerLost, fmt::format("rank {} sent {} that breaks the protocol", rank, what), rank};
}

}  // namespace

std::vector<std::byte> encode_ask(uint64_t number) {
  WireWriter writer;
  writer.varint(number);
  return writer.take();
}

Result<uint64_t> decode_ask(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  const uint64_t number = reader.varint();
  if (!reader.finished()) return broken(rank, "a question");
  return number;
}

std::vector<std::byte> encode_answer(const Answer& answer) {
  WireWriter writer;
  writer.varint(answer.number);
  writer.text(answer.text.substr(0, kMaxAnswerBytes));
  return writer.take();
}

Result<Answer> decode_answer(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  Answer answer;
  answer.number = reader.varint();
  answer.text = reader.text(kMaxAnswerBytes);
  if (!reader.finished()) return broken(rank, "an answer");
  return answer;
}

void Answers::push(Answer answer) {
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(answer));
  filled_.store(true);
}

std::vector<Answer> Answers::take() {
  MutexLock lock(mutex_);
  filled_.store(false);
  return std::exchange(waiting_, {});
}

std::vector<int> Inquiry::begin(StallVerdict verdict, SteadyClock::time_point now) {
  verdict_ = std::move(verdict);
  ++number_;
  end_ = now + kPatience;
  answers_.clear();
  std::set<int> missing;
  for (const StallReport& report : verdict_.reports) missing.insert(report.lack.begin(), report.lack.end());
  asked_.assign(missing.begin(),
                std::next(missing.begin(), static_cast<std::ptrdiff_t>(std::min(missing.size(), kMostAsked))));
  not_asked_ = missing.size() - asked_.size();
  return asked_;
}

void Inquiry::answer(int rank, const Answer& answer) {
  if (answer.number == number_) answers_[rank] = answer.text;
}

std::string Inquiry::answer_of(int rank, const std::vector<std::string>& names) const {
  const auto answer = answers_.find(rank);
  return fmt::format("{}: {}", names[static_cast<size_t>(rank)],
                     answer != answers_.end() ? answer->second : "does not answer: stopped, or too busy to");
}

std::optional<StallText> Inquiry::due(SteadyClock::time_point now, const std::vector<std::string>& names,
                                      const std::vector<std::string>& hosts) {
  if (!under_way() || (answers_.size() < asked_.size() && now < end_)) return std::nullopt;
  StallText text;
  text.shut_down = verdict_.shut_down;
  text.missing = verdict_.reports.front().lack.front();
  text.reason = fmt::format("{}; {}", describe(verdict_.reports.front(), hosts), answer_of(text.missing, names));
  for (const StallReport& report : verdict_.reports) text.lines.push_back(describe(report, hosts));
  if (verdict_.more > 0) text.lines.push_back(fmt::format("and {} more such groups", verdict_.more));
  for (const int rank : asked_) text.lines.push_back("  " + answer_of(rank, names));
  if (not_asked_ > 0) text.lines.push_back(fmt::format("  {} more ranks were not asked", not_asked_));
  verdict_ = {};
  return text;
}

}  // namespace rueda::core
