#pragma once

namespace rueda::core {

/// The set of descriptors that a forked child must not keep: a copy of our sockets would hide our death from our peers.
/// One set for the process. All functions may be called on any thread, and in a forked child: they take no lock and no
/// memory. Descriptors of 65536 and more are ignored.

/// Adds a descriptor.
void close_in_child(int fd);
/// Removes it. Call this before the descriptor is closed, or goes to an owner that does not use this set.
void keep_in_child(int fd);
/// Closes all of them. Called in the child.
void close_inherited();

}  // namespace rueda::core
