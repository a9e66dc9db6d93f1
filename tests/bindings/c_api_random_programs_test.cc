// Random programs of collectives over random process sets, each rank in an order of its own, against a plain reference.
//
//   TEST_SEED=17 bindings_tests "random programs*"      the program of that seed, as a failure names it
//   TEST_SEEDS=10000 bindings_tests "random programs*"  that many
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"
#include "tests/bindings/random_program.h"
#include "tests/sim/random.h"

namespace rueda::test {
namespace {

using Kind = Submission::Kind;
using sim::Random;

constexpr uint64_t kSeeds = 100 / RUEDA_TEST_SCALE;

constexpr size_t kOpaqueBytes = 3;

size_t width_of(int32_t dtype) {
  return dtype == RUEDA_OPAQUE ? kOpaqueBytes : core::size_of(static_cast<core::Dtype>(dtype));
}

template <typename T>
void encode_as(const std::vector<double>& values, std::byte* to) {
  for (const double value : values) {
    const auto element = static_cast<T>(value);
    std::memcpy(to, &element, sizeof element);
    to += sizeof element;
  }
}

template <typename T>
void encode_complex(const std::vector<double>& values, std::byte* to) {
  std::vector<double> parts;
  for (const double value : values) parts.insert(parts.end(), {value, kImaginary * value});
  encode_as<T>(parts, to);
}

void encode_halves(const std::vector<double>& values, int32_t dtype, std::byte* to) {
  std::vector<double> bits;
  for (const double value : values) {
    const auto single = static_cast<float>(value);
    bits.push_back(dtype == RUEDA_F16 ? core::f32_to_f16(single).bits : core::f32_to_bf16(single).bits);
  }
  encode_as<uint16_t>(bits, to);
}

void encode_opaque(const std::vector<double>& values, std::byte* to) {
  std::vector<double> bytes;
  for (const double value : values) bytes.insert(bytes.end(), {value, value + 1, 7 * value});
  encode_as<uint8_t>(bytes, to);
}

std::vector<std::byte> encoded(const std::vector<double>& values, int32_t dtype) {
  std::vector<std::byte> bytes(values.size() * width_of(dtype));
  switch (dtype) {
    case RUEDA_F32: encode_as<float>(values, bytes.data()); break;
    case RUEDA_F64: encode_as<double>(values, bytes.data()); break;
    case RUEDA_I32: encode_as<int32_t>(values, bytes.data()); break;
    case RUEDA_I64: encode_as<int64_t>(values, bytes.data()); break;
    case RUEDA_U32: encode_as<uint32_t>(values, bytes.data()); break;
    case RUEDA_U64: encode_as<uint64_t>(values, bytes.data()); break;
    case RUEDA_I16: encode_as<int16_t>(values, bytes.data()); break;
    case RUEDA_U16: encode_as<uint16_t>(values, bytes.data()); break;
    case RUEDA_F16:
    case RUEDA_BF16: encode_halves(values, dtype, bytes.data()); break;
    case RUEDA_COMPLEX64: encode_complex<float>(values, bytes.data()); break;
    case RUEDA_COMPLEX128: encode_complex<double>(values, bytes.data()); break;
    case RUEDA_OPAQUE: encode_opaque(values, bytes.data()); break;
    default: encode_as<uint8_t>(values, bytes.data());
  }
  return bytes;
}

/// One rank's part of one operation: its memory, and where the result must be.
struct Part {
  const ProgramOp* op;
  std::vector<std::byte> in;
  std::vector<std::byte> out;
  std::vector<int64_t> splits;
  std::vector<int64_t> in_shape;
  std::vector<int64_t> out_shape;
  rueda_tensor input{};
  rueda_tensor output{};
  bool late = false;  ///< the library has the output
};

/// What a handle stands for.
struct Pending {
  rueda_handle handle = 0;
  std::vector<Part*> parts;
};

/// One rank that runs a program.
class Runner {
 public:
  Runner(rueda_session* session, const Program& program, int rank)
      : session_(session), program_(program), rank_(rank), random_(program.seed * 64 + static_cast<uint64_t>(rank)) {}

