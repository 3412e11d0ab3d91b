// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_WORK_QUEUE_H_
#define BROKER_RUNTIME_WORK_QUEUE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>

#include "broker/core/ids.h"

namespace rdmabroker {

// Names one piece of work that was given to a pool.
enum class WorkId : uint64_t { kNone = 0 };

// What ends the wait of work for a peer that stays silent.
enum class PeerWait : uint8_t {
  kTimed,    // The kernel gives the peer up after seconds or minutes.
  kUntimed,  // Nothing.
};

// For whom work waits, and for which peer.
struct Towards {
  PeerWait wait = PeerWait::kTimed;
  uint32_t uid = 0;  // The session's user.
  SessionId session;
  std::string peer;
};

struct WorkItem {
  WorkId id = WorkId::kNone;
  std::optional<Towards> towards;  // None for work that waits for no peer.
  std::function<int()> work;
  std::function<void(int)> done;
};

inline constexpr int kPoolThreads = 64;

// How many threads work that waits for peers has at most.
struct WorkShares {
  int all = 0;
  int of_user = 0;
  int of_session = 0;
  int of_lane = 0;  // One session's work towards one peer.
  int of_peer = 0;  // Everybody's towards it.
};
// By PeerWait. Each is half or less of the one that contains it, so that no silent peer stops its session, no session
// its user and no user the others. What waits without an end may have its threads for good; so those are few, and what
// waits for nobody has an eighth of the threads even then.
inline constexpr std::array<WorkShares, 2> kWorkShares = {{
    {.all = kPoolThreads * 3 / 4,
     .of_user = kPoolThreads * 3 / 8,
     .of_session = kPoolThreads / 8,
     .of_lane = kPoolThreads / 16,
     .of_peer = kPoolThreads / 4},
    {.all = kPoolThreads / 8,
     .of_user = kPoolThreads / 16,
     .of_session = kPoolThreads / 32,
     .of_lane = kPoolThreads / 64,
     .of_peer = kPoolThreads / 32},
}};

// The work that waits for a thread, and what begins next: the kinds of work in turn, of one kind the users in turn, of
// a user the sessions, of a session the peers, and what one session has towards one peer in the order in which it came.
// Whoever has used a share up is passed over at no cost: all functions take logarithmic time, but that an end of work
// towards a peer whose share was used up looks at each session that waits for that peer. Not thread-safe.
class WorkQueue {
 public:
  WorkQueue();
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // No other with its id waits.
  void Add(WorkItem item);
  // True: it had waited, and is gone.
  bool Cancel(WorkId id);

  // The next one; it counts in its shares until End. Nothing where no share lets one begin.
  [[nodiscard]] std::optional<WorkItem> Begin();
  // Of work that has begun, with what Begin said it is towards.
  void End(const std::optional<Towards>& towards);
  // False: Begin has nothing. True: it most likely has something.
  [[nodiscard]] bool MayBegin() const;

 private:
  struct Peer;
  struct Node;
  // One kind of work: its shares, who waits in it and towards whom.
  struct Kind {
    WorkShares shares;
    std::unique_ptr<Node> root;
    std::map<std::string, Peer> peers;
  };
  using Place = std::list<WorkItem>::iterator;

  Kind& KindOf(const std::optional<Towards>& towards);
  // The leaf that has the work, made where there is none.
  Node& LeafOf(Kind& kind, const std::optional<Towards>& towards);
  std::optional<WorkItem> BeginIn(Kind& kind);
  // The node, or one below it, has changed: whether it may begin work, and whether it is needed still.
  void Update(Node* node);

  std::array<Kind, 3> kinds_;  // By PeerWait, then what waits for nobody.
  size_t last_kind_ = 0;       // Of the last one begun.
  uint64_t last_turn_ = 0;
  std::unordered_map<WorkId, std::pair<Node*, Place>> waiting_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_WORK_QUEUE_H_
