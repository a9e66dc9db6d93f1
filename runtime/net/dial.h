#pragma once
#include <memory>

#include "runtime/base/status.h"
#include "runtime/net/hello.h"
#include "runtime/net/loop_wait.h"
#include "runtime/net/path_watch.h"
#include "runtime/net/secure_stream.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

/// Connects to `peer`'s listener and proves the job's key both ways. Blocks the thread that runs `wait.io`.
/// `purpose` kControl: the stream is over `tls` (plain if null) and its handshake is done. kData: `number` is the lane;
/// the stream is plain, or over TLS of its own if `epoch.encrypt_data`, and then its handshake is still to come.
/// All of the peer's addresses are tried, the earlier ones first (`connect_first`). The first that proves to be the
/// peer is used and logged at `info`; a round without success is repeated with growing pauses until the deadline.
/// Loopback addresses of another host are left out, unless it gave no others. `paths`, unless null, is told while no
/// address connects. Returns kPeerLost if every address refused connections several times over, so that no process
/// listens there any more; kPeerLost without a rank if no address of a peer whose data is waited for has connected for
/// 15 s; kTimeout for any other cause that lasted until the deadline. Each names the peer, and every address with its
/// last cause. Returns the abort reason if the epoch ends.
Result<std::unique_ptr<SecureStream>> dial(const LoopWait& wait, const TransportEpoch& epoch, int peer,
                                           HelloPurpose purpose, uint32_t number, std::shared_ptr<TlsContext> tls,
                                           PathWatch* paths = nullptr);

/// Blocking forms of the stream's operations for straight-line exchanges. After a failure the stream is closed.
Status handshake(const LoopWait& wait, SecureStream& stream);
Status read_all(const LoopWait& wait, SecureStream& stream, std::span<std::byte> into);
Status write_all(const LoopWait& wait, SecureStream& stream, std::span<const std::byte> bytes);

}  // namespace rueda::core