  void run() {
    make_sets();
    for (const auto& round : program_.rounds) run_round(round);
    for (size_t set = 0; set < program_.sets.size(); ++set) run_tail(set);
    for (const rueda_handle join : joins_) {
      const Ending ending = finish(join);
      expect(ending.code == RUEDA_OK, "a join: " + ending.sentence);
    }
    for (const auto& round : program_.rounds) run_round(round);
    expect_usable(session_, "at the end");  // nobody leaves before: rank 0's goodbye ends every set
  }

 private:
  bool member_of(size_t set) const {
    for (const int32_t rank : program_.sets[set]) {
      if (rank == rank_) return true;
    }
    return false;
  }

  void make_sets() {
    numbers_.assign(program_.sets.size(), RUEDA_GLOBAL_SET);
    std::vector<size_t> order;
    for (size_t set = 1; set < program_.sets.size(); ++set) {
      if (member_of(set)) order.push_back(set);
    }
    random_.shuffle(order);
    for (const size_t set : order) {
      const auto& ranks = program_.sets[set];
      const std::string name = "s" + std::to_string(set);
      expect_code(rueda_process_set_add(session_, ranks.size(), ranks.data(), name.c_str(), &numbers_[set]), RUEDA_OK,
                  "a set");
    }
  }

  /// Units (an operation or a group) in a random order, but unnamed ones of a kind in theirs.
  std::vector<std::vector<const ProgramOp*>> ordered(const std::vector<ProgramOp>& ops) {
    std::vector<std::vector<const ProgramOp*>> units;
    for (const ProgramOp& op : ops) {
      if (!takes_part(program_, op, rank_)) continue;
      const bool joins_group = op.group != 0 && !units.empty() && units.back().front()->group == op.group;
      if (joins_group) {
        units.back().push_back(&op);
      } else {
        units.push_back({&op});
      }
    }
    std::vector<const ProgramOp*> unnamed;
    for (const auto& unit : units) {
      if (unit.front()->name.empty()) unnamed.push_back(unit.front());
    }
    random_.shuffle(units);
    auto next = unnamed.begin();
    for (auto& unit : units) {
      if (unit.front()->name.empty()) unit = {*next++};
    }
    return units;
  }

  void run_round(const std::vector<ProgramOp>& ops) {
    std::vector<Pending> pending;
    for (const auto& unit : ordered(ops)) pending.push_back(start(unit));
    finish_all(pending);
  }

  void run_tail(size_t set) {
    if (!member_of(set) || program_.tails[set].empty()) return;
    std::vector<Pending> pending;
    for (const auto& unit : ordered(program_.tails[set])) pending.push_back(start(unit));
    rueda_op_options options = named(nullptr);
    options.process_set = numbers_[set];
    rueda_handle join = 0;
    expect_code(rueda_join_async(session_, &options, &join), RUEDA_OK, "join");
    joins_.push_back(join);
    finish_all(pending);
  }

  void finish_all(std::vector<Pending>& pending) {
    random_.shuffle(pending);
    for (const Pending& one : pending) {
      const std::string what = text_of(program_, *one.parts.front()->op);
      const int32_t code = rueda_wait(one.handle, -1);
      expect(code == RUEDA_OK, what + ": " + rueda_handle_error(one.handle));
      for (size_t i = 0; i < one.parts.size(); ++i) check_part(one.handle, i, *one.parts[i]);
      expect_code(rueda_release(one.handle), RUEDA_OK, "release");
    }
    parts_.clear();
  }

