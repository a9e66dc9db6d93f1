#pragma once
#include <string>

#include "runtime/store/store.h"

namespace rueda::test {

/// What a worker of an elastic job does with hvdrun's store, a step for each word:
///   join      takes the latest plan that names this worker, or says that it is ready and waits for one; counts
///             its wish and waits until all members have; prints "plan N rank R of S"
///   plan=N    waits until plan N is there, whoever is in it
///   over      waits until its plan is void, prints the verdict's sentence, and asks for the next plan
///   reset     says goodbye in its plan and asks for the next one, though it is not void
///   bye       says goodbye in its plan
///   notice    waits for the next notice and prints "changes C to plan N, newcomers M", and ", ended after S s" if
///   workers are
/// If hvdrun removes the worker, it prints the sentence and exits with code 0. Returns false if it knows no such word.
bool elastic_step(const std::string& word, core::Store& store);

}  // namespace rueda::test
