#include "runtime/engine/inquiry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/rank_ranges.h"
#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

Status broken(int rank, const char* what) {
  return {Code::kPeerLost, fmt::format("rank {} sent {} that breaks the protocol", rank, what), rank};
}

}  // namespace

std::vector<std::byte> encode_ask(const Ask& ask) {
  WireWriter writer;
  writer.varint(ask.number);
  writer.varint(ask.batches.size());
  for (const BatchName& batch : ask.batches) {
    writer.varint(batch.set);
    writer.varint(batch.number);
  }
  return writer.take();
}

Result<Ask> decode_ask(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  Ask ask;
  ask.number = reader.varint();
  for (uint64_t left = reader.varint(StallJudge::kMostReports); left != 0 && reader.ok(); --left) {
    BatchName& batch = ask.batches.emplace_back();
    batch.set = static_cast<SetId>(reader.varint(UINT32_MAX));
    batch.number = reader.varint();
  }
  if (!reader.finished()) return broken(rank, "a question");
  return ask;
}

std::vector<std::byte> encode_answer(const Answer& answer) {
  WireWriter writer;
  writer.varint(answer.number);
  writer.text(answer.text.substr(0, kMaxAnswerBytes));
  writer.varint(answer.batches.size());
  for (const BatchProgress& batch : answer.batches) {
    writer.u8(static_cast<uint8_t>(batch.stage));
    writer.varint(static_cast<uint64_t>(batch.awaited - Mesh::kOthers));
  }
  return writer.take();
}

Result<Answer> decode_answer(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  Answer answer;
  answer.number = reader.varint();
  answer.text = reader.text(kMaxAnswerBytes);
  bool known = true;
  for (uint64_t left = reader.varint(StallJudge::kMostReports); left != 0 && reader.ok(); --left) {
    BatchProgress& batch = answer.batches.emplace_back();
    const uint8_t stage = reader.u8();
    known = known && stage <= static_cast<uint8_t>(BatchStage::kOver);
    batch.stage = static_cast<BatchStage>(stage);
    batch.awaited = static_cast<int>(reader.varint(INT32_MAX)) + Mesh::kOthers;
  }
  if (!reader.finished() || !known) return broken(rank, "an answer");
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
  ask_ = {ask_.number + 1, {}};
  end_ = now + kPatience;
  answers_.clear();
  std::set<int> missing;
  std::set<int> members;
  for (const StallReport& report : verdict_.reports) {
    missing.insert(report.lack.begin(), report.lack.end());
    if (report.kind != StallKind::kRunning) continue;
    ask_.batches.push_back({report.set, report.batch});
    members.insert(report.have.begin(), report.have.end());
  }
  const auto first = [](const std::set<int>& ranks, size_t most) {
    return std::set<int>(ranks.begin(),
                         std::next(ranks.begin(), static_cast<std::ptrdiff_t>(std::min(ranks.size(), most))));
  };
  told_ = first(missing, kMostAsked);
  not_asked_ = missing.size() - told_.size();
  members = first(members, kMostMembers);
  members.insert(told_.begin(), told_.end());
  asked_.assign(members.begin(), members.end());
  return asked_;
}

void Inquiry::answer(int rank, const Answer& answer) {
  if (answer.number == ask_.number) answers_[rank] = answer;
}

std::string Inquiry::answer_of(int rank, const std::vector<std::string>& names) const {
  const auto answer = answers_.find(rank);
  return fmt::format("{}: {}", names[static_cast<size_t>(rank)],
                     answer != answers_.end() ? answer->second.text : "does not answer; it may be stopped or busy");
}

/// How far the members are with a batch that runs, and for whom they wait. Who waits for nobody is told in full, as who
/// does not answer. Nothing where it has ended meanwhile.
std::vector<std::string> Inquiry::progress_of(const StallReport& report, size_t batch,
                                              const std::vector<std::string>& hosts) {
  std::map<BatchStage, std::vector<int>> at;
  std::map<int, std::vector<int>> waiting;
  std::vector<int> silent;
  std::vector<int> behind;
  size_t not_asked = 0;
  for (const int rank : report.have) {
    const auto answer = answers_.find(rank);
    if (!std::binary_search(asked_.begin(), asked_.end(), rank)) {
      ++not_asked;
    } else if (answer == answers_.end() || answer->second.batches.size() <= batch) {
      silent.push_back(rank);
    } else {
      const BatchProgress& progress = answer->second.batches[batch];
      at[progress.stage].push_back(rank);
      if (progress.stage == BatchStage::kRunning) waiting[progress.awaited].push_back(rank);
      if (progress.stage == BatchStage::kNotStarted) behind.push_back(rank);
    }
  }
  if (at[BatchStage::kOver].size() == report.have.size()) return {};
  std::vector<std::string> parts;
  const auto add = [&](const char* how, const std::vector<int>& ranks) {
    if (!ranks.empty()) parts.push_back(how + rank_ranges(ranks, hosts));
  };
  add("finished by ", at[BatchStage::kOver]);
  add("started by ", at[BatchStage::kRunning]);
  add("not started by ", at[BatchStage::kNotStarted]);
  add("no answer from ", silent);
  if (not_asked > 0) parts.push_back(fmt::format("{} more ranks were not asked", not_asked));
  std::vector<std::string> lines = {fmt::format("{}: {}", describe(report, hosts), fmt::join(parts, ", "))};
  for (const auto& [awaited, ranks] : waiting) {
    const std::string whom = awaited >= 0               ? rank_ranges({&awaited, 1}, hosts)
                             : awaited == Mesh::kOthers ? "ranks that only the network library knows"
                                                        : "no other rank";
    lines.push_back(
        fmt::format("  {} {} for {}", rank_ranges(ranks, hosts), ranks.size() == 1 ? "waits" : "wait", whom));
  }
  behind.insert(behind.end(), waiting[Mesh::kNobody].begin(), waiting[Mesh::kNobody].end());
  behind.insert(behind.end(), silent.begin(), silent.end());
  behind.resize(std::min(behind.size(), kMostAsked));
  told_.insert(behind.begin(), behind.end());
  return lines;
}

std::optional<StallText> Inquiry::due(SteadyClock::time_point now, const std::vector<std::string>& names,
                                      const std::vector<std::string>& hosts) {
  if (!under_way() || (answers_.size() < asked_.size() && now < end_)) return std::nullopt;
  StallText text;
  size_t batch = 0;
  for (const StallReport& report : verdict_.reports) {
    if (report.kind == StallKind::kRunning) {
      const std::vector<std::string> lines = progress_of(report, batch++, hosts);
      text.lines.insert(text.lines.end(), lines.begin(), lines.end());
      continue;
    }
    text.lines.push_back(describe(report, hosts));
    if (text.missing >= 0 && (text.shut_down || !report.over)) continue;
    text.shut_down = report.over;
    text.missing = report.lack.front();
    text.reason = fmt::format("{}; {}", text.lines.back(), answer_of(text.missing, names));
  }
  if (verdict_.more > 0) text.lines.push_back(fmt::format("and {} more such groups", verdict_.more));
  for (const int rank : told_) text.lines.push_back("  " + answer_of(rank, names));
  if (not_asked_ > 0) text.lines.push_back(fmt::format("  {} more ranks were not asked", not_asked_));
  verdict_ = {};
  return text;
}

}  // namespace rueda::core
