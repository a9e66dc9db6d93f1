// The wire format that messages.h draws: metadata, lists of operations and ranks, failures, and the queue of frames.
//
// A getter checks every value against its limit and fails its reader instead of returning something odd, so callers
// look at `reader.ok()` once, before they use what they read. Lists are run-length coded: a training step proposes the
// same ids in the same order, and a run of them takes two or three bytes however long it is. All values of a record are
// written in the same order as they are read; put_ and get_ functions stand side by side for that reason.
//
// Ids 7, 8, 9 and 12, proposed with their home metadata at the start of a link, are three varints of one byte each:
//
//   zigzag(7) << 2 | 1     an id 7 past 0, and a number of ids that follow it
//   2                      two follow: 8 and 9
//   zigzag(2) << 2 | 0     an id 2 past the next one, 10: 12, alone
#include "runtime/agreement/messages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/agreement/metadata_table.h"

namespace rueda::core {
namespace {

/// Bits of the byte that says which fields of metadata follow.
constexpr uint8_t kHasPrescale = 1;
constexpr uint8_t kHasPostscale = 2;
constexpr uint8_t kHasGroup = 4;
constexpr uint8_t kOverContributors = 8;
constexpr uint8_t kHasOrder = 16;
constexpr uint8_t kInSharedMemory = 32;

/// Bits beside the stores in a choice's last byte. kHasSlots, kHasSockets, kIsTrial: the number of slots, the number of
/// sockets, the number of the trial follow, in this order.
constexpr uint8_t kIsTrial = 4;
constexpr uint8_t kOnEngine = 8;
constexpr uint8_t kSleeps = 16;
constexpr uint8_t kHasSlots = 32;
constexpr uint8_t kHasSockets = 64;

template <typename Enum>
Enum get_enum(WireReader& reader, Enum last) {
  const uint8_t value = reader.u8();
  if (value > static_cast<uint8_t>(last)) reader.fail();
  return reader.ok() ? static_cast<Enum>(value) : Enum{};
}

int32_t get_signed(WireReader& reader) {
  const auto value = static_cast<int64_t>(unzigzag(reader.varint()));
  if (value < INT32_MIN || value > INT32_MAX) reader.fail();
  return reader.ok() ? static_cast<int32_t>(value) : 0;
}

/// Returns false if the tensor has a negative dimension or more bytes than the wire's limit. The product of
/// hostile dimensions may overflow, and counts as too much then. With a dimension of 0 the others are still bounded.
bool size_fits(const Metadata& metadata) {
  uint64_t bytes = size_of(metadata.dtype);
  const bool empty = std::find(metadata.shape.begin(), metadata.shape.end(), 0) != metadata.shape.end();
  for (const int64_t dimension : metadata.shape) {
    if (dimension < 0) return false;
    const auto factor = empty ? 1 : static_cast<uint64_t>(dimension);
    if (static_cast<uint64_t>(dimension) > kMaxTensorBytes) return false;
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > kMaxTensorBytes) return false;
  }
  return true;
}

/// Returns false if there are more dimensions than the limit, or an opaque tensor does not say its element's bytes.
bool dimensions_fit(const Metadata& metadata) {
  const bool sized = metadata.dtype != Dtype::kOpaque || (!metadata.shape.empty() && metadata.shape.back() > 0);
  return sized && metadata.dimensions().size() <= kMaxDims;
}

/// Returns whether the order names each dimension once, or is empty.
bool orders_dimensions(const Metadata& metadata) {
  if (metadata.order.empty()) return true;
  const size_t count = metadata.dimensions().size();
  std::vector<char> seen(count);
  for (const uint8_t dimension : metadata.order) {
    if (dimension >= count || std::exchange(seen[dimension], char{1}) != 0) return false;
  }
  return metadata.order.size() == count;
}

}  // namespace

void put_metadata(WireWriter& writer, const Metadata& metadata) {
  writer.u8(static_cast<uint8_t>(metadata.kind));
  writer.u8(static_cast<uint8_t>(metadata.dtype));
  writer.u8(static_cast<uint8_t>(metadata.op));
  writer.u8(static_cast<uint8_t>(metadata.codec));
  writer.varint(zigzag(static_cast<uint64_t>(static_cast<int64_t>(metadata.device))));
  writer.varint(zigzag(static_cast<uint64_t>(static_cast<int64_t>(metadata.root))));
  const bool grouped = metadata.group_size != 0 || metadata.group_hash != 0;
  // Usual values take no bytes: one byte of flags says which fields follow.
  writer.u8(static_cast<uint8_t>(
      (metadata.prescale != 1.0 ? kHasPrescale : 0) | (metadata.postscale != 1.0 ? kHasPostscale : 0) |
      (grouped ? kHasGroup : 0) | (metadata.over == AverageOver::kContributors ? kOverContributors : 0) |
      (!metadata.order.empty() ? kHasOrder : 0) | (metadata.memory == MemoryKind::kShared ? kInSharedMemory : 0)));
  if (metadata.prescale != 1.0) writer.f64(metadata.prescale);
  if (metadata.postscale != 1.0) writer.f64(metadata.postscale);
  if (grouped) {
    writer.u64(metadata.group_hash);
    writer.varint(metadata.group_size);
  }
  writer.varint(metadata.shape.size());
  for (const int64_t dimension : metadata.shape) writer.varint(static_cast<uint64_t>(dimension));
  for (const uint8_t dimension : metadata.order) writer.u8(dimension);
}

