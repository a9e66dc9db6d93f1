#pragma once
#include <string>
#include <vector>

namespace rueda::core {

/// The cores this thread may run on, ascending.
std::vector<int> allowed_cores();
/// The local rank's share of the allowed cores for the library's own threads; empty (stay anywhere) when ranks
/// outnumber usable cores or the process was already confined to fewer cores than the machine has.
std::vector<int> share_of_cores(int local_rank, int local_size);
/// A sentence for the rank's log where its process may use one core of several, which its own threads and ours then
/// share; empty otherwise.
std::string confined_sentence(int rank);
/// Names the calling thread and confines it to `cores` unless empty. The caller's threads are never touched.
void place_thread(const std::string& name, const std::vector<int>& cores);

}  // namespace rueda::core
