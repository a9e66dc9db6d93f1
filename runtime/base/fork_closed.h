#pragma once

namespace rueda::core {

/// Descriptors that a forked child must not keep: with a copy of our sockets it would hide our death from our peers.
/// A set of numbers in the process; every function may be called on any thread, and after fork, where nothing but the
/// calling thread is left (no locks, no memory). Numbers of 65536 and more are not kept.
void close_in_child(int fd);
/// Before the descriptor is closed, or goes to an owner who does not use this set.
void keep_in_child(int fd);
/// In the child: closes all of them.
void close_inherited();

}  // namespace rueda::core
