#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/agreement/request.h"
#include "runtime/base/frame.h"
#include "runtime/base/wire.h"

namespace rueda::core {

/// The frames of agreement. All numbers are varints unless noted; every frame begins with the epoch.
///
///   proposal frame  epoch { word rest }            word = payload * 4 + tag
///     tag 0  payload: id step                      the id's next occurrence, with its home metadata
///     tag 1  payload: id step; more                this id and the `more` that follow it, likewise
///     tag 2  payload: id step; number + 1          with other metadata; 0: in full behind it
///     tag 3  payload: set * 16 + ProposalKind      see there
///   verdict frame   epoch { VerdictKind (u8) rest }   see there
///   operations      count { word rest }            as tags 0 to 2; tag 2 is followed by the occurrence
///   ranks           ranges { gap more }            ascending; gap: from one past the last; `more` follow the first
///   failure         code (u8) rank + 1 sentence
///   choice          algorithm (u8) chunk bytes, stamps, how (u8) { slots (u8) } { sockets (u8) } { trial }
///                   how: stores, + 8 if on a device's engine, + 16 if members sleep; + 32, 64, 4 if what stands in
///                   braces follows
///   asking          name ranks number              number: kMakeSet of this name and ranks before, of each member
///
/// An id step is the zigzag difference to one past the last id, on that link (proposals) or in that list (verdicts).
/// A proposal carries no occurrence: links keep order, so both ends count. In a verdict an occurrence is counted from
/// the id's oldest without a verdict, which every member knows.

inline constexpr size_t kMaxRequests = 65536;  ///< of one frame, and of one list of operations
inline constexpr size_t kMaxNameBytes = 1024;
inline constexpr size_t kMaxSentenceBytes = 4096;
inline constexpr uint64_t kMaxTensorBytes = 1ull << 47;
inline constexpr std::chrono::nanoseconds kMaxTrialTime{std::chrono::hours(24)};
inline constexpr uint8_t kMostChosenSockets = 16;
inline constexpr uint32_t kMaxGroupSize = 1u << 20;
inline constexpr size_t kMaxMetadata = 65536;  ///< numbered metadata of one set
/// More than any record but a list of operations takes.
inline constexpr size_t kMaxRecordBytes = 8192;
/// An audience and a length, in an addressed frame: see `Relay`.
inline constexpr size_t kMaxAudienceBytes = 24;

enum class ProposalKind : uint8_t {
  kFull = 0,        ///< name, metadata: no id is known yet
  kCredit = 1,      ///< how many more batches of the set have started
  kEvictions = 2,   ///< how many more evictions of the set this rank has seen
  kAbandonId = 3,   ///< id, age, sentence; age: how often this rank has proposed the key since
  kAbandonKey = 4,  ///< op kind (u8), name, age, sentence
  kGoodbye = 5,
  kMakeSet = 6,     ///< (set 0) name, ranks
  kJoin = 9,        ///< this rank proposes nothing to the set until all members have joined
  kRemoveSet = 7,   ///< this rank uses the set no more
  kGiveUpSet = 8,   ///< (set 0) asking, failure
  kProbe = 10,      ///< (set 0) number, name, ranks: which of these has an unreceived send of the name to this rank?
  kDropProbe = 11,  ///< (set 0) number
  kTimed = 12,      ///< trial, nanoseconds, distance (u8): how long a batch took, from the set's lowest member
};

enum class VerdictKind : uint8_t {
  kAssign = 1,  ///< set, id, name, op kind (u8, unnamed only), home metadata + 1 (0: none)
  kDefine = 2,  ///< set, metadata: it gets the set's next number
  /// set, stamp, choice, contributors (0: all members), metadata + 1 (0: in full behind it), operations; if not all
  /// contribute, the elements of each operation, and in a reduce-scatter those of its rows
  kBatch = 3,
  kError = 4,       ///< more (u8; 1: the next one is of the same failure), failure, operations
  kEvict = 5,       ///< set, operations (only the ids count)
  kGoodbye = 6,     ///< rank
  kSet = 7,         ///< id, asking
  kNoSet = 8,       ///< asking, failure: it will never be
  kEndSet = 9,      ///< set, failure: what needs it fails from here on
  kJoinEnd = 11,    ///< set, the rank that joined last
  kForgetSet = 10,  ///< set: all members have removed it
  kProbed = 12,     ///< number of the probe, rank: it has
};

/// An operation in a list: its id, and its occurrence counted from the oldest without a verdict.
struct OperationRef {
  uint64_t id = 0;
  uint64_t ahead = 0;
};

void put_metadata(WireWriter& writer, const Metadata& metadata);
/// Fails the reader on values that no rank can have sent: unknown enumerators, too many dimensions, too large a tensor.
Metadata get_metadata(WireReader& reader);
/// Returns empty if agreement can carry this request, else the sentence that says why not.
std::string why_not_valid(const Request& request);
/// Returns `sentence`, cut to kMaxSentenceBytes.
std::string bounded_sentence(std::string sentence);

void put_operations(WireWriter& writer, const std::vector<OperationRef>& operations);
/// Appends to `operations`. Fails the reader if there are more than kMaxRequests.
void get_operations(WireReader& reader, std::vector<OperationRef>& operations);

/// `ranks` ascending.
void put_ranks(WireWriter& writer, const std::vector<int>& ranks);
/// Fails the reader unless there is at least one rank and all are below `size`.
std::vector<int> get_ranks(WireReader& reader, int size);
void put_choice(WireWriter& writer, const AlgorithmChoice& choice);
/// Fails the reader on unknown stores, an unknown bit, no slots, sockets below 2 or above kMostChosenSockets, or trial
/// number 0.
AlgorithmChoice get_choice(WireReader& reader);
void put_trial_time(WireWriter& writer, const TrialTime& time);
/// Fails the reader on an unknown distance, or a time of more than kMaxTrialTime.
TrialTime get_trial_time(WireReader& reader);
void put_failure(WireWriter& writer, const Status& why);
/// Fails the reader on an unknown code or an ok one.
Status get_failure(WireReader& reader, int size);

inline uint64_t zigzag(uint64_t difference) { return (difference << 1) ^ (difference >> 63 != 0 ? UINT64_MAX : 0); }
inline uint64_t unzigzag(uint64_t value) { return (value >> 1) ^ ((value & 1) != 0 ? UINT64_MAX : 0); }

/// Frames on their way out of a machine, each at most kMaxFrameBytes with kMaxRequests operations. Owned by the
/// machine.
class FrameQueue {
 public:
  explicit FrameQueue(uint64_t epoch) : epoch_(epoch) {}
  /// Returns the writer of a frame that has room for one record of `bytes` with `requests` operations. Valid until the
  /// next call.
  WireWriter& reserve(size_t bytes, size_t requests);
  /// Returns the oldest frame; empty if there is none.
  std::vector<std::byte> take();
  bool empty() const { return full_.empty() && current_.empty(); }

 private:
  uint64_t epoch_;
  std::deque<std::vector<std::byte>> full_;
  WireWriter current_;
  size_t requests_ = 0;
};

/// A participant's side of the proposal frame: ids that follow each other become one run.
class ProposalWriter {
 public:
  explicit ProposalWriter(uint64_t epoch) : frames_(epoch) {}
  /// The next occurrence of `id` with its home metadata.
  void cached(uint64_t id);
  /// The same with metadata number `number`, or with `metadata` in full if `number` is kNoMetadata.
  void cached(uint64_t id, uint32_t number, const Metadata& metadata);
  void full(SetId set, std::string_view name, const Metadata& metadata);
  /// Begins another record; the caller writes the rest, at most `bytes`.
  WireWriter& record(SetId set, ProposalKind kind, size_t bytes = kMaxRecordBytes);
  std::vector<std::byte> take();
  bool empty() const { return run_count_ == 0 && frames_.empty(); }

 private:
  void end_run();
  void step(WireWriter& writer, uint64_t id, uint64_t tag);
  FrameQueue frames_;
  uint64_t run_first_ = 0;
  uint64_t run_count_ = 0;
  uint64_t next_id_ = 0;
};

}  // namespace rueda::core
