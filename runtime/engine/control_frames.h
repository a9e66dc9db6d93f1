#pragma once
#include <cstddef>

namespace rueda::core {

/// The last byte of every control frame says what the bytes before it are.
///
///     body … kind (1 byte)
inline constexpr std::byte kAgreementFrame{0};       ///< proposals of a participant, or verdicts for it
inline constexpr std::byte kEndFrame{1};             ///< the epoch is over: see end_frame.h
inline constexpr std::byte kAskFrame{2};             ///< inquiry.h, from rank 0
inline constexpr std::byte kAnswerFrame{3};          ///< inquiry.h, to rank 0
inline constexpr std::byte kTimelineSwitchFrame{4};  ///< timeline_frames.h, as the next three
inline constexpr std::byte kTimelineFrame{5};
inline constexpr std::byte kClockAskFrame{6};
inline constexpr std::byte kClockAnswerFrame{7};
inline constexpr std::byte kLateFrame{8};  ///< late_batch.h
/// A frame of another kind, for a rank with which this one has no link: routed_frame.h.
inline constexpr std::byte kRoutedFrame{15};
inline constexpr std::byte kRelayedFrame{16};    ///< from a leader to the one above: see `Relay`
inline constexpr std::byte kAddressedFrame{17};  ///< from a leader to one below: see `Relay`
inline constexpr std::byte kTakenFrame{18};      ///< no body: the relayed frame has been taken over, the next may come
inline constexpr std::byte kAliveFrame{19};      ///< no body: a sign of life, on edges between hosts

}  // namespace rueda::core