Metadata get_metadata(WireReader& reader) {
  Metadata metadata;
  metadata.kind = get_enum(reader, static_cast<OpKind>(kOpKindCount - 1));
  metadata.dtype = get_enum(reader, Dtype::kOpaque);
  metadata.op = get_enum(reader, ReduceOp::kBxor);
  metadata.codec = get_enum(reader, CodecId::kBf16);
  metadata.device = get_signed(reader);
  metadata.root = get_signed(reader);
  const uint8_t has = reader.u8();
  if (has > (kHasPrescale | kHasPostscale | kHasGroup | kOverContributors | kHasOrder | kInSharedMemory)) reader.fail();
  if ((has & kOverContributors) != 0) metadata.over = AverageOver::kContributors;
  if ((has & kInSharedMemory) != 0) metadata.memory = MemoryKind::kShared;
  if ((has & kHasPrescale) != 0) metadata.prescale = reader.f64();
  if ((has & kHasPostscale) != 0) metadata.postscale = reader.f64();
  // A NaN equals nothing, itself included, so ranks that sent the same would differ for ever.
  if (std::isnan(metadata.prescale) || std::isnan(metadata.postscale)) reader.fail();
  if ((has & kHasGroup) != 0) {
    metadata.group_hash = reader.u64();
    metadata.group_size = static_cast<uint32_t>(reader.varint(kMaxGroupSize));
  }
  // One more than a caller may give: opaque tensors carry an element's bytes as the last one.
  metadata.shape.resize(reader.varint(kMaxDims + 1));
  for (int64_t& dimension : metadata.shape) dimension = static_cast<int64_t>(reader.varint(kMaxTensorBytes));
  if (!dimensions_fit(metadata) || !size_fits(metadata)) reader.fail();
  if ((has & kHasOrder) == 0 || !reader.ok()) return metadata;
  metadata.order.resize(metadata.dimensions().size());
  for (uint8_t& dimension : metadata.order) dimension = reader.u8();
  if (metadata.order.empty() || !orders_dimensions(metadata)) reader.fail();
  return metadata;
}

/// The same limits as `get_metadata`, as sentences for the caller on this rank: what passes here is never refused
/// there.
std::string why_not_valid(const Request& request) {
  const Metadata& metadata = request.metadata;
  if (request.name.size() > kMaxNameBytes) {
    return "a name of " + std::to_string(request.name.size()) + " bytes exceeds the limit of " +
           std::to_string(kMaxNameBytes);
  }
  if (metadata.dimensions().size() > kMaxDims) {
    return "a tensor of " + std::to_string(metadata.dimensions().size()) + " dimensions exceeds the limit of " +
           std::to_string(kMaxDims);
  }
  if (!dimensions_fit(metadata)) return "an opaque tensor does not say how many bytes an element has";
  if (!size_fits(metadata)) return "a tensor's dimensions must not be negative, and its size at most 2^47 bytes";
  if (!orders_dimensions(metadata)) return "the order in memory does not name each dimension once";
  if (std::isnan(metadata.prescale) || std::isnan(metadata.postscale)) return "a scale factor is not a number";
  return {};
}

/// A sentence that lists thousands of ranks must not make a record that its reader refuses.
std::string bounded_sentence(std::string sentence) {
  if (sentence.size() > kMaxSentenceBytes) {
    sentence.resize(kMaxSentenceBytes - 3);
    sentence += "...";
  }
  return sentence;
}

/// Ids are steps from one past the last id, zigzag coded because groups may go back. The two low bits say what follows:
/// a number of further ids in a row, or the occurrence's distance from the oldest without a verdict.
void put_operations(WireWriter& writer, const std::vector<OperationRef>& operations) {
  writer.varint(operations.size());
  uint64_t next = 0;
  for (size_t i = 0; i < operations.size();) {
    const OperationRef first = operations[i];
    // A run of occurrences that are each the oldest without a verdict: ids that follow each other, `ahead` 0.
    const uint64_t step = zigzag(first.id - next) << 2;
    size_t end = i + 1;
    if (first.ahead == 0) {
      while (end < operations.size() && operations[end].ahead == 0 && operations[end].id == first.id + (end - i)) ++end;
    }
    const uint64_t more = end - i - 1;
    writer.varint(step | (first.ahead != 0 ? 2 : more != 0 ? 1 : 0));
    if (first.ahead != 0) writer.varint(first.ahead);
    if (more != 0) writer.varint(more);
    next = first.id + more + 1;
    i = end;
  }
}