  Pending start(const std::vector<const ProgramOp*>& unit) {
    Pending pending;
    for (const ProgramOp* op : unit) {
      parts_.push_back(make_part(*op));
      pending.parts.push_back(parts_.back().get());
    }
    const ProgramOp& first = *unit.front();
    std::string group_name = "g" + std::to_string(first.group);
    rueda_op_options options = named(first.name.empty() ? nullptr : first.name.c_str());
    options.process_set = numbers_[first.set];
    options.has_scale = 1;
    options.prescale = first.prescale;
    options.postscale = first.postscale;
    options.average_over = first.over;
    options.codec = first.codec;
    const bool by_number = first.group == 0 && !first.name.empty() && random_.once_in(2);
    if (by_number) {
      options.name = nullptr;
      expect_code(rueda_intern(session_, first.name.c_str(), &options.name_id), RUEDA_OK, "intern");
    }
    if (first.group != 0) options.name = group_name.c_str();
    const int32_t code = first.group == 0 ? enqueue_one(*pending.parts.front(), options, &pending.handle)
                                          : enqueue_group(pending.parts, options, &pending.handle);
    expect_code(code, RUEDA_OK, text_of(program_, first));
    return pending;
  }

  std::unique_ptr<Part> make_part(const ProgramOp& op) const {
    auto part = std::make_unique<Part>();
    part->op = &op;
    const std::vector<double> values = input_of(program_, op, rank_);
    const size_t wanted = expected_of(program_, op, rank_).size();
    part->in = encoded(values, op.dtype);
    part->out.assign(wanted * width_of(op.dtype) + 1, std::byte{0x5a});
    part->splits = rows_given(program_, op, rank_);
    int64_t rows = 0;
    for (const int64_t given : part->splits) rows += given;
    part->in_shape = {rows, op.row};
    part->out_shape = part->in_shape;
    part->in.resize(part->in.size() + 1);  // so that there is a place for no elements, too
    part->input = {
        sizeof(rueda_tensor), part->in.data(), op.dtype, 2, part->in_shape.data(), RUEDA_DEVICE_CPU, 0, 0, nullptr};
    if (op.dtype == RUEDA_OPAQUE) part->input.element_bytes = kOpaqueBytes;
    part->output = part->input;
    const bool dealt = op.kind >= Kind::kAllgather && op.kind <= Kind::kScatter;
    part->late = dealt || op.kind == Kind::kReducescatter;
    if (!op.in_place) part->output.data = part->out.data();
    part->output.shape = part->out_shape.data();
    return part;
  }

  int32_t enqueue_one(Part& part, const rueda_op_options& options, rueda_handle* handle) {
    const ProgramOp& op = *part.op;
    const rueda_tensor* const in = &part.input;
    const rueda_tensor* const out = &part.output;
    const int64_t* const splits = part.splits.data();
    switch (op.kind) {
      case Kind::kAllreduce: return rueda_allreduce_async(session_, in, out, op.op, &options, handle);
      case Kind::kReducescatter: return rueda_reducescatter_async(session_, in, nullptr, op.op, &options, handle);
      case Kind::kReduce:
        return rueda_reduce_async(session_, in, rank_ == op.root ? out : nullptr, op.op, op.root, &options, handle);
      case Kind::kBroadcast: return rueda_broadcast_async(session_, in, out, op.root, &options, handle);
      case Kind::kAllgather: return rueda_allgather_async(session_, in, nullptr, &options, handle);
      case Kind::kAlltoall: return rueda_alltoall_async(session_, in, splits, nullptr, &options, handle);
      case Kind::kGather: return rueda_gather_async(session_, in, nullptr, op.root, &options, handle);
      case Kind::kScatter: return rueda_scatter_async(session_, in, splits, nullptr, op.root, &options, handle);
      case Kind::kBarrier: return rueda_barrier_async(session_, &options, handle);
      case Kind::kSend:
      case Kind::kJoin: break;
    }
    if (rank_ == op.root) return rueda_send_async(session_, in, op.peer, &options, handle);
    return rueda_recv_async(session_, out, op.root, &options, handle);
  }

