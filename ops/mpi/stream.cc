// Bytes to and from one rank as MPI messages. The two sides need not cut alike:
//
//   sender    send(100 bytes) ─▶ message of 100 ─┐
//             send(20)        ─▶ message of 20   │         one message a span; several of at most 1 GiB if it is longer
//   receiver  receive(30), receive(90)           │
//             message of 100 > first span 30 ◀───┘ ─▶ spill ─copy─▶ 30 | 70 of 90
//             message of 20 fits the rest of 90    ─▶ straight into it
//
// A message that fits the first span goes straight into it: both sides of an algorithm mostly cut alike. Another one
// goes through memory of ours once the transfers before it are through, since bytes must arrive in order.
#include "ops/mpi/stream.h"

#include <algorithm>
#include <cstring>

namespace rueda::mpi {
namespace {

/// The longest message: MPI counts in int.
constexpr size_t kMostMessageBytes = size_t{1} << 30;
/// Transfers under way in one direction; more only make MPI's own lists longer.
constexpr size_t kMostTransfers = 8;

}  // namespace

Status Stream::move(Progress& progress) {
  RUEDA_RETURN_IF_ERROR(start_sends(progress));
  RUEDA_RETURN_IF_ERROR(end_transfers(sending_, progress.sent));
  RUEDA_RETURN_IF_ERROR(end_transfers(arriving_, progress.received));
  // The spill before new receives: it fills the spans that they would take.
  RUEDA_RETURN_IF_ERROR(end_spill(progress));
  return start_receives(progress);
}

/// Starts what MPI may have under way. A span longer than a message becomes several.
Status Stream::start_sends(Progress& progress) {
  while (!to_send_.empty() && sending_.size() < kMostTransfers) {
    auto& first = to_send_.front();
    const size_t bytes = std::min(first.size(), kMostMessageBytes);
    Transfer& transfer = sending_.emplace_back();
    transfer.bytes = bytes;
    RUEDA_RETURN_IF_ERROR(
        checked(MPI_Isend(first.data(), static_cast<int>(bytes), MPI_BYTE, rank_, tag_, comm_, &transfer.request),
                "MPI_Isend"));
    first = first.subspan(bytes);
    if (first.empty()) to_send_.pop_front();
    progress.started = true;
  }
  return {};
}

/// In the order of their start, so that a count of bytes says which have come through.
Status Stream::end_transfers(std::deque<Transfer>& transfers, uint64_t& bytes) {
  while (!transfers.empty()) {
    int done = 0;
    RUEDA_RETURN_IF_ERROR(checked(MPI_Test(&transfers.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done == 0) return {};
    bytes += transfers.front().bytes;
    transfers.pop_front();
  }
  return {};
}

/// Takes the next message out of MPI's queue, which says how long it is before there must be memory for it.
Status Stream::look_for_message() {
  if (message_ != MPI_MESSAGE_NULL) return {};
  int there = 0, bytes = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  RUEDA_RETURN_IF_ERROR(checked(MPI_Improbe(rank_, tag_, comm_, &there, &message, &status), "MPI_Improbe"));
  if (there == 0) return {};
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  message_ = message;
  message_bytes_ = static_cast<size_t>(bytes);
  return {};
}

Status Stream::start_receives(Progress& progress) {
  while (!to_fill_.empty() && arriving_.size() < kMostTransfers && spill_.empty()) {
    RUEDA_RETURN_IF_ERROR(look_for_message());
    if (message_ == MPI_MESSAGE_NULL) return {};
    auto& first = to_fill_.front();
    // Too long for the span: it waits until earlier transfers have filled theirs.
    if (message_bytes_ > first.size()) return arriving_.empty() ? receive_spill() : Status();
    Transfer& transfer = arriving_.emplace_back();
    transfer.bytes = message_bytes_;
    RUEDA_RETURN_IF_ERROR(
        checked(MPI_Imrecv(first.data(), static_cast<int>(message_bytes_), MPI_BYTE, &message_, &transfer.request),
                "MPI_Imrecv"));
    first = first.subspan(message_bytes_);
    if (first.empty()) to_fill_.pop_front();
    progress.started = true;
  }
  return {};
}

Status Stream::receive_spill() {
  spill_.resize(message_bytes_);
  delivered_ = 0;
  return checked(MPI_Imrecv(spill_.data(), static_cast<int>(message_bytes_), MPI_BYTE, &message_, &spill_request_),
                 "MPI_Imrecv");
}

Status Stream::end_spill(Progress& progress) {
  if (spill_.empty()) return {};
  if (spill_request_ != MPI_REQUEST_NULL) {
    int done = 0;
    RUEDA_RETURN_IF_ERROR(checked(MPI_Test(&spill_request_, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done == 0) return {};
  }
  deliver_spill(progress);
  return {};
}

/// Copies as far as there are spans; the rest waits for the next `receive`.
void Stream::deliver_spill(Progress& progress) {
  while (!to_fill_.empty() && delivered_ < spill_.size()) {
    auto& first = to_fill_.front();
    const size_t bytes = std::min(first.size(), spill_.size() - delivered_);
    std::memcpy(first.data(), spill_.data() + delivered_, bytes);
    delivered_ += bytes;
    progress.received += bytes;
    first = first.subspan(bytes);
    if (first.empty()) to_fill_.pop_front();
  }
  if (delivered_ == spill_.size()) spill_.clear();
}

}  // namespace rueda::mpi