void get_operations(WireReader& reader, std::vector<OperationRef>& operations) {
  const uint64_t count = reader.varint(kMaxRequests);
  uint64_t next = 0;
  for (uint64_t got = 0; got < count && reader.ok();) {
    const uint64_t word = reader.varint();
    const uint64_t tag = word & 3;
    uint64_t id = next + unzigzag(word >> 2);
    const uint64_t ahead = tag == 2 ? reader.varint() : 0;
    const uint64_t more = tag == 1 ? reader.varint(kMaxRequests) : 0;
    // Never more than was announced: a short frame must not make a long list.
    if (tag == 3 || more >= count - got) reader.fail();
    if (!reader.ok()) return;
    got += more + 1;
    next = id + more + 1;
    for (; id != next; ++id) operations.push_back({id, ahead});
  }
}

/// Ranges, because a set is usually a run of ranks or a few: 4,096 ranks take four bytes. The number of ranges comes
/// first but is known last, so the ranges are written aside.
void put_ranks(WireWriter& writer, const std::vector<int>& ranks) {
  WireWriter ranges;
  uint64_t count = 0;
  int next = 0;
  for (size_t i = 0; i < ranks.size(); ++count) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.varint(static_cast<uint64_t>(ranks[i] - next));
    ranges.varint(end - i - 1);
    next = ranks[end - 1] + 1;
    i = end;
  }
  writer.varint(count);
  writer.raw(ranges.view());
}

std::vector<int> get_ranks(WireReader& reader, int size) {
  std::vector<int> ranks;
  int next = 0;
  for (size_t left = reader.count(2); left != 0 && reader.ok(); --left) {
    // Each range must end below `size`, so a frame of few bytes cannot name more ranks than there are.
    const auto room = static_cast<uint64_t>(size - next);
    const uint64_t gap = reader.varint(room);
    const uint64_t more = reader.varint(room);
    if (gap + more >= room) reader.fail();
    for (uint64_t i = 0; i <= more && reader.ok(); ++i) ranks.push_back(next + static_cast<int>(gap + i));
    if (reader.ok()) next = ranks.back() + 1;
  }
  if (ranks.empty()) reader.fail();
  return ranks;
}

/// Nearly every choice says nothing of stores, slots, trials and engines, and takes one byte for all.
void put_choice(WireWriter& writer, const AlgorithmChoice& choice) {
  writer.u8(choice.algorithm);
  writer.varint(choice.chunk_bytes);
  writer.varint(choice.stamps);
  writer.u8(static_cast<uint8_t>(static_cast<uint8_t>(choice.stores) | (choice.trial != 0 ? kIsTrial : 0) |
                                 (choice.on_engine ? kOnEngine : 0) | (choice.sleeps ? kSleeps : 0) |
                                 (choice.lane_slots != 0 ? kHasSlots : 0) | (choice.sockets != 0 ? kHasSockets : 0)));
  if (choice.lane_slots != 0) writer.u8(choice.lane_slots);
  if (choice.sockets != 0) writer.u8(choice.sockets);
  if (choice.trial != 0) writer.varint(choice.trial);
}

AlgorithmChoice get_choice(WireReader& reader) {
  AlgorithmChoice choice;
  choice.algorithm = reader.u8();
  choice.chunk_bytes = static_cast<uint32_t>(reader.varint(UINT32_MAX));
  choice.stamps = reader.varint();
  const uint8_t how = reader.u8();
  const auto stores = static_cast<uint8_t>(how & ~(kIsTrial | kOnEngine | kSleeps | kHasSlots | kHasSockets));
  choice.on_engine = (how & kOnEngine) != 0;
  choice.sleeps = (how & kSleeps) != 0;
  if (stores > static_cast<uint8_t>(Stores::kNonTemporal)) reader.fail();
  if ((how & kHasSlots) != 0) {
    choice.lane_slots = reader.u8();
    if (choice.lane_slots == 0) reader.fail();
  }
  if ((how & kHasSockets) != 0) {
    choice.sockets = reader.u8();
    if (choice.sockets < 2 || choice.sockets > kMostChosenSockets) reader.fail();
  }
  if ((how & kIsTrial) != 0) {
    choice.trial = reader.varint();
    if (choice.trial == 0) reader.fail();
  }
  if (reader.ok()) choice.stores = static_cast<Stores>(stores);
  return choice;
}

