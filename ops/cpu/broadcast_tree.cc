// Broadcast down a binomial tree, pipelined in chunks. broadcast_tree.h shows the tree and its cost; this is a member's
// work on chunk k, with the memory of four chunks in four slots:
//
//                     chunk k-1          chunk k                     chunk k+1, k+2    chunk k+3
//   from the parent   has arrived        wait until it is here       expected          expect it, in the slot of k-1
//   to each child     wait: has left     send it
//   own tensors       has been unpacked  unpack it, once it is sent
//
// Step k waits until chunk k-1 has left for all children, because chunk k+3 is received in its slot and a channel
// borrows what it sends until then. Three receives are always queued, so the channel writes the next chunks straight to
// their destinations while this member still sends. The root receives nothing: it sends from its tensors.
#include "ops/cpu/broadcast_tree.h"

#include <array>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

/// Long enough that system calls weigh little, short enough that every level of the tree is at work in a long batch.
constexpr uint32_t kTreeChunkBytes = 256 * 1024;
constexpr int64_t kInFlight = 4;

class TreeRun {
 public:
  TreeRun(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        team_(call, mesh, deadline),
        pack_(packing_.cursor()),
        expect_(packing_.cursor()),
        unpack_(packing_.cursor()),
        chunk_bytes_(static_cast<size_t>(std::min(chunks_.length, chunks_.count)) * packing_.element_bytes()),
        scratch_(chunk_bytes_ * static_cast<size_t>(std::min(kInFlight, chunks_.number()))) {
    const int size = team_.size();
    const int distance = (team_.index() - call.root + size) % size;
    // The lowest set bit of the distance leads to the parent, every lower bit to a child; the root has all bits below
    // size.
    int bit = 1;
    while (bit < size && (distance & bit) == 0) bit *= 2;
    if (distance != 0) parent_ = (team_.index() - bit + size) % size;
    for (bit /= 2; bit > 0; bit /= 2) {
      if (distance + bit < size) children_.push_back((team_.index() + bit) % size);
    }
    received_.resize(kInFlight);
    sent_.assign(kInFlight, std::vector<uint64_t>(children_.size()));
  }

  Status run() {
    if (parent_ >= 0) RUEDA_RETURN_IF_ERROR(team_.connect(parent_));
    for (const int child : children_) RUEDA_RETURN_IF_ERROR(team_.connect(child));
    const int64_t number = chunks_.number();
    // One slot stays free for the chunk that each step expects.
    for (int64_t chunk = 0; chunk < std::min(kInFlight - 1, number); ++chunk) expect(chunk);
    for (int64_t chunk = 0; chunk < number; ++chunk) {
      const int64_t coming = chunk + kInFlight - 1;
      RUEDA_RETURN_IF_ERROR(until_sent(coming));
      if (coming < number) expect(coming);
      RUEDA_RETURN_IF_ERROR(pass_on(chunk));
    }
    // The last chunks leave from memory of this run or of the caller: both are theirs again only after this.
    return team_.until([&] {
      for (const int child : children_) {
        if (!team_.peer(child).idle()) return false;
      }
      return true;
    });
  }

 private:
  static size_t slot(int64_t chunk) { return static_cast<size_t>(chunk % kInFlight); }
  std::byte* scratch(int64_t chunk) const { return scratch_.at(slot(chunk) * chunk_bytes_); }
  size_t bytes(int64_t chunk) const { return static_cast<size_t>(chunks_.length_of(chunk)) * packing_.element_bytes(); }

  /// Queues the receive of a chunk. A chunk that lies within one tensor is received in the tensor and passed on from
  /// there: no copy. One that spans tensors goes through its slot of the scratch memory.
  void expect(int64_t chunk) {
    if (parent_ < 0) return;
    const int64_t length = chunks_.length_of(chunk);
    std::byte* tensor = expect_.stretch(length).out;
    expect_.skip(length);
    std::byte* into = tensor != nullptr ? tensor : scratch(chunk);
    here_[slot(chunk)] = into;
    received_[slot(chunk)] = team_.peer(parent_).receive({into, bytes(chunk)});
  }

  /// The root's bytes of a chunk: in its tensor if one tensor has all of them, else packed into the slot.
  const std::byte* own(int64_t chunk) {
    const int64_t length = chunks_.length_of(chunk);
    const std::byte* tensor = pack_.stretch(length).in;
    if (tensor != nullptr) {
      pack_.skip(length);
      return tensor;
    }
    packing_.pack(pack_, length, scratch(chunk), StoreHint::kPlain);
    return scratch(chunk);
  }

  /// Waits until the slot of `chunk` holds nothing that still has to leave for a child.
  Status until_sent(int64_t chunk) {
    const std::vector<uint64_t>& marks = sent_[slot(chunk)];
    return team_.until([&] {
      for (size_t i = 0; i < children_.size(); ++i) {
        if (!team_.peer(children_[i]).sent(marks[i])) return false;
      }
      return true;
    });
  }

  Status pass_on(int64_t chunk) {
    const int64_t length = chunks_.length_of(chunk);
    const std::byte*& here = here_[slot(chunk)];
    if (parent_ < 0) {
      here = own(chunk);
    } else {
      RUEDA_RETURN_IF_ERROR(team_.until([&] { return team_.peer(parent_).received(received_[slot(chunk)]); }));
    }
    // Children first, own tensors second: the subtrees wait for these bytes, and the copy runs while they move.
    for (size_t i = 0; i < children_.size(); ++i)
      sent_[slot(chunk)][i] = team_.peer(children_[i]).send({here, bytes(chunk)});
    if (unpack_.stretch(length).out == here) {
      unpack_.skip(length);
    } else {
      packing_.unpack(unpack_, length, here);
    }
    return {};
  }

  Packing packing_;
  Chunks chunks_;
  ChannelTeam team_;
  SliceCursor pack_, expect_, unpack_;
  size_t chunk_bytes_;
  Scratch scratch_;
  std::array<const std::byte*, kInFlight> here_{};  // the chunk of each slot
  int parent_ = -1;                                 // -1: the root
  std::vector<int> children_;                       // the one with the largest subtree first
  std::vector<uint64_t> received_;                  // marks, by slot
  std::vector<std::vector<uint64_t>> sent_;         // marks, by slot and child
};

}  // namespace

bool broadcast_tree_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice broadcast_tree_plan(const BatchShape& shape) { return plan_chunks(wire_bytes(shape), kTreeChunkBytes); }

Status broadcast_tree(const Call& call, Mesh& mesh, Deadline deadline) { return TreeRun(call, mesh, deadline).run(); }

}  // namespace rueda::core
