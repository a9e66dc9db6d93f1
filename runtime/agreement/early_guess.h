#pragma once
#include <cstdint>

#include "runtime/agreement/agreement.h"

namespace rueda::core {

/// Which batch a rank expects its tensor in, if that is the rank's only one in agreement: the next one. The rank may
/// show the tensor's input to its peers under this stamp and the tensor's key. If a batch of one tensor comes with
/// both, what was shown is the input to it; if not, it means nothing.
///
/// A guess can come true only while its stamp lies ahead. So the input that a rank shows for a stamp has to be the last
/// one that it proposed under that key: a batch passes the stamp, and an error takes the input back before the rank can
/// propose the key again. A rank that has joined proposes nothing, so batches without its contribution have no key.
/// Used by the holder of the baton.
class EarlyGuess {
 public:
  /// Returns the stamp for the tensor with this ticket, which the rank shows now.
  uint64_t show(uint64_t ticket) {
    shown_ = ticket;
    return stamp_;
  }
  /// A batch of any set.
  void take(const BatchEvent& batch) {
    shown_ = kNoTicket;
    stamp_ = batch.stamp + batch.choice.stamps;
  }
  /// The operation with this ticket has failed. Returns true if its input is shown for a batch that may still come: the
  /// rank must take it back now.
  bool fail(uint64_t ticket) {
    if (ticket == kNoTicket || shown_ != ticket) return false;
    shown_ = kNoTicket;
    return true;
  }
  /// What `show` returned last, until the next batch.
  uint64_t stamp() const { return stamp_; }

 private:
  uint64_t stamp_ = 0;
  uint64_t shown_ = kNoTicket;
};

}  // namespace rueda::core
