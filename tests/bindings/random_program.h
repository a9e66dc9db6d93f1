#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"

namespace rueda::test {

/// One collective of a program: what each member of its set contributes is a formula of the operation, the rank and the
/// element, so everything about it follows from this value.
struct ProgramOp {
  Submission::Kind kind = Submission::Kind::kAllreduce;
  size_t set = 0;  ///< in `Program::sets`
  int32_t dtype = RUEDA_F32;
  int32_t op = RUEDA_SUM;
  int32_t root = 0;  ///< a rank of the job; of a send who sends
  int32_t peer = 0;  ///< of a send who receives
  int64_t row = 1;   ///< elements of a row
  int64_t rows = 1;  ///< where all have the same number
  uint64_t salt = 0;
  double prescale = 1;
  double postscale = 1;
  int32_t over = RUEDA_OVER_MEMBERS;
  int32_t codec = RUEDA_CODEC_NONE;
  std::string name;  ///< empty: unnamed
  bool in_place = true;
  size_t group = 0;    ///< operations next to each other with the same number, not 0, are one group
  size_t joiners = 0;  ///< how many members of the set, in the order of `Program::leavers`, have joined before it
};

/// What all ranks do in one round: each enqueues its part in an order of its own, then waits for all of it.
struct Program {
  uint64_t seed = 0;
  int size = 1;
  std::vector<std::string> hosts;             ///< by rank: the name of its host
  std::vector<std::vector<int32_t>> sets;     ///< the first is that of all ranks; members ascending
  std::vector<std::vector<int32_t>> leavers;  ///< by set: its members in the order in which they join
  std::vector<std::vector<ProgramOp>> rounds;
  std::vector<std::vector<ProgramOp>> tails;  ///< by set: what its members do while some have joined; may be empty
};

inline constexpr double kImaginary = 3;

/// The same for a seed everywhere.
Program random_program(uint64_t seed);

/// What a rank gives to an operation, and what it must find afterwards: in elements, each held exactly by every dtype
/// and codec. Of complex elements it is the real part, and the imaginary one is `kImaginary` times as much.
/// A rank without a part in it has neither.
std::vector<int64_t> rows_given(const Program& program, const ProgramOp& op, int rank);
std::vector<double> input_of(const Program& program, const ProgramOp& op, int rank);
std::vector<double> expected_of(const Program& program, const ProgramOp& op, int rank);
/// Whether the rank receives anything, and whether it takes part at all.
bool receives(const ProgramOp& op, int rank);
bool takes_part(const Program& program, const ProgramOp& op, int rank);
/// For the failure of a program: `allgather "n3" of f32 in set {0, 2}`.
std::string text_of(const Program& program, const ProgramOp& op);

}  // namespace rueda::test
