// Frames and words of rank 0's questions. A report asks as few ranks as it can: of a stall the first missing ranks, of
// a batch that runs its first members. It is told once, when all have answered or kPatience has passed: a rank that
// hangs hard does not answer, and that is what the report is about.
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

//   kAsk      number, count { set id, batch number }, all varints
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
  // A report names no more batches, so a larger count is broken and allocates nothing.
  for (uint64_t left = reader.varint(StallJudge::kMostReports); left != 0 && reader.ok(); --left) {
    BatchName& batch = ask.batches.emplace_back();
    batch.set = static_cast<SetId>(reader.varint(UINT32_MAX));
    batch.number = reader.varint();
  }
  if (!reader.finished()) return broken(rank, "a question");
  return ask;
}

//   kAnswer   number (varint), text, count (varint) { stage (u8), awaited rank - kDevice (varint) }
std::vector<std::byte> encode_answer(const Answer& answer) {
  WireWriter writer;
  writer.varint(answer.number);
  writer.text(answer.text.substr(0, kMaxAnswerBytes));  // the user's function may say anything
  writer.varint(answer.batches.size());
  for (const BatchProgress& batch : answer.batches) {
    writer.u8(static_cast<uint8_t>(batch.stage));
    writer.varint(static_cast<uint64_t>(batch.awaited - Mesh::kDevice));  // kDevice is the least: varints have no sign
  }
  return writer.take();
}

Result<Answer> decode_answer(std::span<const std::byte> body, int rank) {
  WireReader reader(body);
  Answer answer;
  answer.number = reader.varint();
  answer.text = reader.text(kMaxAnswerBytes);
  bool known = true;  // a stage of a newer version would be misread, so it breaks the protocol
  for (uint64_t left = reader.varint(StallJudge::kMostReports); left != 0 && reader.ok(); --left) {
    BatchProgress& batch = answer.batches.emplace_back();
    const uint8_t stage = reader.u8();
    known = known && stage <= static_cast<uint8_t>(BatchStage::kOver);
    batch.stage = static_cast<BatchStage>(stage);
    batch.awaited = static_cast<int>(reader.varint(INT32_MAX)) + Mesh::kDevice;
  }
  if (!reader.finished() || !known) return broken(rank, "an answer");
  return answer;
}

/// The flag after the answer: a reader that sees the flag finds the answer.
void Answers::push(Answer answer) {
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(answer));
  filled_.store(true);
}

/// The flag first: an answer that comes meanwhile waits for the mutex and sets it again.
std::vector<Answer> Answers::take() {
  MutexLock lock(mutex_);
  filled_.store(false);
  return std::exchange(waiting_, {});
}

/// Ranks are asked once, however many reports need them: `told_` are the missing ones, whose words go into the report;
/// members of running batches are asked for their progress besides.
std::vector<int> Inquiry::begin(StallVerdict verdict, SteadyClock::time_point now) {
  verdict_ = std::move(verdict);
  ask_ = {ask_.number + 1, {}};  // late answers to the last question carry the old number
  end_ = now + kPatience;
  answers_.clear();
  std::set<int> missing;
  std::set<int> members;
  for (const StallReport& report : verdict_.reports) {
    missing.insert(report.lack.begin(), report.lack.end());
    if (report.kind != StallKind::kRunning) continue;  // only what runs has progress to ask about
    ask_.batches.push_back({report.set, report.batch});
    members.insert(report.have.begin(), report.have.end());
  }
  // The lowest ranks, so that two reports about one stall ask the same ones.
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

/// An answer to an earlier question comes too late for it.
void Inquiry::answer(int rank, const Answer& answer) {
  if (answer.number == ask_.number) answers_[rank] = answer;
}

/// A rank's own words, or that there are none.
std::string Inquiry::answer_of(int rank, const std::vector<std::string>& full_names) const {
  const auto answer = answers_.find(rank);
  return fmt::format("{}: {}", full_names[static_cast<size_t>(rank)],
                     answer != answers_.end() ? answer->second.text : "does not answer; it may be stopped or busy");
}

/// How far the members are with a batch that runs, and for which ranks they wait. The ranks that hold it up are told in
/// full: those that have not started it, those that wait for no other, and those that do not answer. Returns no lines
/// if the batch has ended meanwhile.
std::vector<std::string> Inquiry::progress_of(const StallReport& report, size_t batch, const RankNames& names) {
  // Each member falls into one of: not asked, silent, or one of the three stages it told.
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
  if (at[BatchStage::kOver].size() == report.have.size()) return {};  // it ended between the question and the answers
  std::vector<std::string> parts;
  const auto add = [&](const char* how, const std::vector<int>& ranks) {
    if (!ranks.empty()) parts.push_back(how + rank_ranges(ranks, names));
  };
  add("finished by ", at[BatchStage::kOver]);
  add("started by ", at[BatchStage::kRunning]);
  add("not started by ", at[BatchStage::kNotStarted]);
  add("no answer from ", silent);
  if (not_asked > 0) parts.push_back(fmt::format("{} more ranks were not asked", not_asked));
  std::vector<std::string> lines = {fmt::format("{}: {}", describe(report, names), fmt::join(parts, ", "))};
  // One line for all that wait for the same rank: usually one rank holds up all others.
  for (const auto& [awaited, ranks] : waiting) {
    const std::string whom = awaited >= 0               ? rank_ranges({&awaited, 1}, names)
                             : awaited == Mesh::kOthers ? "ranks that only the network library knows"
                             : awaited == Mesh::kDevice ? "its device, on which the batch is launched and not finished"
                                                        : "no other rank";
    lines.push_back(
        fmt::format("  {} {} for {}", rank_ranges(ranks, names), ranks.size() == 1 ? "waits" : "wait", whom));
  }
  // `due` adds what these ranks say to the end of the report.
  behind.insert(behind.end(), waiting[Mesh::kNobody].begin(), waiting[Mesh::kNobody].end());
  behind.insert(behind.end(), silent.begin(), silent.end());
  // The first of them are enough to find the cause.
  behind.resize(std::min(behind.size(), kMostAsked));
  told_.insert(behind.begin(), behind.end());
  return lines;
}

/// The reports in the verdict's order, then what ranks said of themselves: one rank may be missing in several reports.
std::optional<StallText> Inquiry::due(SteadyClock::time_point now, const std::vector<std::string>& full_names,
                                      const RankNames& names) {
  if (!under_way() || (answers_.size() < asked_.size() && now < end_)) return std::nullopt;
  StallText text;
  size_t batch = 0;  // answers name batches by their order in the question
  for (const StallReport& report : verdict_.reports) {
    if (report.kind == StallKind::kRunning) {
      const std::vector<std::string> lines = progress_of(report, batch++, names);
      text.lines.insert(text.lines.end(), lines.begin(), lines.end());
      continue;
    }
    text.lines.push_back(describe(report, names));
    // The reason is about the first report that is over its limit, else about the first of all.
    if (text.missing >= 0 && (text.shut_down || !report.over)) continue;
    text.shut_down = report.over;
    text.missing = report.lack.front();
    text.reason = fmt::format("{}; {}", text.lines.back(), answer_of(text.missing, full_names));
  }
  if (verdict_.more > 0) text.lines.push_back(fmt::format("and {} more such groups", verdict_.more));
  for (const int rank : told_) text.lines.push_back("  " + answer_of(rank, full_names));
  if (not_asked_ > 0) text.lines.push_back(fmt::format("  {} more ranks were not asked", not_asked_));
  verdict_ = {};  // not under way any more
  return text;
}

}  // namespace rueda::core