  int32_t enqueue_group(const std::vector<Part*>& parts, const rueda_op_options& options, rueda_handle* handle) {
    const ProgramOp& op = *parts.front()->op;
    std::vector<rueda_tensor> in, out;
    std::vector<const char*> names;
    std::vector<const int64_t*> splits;
    for (const Part* part : parts) {
      in.push_back(part->input);
      out.push_back(part->output);
      names.push_back(part->op->name.c_str());
      splits.push_back(part->splits.data());
    }
    const size_t count = parts.size();
    const rueda_tensor* const i = in.data();
    const rueda_tensor* const o = out.data();
    const char* const* const n = names.data();
    switch (op.kind) {
      case Kind::kReducescatter:
        return rueda_grouped_reducescatter_async(session_, count, i, nullptr, n, op.op, &options, handle);
      case Kind::kReduce:
        return rueda_grouped_reduce_async(session_, count, i, rank_ == op.root ? o : nullptr, n, op.op, op.root,
                                          &options, handle);
      case Kind::kBroadcast: return rueda_grouped_broadcast_async(session_, count, i, o, n, op.root, &options, handle);
      case Kind::kAllgather: return rueda_grouped_allgather_async(session_, count, i, nullptr, n, &options, handle);
      case Kind::kAlltoall:
        return rueda_grouped_alltoall_async(session_, count, i, splits.data(), nullptr, n, &options, handle);
      case Kind::kGather: return rueda_grouped_gather_async(session_, count, i, nullptr, n, op.root, &options, handle);
      case Kind::kScatter:
        return rueda_grouped_scatter_async(session_, count, i, splits.data(), nullptr, n, op.root, &options, handle);
      case Kind::kSend:
        return rank_ == op.root ? rueda_grouped_send_async(session_, count, i, n, op.peer, &options, handle)
                                : rueda_grouped_recv_async(session_, count, o, n, op.root, &options, handle);
      default: return rueda_grouped_allreduce_async(session_, count, i, o, n, op.op, &options, handle);
    }
  }

  void check_part(rueda_handle handle, size_t index, const Part& part) const {
    const ProgramOp& op = *part.op;
    if (!receives(op, rank_)) return;
    const std::vector<std::byte> wanted = encoded(expected_of(program_, op, rank_), op.dtype);
    const std::byte* found = static_cast<const std::byte*>(part.output.data);
    if (part.late) {
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, index, &output), RUEDA_OK, "output");
      const auto rows = static_cast<int64_t>(wanted.size() / width_of(op.dtype)) / std::max<int64_t>(1, op.row);
      expect(op.row == 0 || output.shape[0] == rows,
             text_of(program_, op) + " gave " + std::to_string(output.shape[0]) + " rows, not " + std::to_string(rows));
      found = static_cast<const std::byte*>(output.data);
    }
    const auto differs = std::mismatch(wanted.begin(), wanted.end(), found).first;
    if (differs == wanted.end()) return;
    const auto at = static_cast<size_t>(differs - wanted.begin()) / width_of(op.dtype);
    expect(false, text_of(program_, op) + " on rank " + std::to_string(rank_) + ": element " + std::to_string(at));
  }

  rueda_session* const session_;
  const Program& program_;
  const int rank_;
  Random random_;
  std::vector<int32_t> numbers_;  ///< of the sets
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<rueda_handle> joins_;
};

uint64_t variable(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void run_program(uint64_t seed) {
  const Program program = random_program(seed);
  // Beyond the sessions: what a rank that has failed lent is lent until its shutdown.
  std::vector<std::unique_ptr<Runner>> runners(static_cast<size_t>(program.size));
  try {
    run_ranks(program.hosts, [&](rueda_session* session, int rank) {
      auto& runner = runners[static_cast<size_t>(rank)];
      runner = std::make_unique<Runner>(session, program, rank);
      runner->run();
    });
  } catch (const std::exception& error) {
    FAIL("TEST_SEED=" << seed << " (" << program.size << " ranks): " << error.what());
  }
}

}  // namespace

TEST_CASE("random programs over random sets give what the reference does, joins among them") {
  const uint64_t seed = variable("TEST_SEED", 0);
  if (seed != 0) return run_program(seed);
  for (uint64_t i = 1; i <= variable("TEST_SEEDS", kSeeds); ++i) run_program(i);
}

}  // namespace rueda::test
