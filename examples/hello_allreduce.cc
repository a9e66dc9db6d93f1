// Every rank gives its number, every rank gets the sum.
//   hvdrun -np 2 hello_allreduce_cpp
#include <cstdio>
#include <exception>
#include <vector>

#include "rueda.hpp"

int main() {
  try {
    const rueda::Session session;
    std::vector<float> value = {static_cast<float>(session.rank())};
    session.allreduce(value, {.op = rueda::ReduceOp::kSum, .name = "hello"});
    std::printf("rank %d of %d: the ranks add up to %g\n", session.rank(), session.size(),
                static_cast<double>(value[0]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
