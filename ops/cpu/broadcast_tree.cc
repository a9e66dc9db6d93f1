#include "ops/cpu/broadcast_tree.h"

#include <array>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

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
    // One place is always free for the chunk that comes next.
    for (int64_t chunk = 0; chunk < std::min(kInFlight - 1, number); ++chunk) expect(chunk);
    for (int64_t chunk = 0; chunk < number; ++chunk) {
      const int64_t coming = chunk + kInFlight - 1;
      RUEDA_RETURN_IF_ERROR(until_sent(coming));
      if (coming < number) expect(coming);
      RUEDA_RETURN_IF_ERROR(pass_on(chunk));
    }
    return team_.until([&] {
      for (const int child : children_) {
        if (!team_.peer(child).idle()) return false;
      }
      return true;
    });
  }

 private:
  static size_t place(int64_t chunk) { return static_cast<size_t>(chunk % kInFlight); }
  std::byte* scratch(int64_t chunk) const { return scratch_.at(place(chunk) * chunk_bytes_); }
  size_t bytes(int64_t chunk) const { return static_cast<size_t>(chunks_.length_of(chunk)) * packing_.element_bytes(); }

  /// A chunk within one tensor is received there, and passed on from there.
  void expect(int64_t chunk) {
    if (parent_ < 0) return;
    const int64_t length = chunks_.length_of(chunk);
    std::byte* tensor = expect_.stretch(length).out;
    expect_.skip(length);
    std::byte* into = tensor != nullptr ? tensor : scratch(chunk);
    here_[place(chunk)] = into;
    received_[place(chunk)] = team_.peer(parent_).receive({into, bytes(chunk)});
  }

  /// The root's own, from where its tensor has it in one piece.
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

  /// The place of `chunk` holds nothing that a child still waits for.
  Status until_sent(int64_t chunk) {
    const std::vector<uint64_t>& marks = sent_[place(chunk)];
    return team_.until([&] {
      for (size_t i = 0; i < children_.size(); ++i) {
        if (!team_.peer(children_[i]).sent(marks[i])) return false;
      }
      return true;
    });
  }

  Status pass_on(int64_t chunk) {
    const int64_t length = chunks_.length_of(chunk);
    const std::byte*& here = here_[place(chunk)];
    if (parent_ < 0) {
      here = own(chunk);
    } else {
      RUEDA_RETURN_IF_ERROR(team_.until([&] { return team_.peer(parent_).received(received_[place(chunk)]); }));
    }
    for (size_t i = 0; i < children_.size(); ++i)
      sent_[place(chunk)][i] = team_.peer(children_[i]).send({here, bytes(chunk)});
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
  std::array<const std::byte*, kInFlight> here_{};  // the chunk of each place
  int parent_ = -1;                                 // -1: the root
  std::vector<int> children_;                       // the one with the largest subtree first
  std::vector<uint64_t> received_;                  // marks, by place
  std::vector<std::vector<uint64_t>> sent_;         // marks, by place and child
};

}  // namespace

bool broadcast_tree_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice broadcast_tree_plan(const BatchShape& shape) { return plan_chunks(wire_bytes(shape), kTreeChunkBytes); }

Status broadcast_tree(const Call& call, Mesh& mesh, Deadline deadline) { return TreeRun(call, mesh, deadline).run(); }

}  // namespace rueda::core