void put_trial_time(WireWriter& writer, const TrialTime& time) {
  writer.varint(time.trial);
  const auto took = std::clamp(time.took, std::chrono::nanoseconds(0), kMaxTrialTime);
  writer.varint(static_cast<uint64_t>(took.count()));
  writer.u8(static_cast<uint8_t>(time.distance));
}

TrialTime get_trial_time(WireReader& reader) {
  TrialTime time;
  time.trial = reader.varint();
  time.took = std::chrono::nanoseconds(reader.varint(static_cast<uint64_t>(kMaxTrialTime.count())));
  time.distance = get_enum(reader, Distance::kFar);
  return time;
}

/// The rank is written plus one, so that -1, "no rank", needs no sign.
void put_failure(WireWriter& writer, const Status& why) {
  writer.u8(static_cast<uint8_t>(why.code()));
  writer.varint(static_cast<uint64_t>(why.rank()) + 1);
  writer.text(bounded_sentence(why.sentence()));
}

Status get_failure(WireReader& reader, int size) {
  const auto code = static_cast<Code>(reader.u8());
  const auto rank = static_cast<int>(reader.varint(static_cast<uint64_t>(size))) - 1;
  std::string sentence = reader.text(kMaxSentenceBytes);
  if (code == Code::kOk || code > Code::kUnsupported) reader.fail();
  return reader.ok() ? Status(code, std::move(sentence), rank) : Status();
}

/// Closes the current frame if the record might not fit in it. Records are never cut in two, so a reader needs no state
/// between frames.
WireWriter& FrameQueue::reserve(size_t bytes, size_t requests) {
  if (current_.size() + bytes > kMaxFrameBytes || requests_ + requests > kMaxRequests) {
    full_.push_back(current_.take());
    requests_ = 0;
  }
  if (current_.empty()) {
    current_.reserve(64);
    current_.varint(epoch_);
  }
  requests_ += requests;
  return current_;
}

/// Full frames first: they are older than the current one.
std::vector<std::byte> FrameQueue::take() {
  if (!full_.empty()) {
    std::vector<std::byte> frame = std::move(full_.front());
    full_.pop_front();
    return frame;
  }
  requests_ = 0;
  return current_.take();
}

void ProposalWriter::step(WireWriter& writer, uint64_t id, uint64_t tag) {
  writer.varint(zigzag(id - next_id_) << 2 | tag);
  next_id_ = id + 1;
}

/// Writes the run of ids that was collected. Every other record ends the run first, because the order of records is the
/// order of a rank's proposals.
void ProposalWriter::end_run() {
  if (run_count_ == 0) return;
  WireWriter& writer = frames_.reserve(kMaxRecordBytes, run_count_);
  step(writer, run_first_, run_count_ > 1 ? 1 : 0);
  if (run_count_ > 1) writer.varint(run_count_ - 1);
  next_id_ = run_first_ + run_count_;
  run_count_ = 0;
}

/// Extends the run, or begins one. A run is written when something ends it: one id costs nothing until then.
void ProposalWriter::cached(uint64_t id) {
  if (run_count_ != 0 && id == run_first_ + run_count_ && run_count_ < kMaxRequests) {
    ++run_count_;
    return;
  }
  end_run();
  run_first_ = id;
  run_count_ = 1;
}

void ProposalWriter::cached(uint64_t id, uint32_t number, const Metadata& metadata) {
  end_run();
  WireWriter& writer = frames_.reserve(kMaxRecordBytes, 1);
  step(writer, id, 2);
  writer.varint(number == kNoMetadata ? 0 : uint64_t{number} + 1);
  if (number == kNoMetadata) put_metadata(writer, metadata);
}

void ProposalWriter::full(SetId set, std::string_view name, const Metadata& metadata) {
  end_run();
  WireWriter& writer = frames_.reserve(kMaxRecordBytes, 1);
  writer.varint((uint64_t{set} << 4 | static_cast<uint64_t>(ProposalKind::kFull)) << 2 | 3);
  writer.text(name);
  put_metadata(writer, metadata);
}

/// The set and the kind share one number with the tag, so a record of the global set begins with one byte.
WireWriter& ProposalWriter::record(SetId set, ProposalKind kind, size_t bytes) {
  end_run();
  WireWriter& writer = frames_.reserve(bytes, 0);
  writer.varint((uint64_t{set} << 4 | static_cast<uint64_t>(kind)) << 2 | 3);
  return writer;
}

std::vector<std::byte> ProposalWriter::take() {
  end_run();
  return frames_.take();
}

}  // namespace rueda::core
