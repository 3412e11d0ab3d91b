// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/orphans.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/time.h"
#include "broker/log/log.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/verbs/device/connection_ids.h"
#include "dataplane/verbs/device/queue_pair_maker.h"

namespace rdmabroker {
namespace {

constexpr char kNames[] = "o";

// The kernel gives an id the lowest number that is free in the whole system (xa_alloc in drivers/infiniband/core/
// ucma.c), so that so long a gap of free ones is where as many ids were that have ended.
constexpr uint32_t kLongestGap = 65'536;
// More than a machine has; of a file that is none of rdma_cm each number seems to be somebody else's.
constexpr uint32_t kMostNumbers = 4'194'304;

// A list leaves some out where others go meanwhile.
constexpr int kMostLooks = 3;
// A peer learns of a process's death within this, at a system call or two for each of the connections.
constexpr absl::Duration kLook = absl::Seconds(1);

// One turn of the loop; those that wait longer have theirs at the next.
constexpr int kEventsAtATime = 64;

using OrphansById = std::map<KernelId, Orphan>;

// A step of a handshake is one, too: the client has not heard of it, and never will. kUnreachable is none, as it comes
// when a MAC address changes, too (CmConnection::IsOfNeighbour); the id of an attempt that ends with it ends with its
// queue pair.
bool IsEnd(CmEventType type) {
  return type == CmEventType::kDisconnected || type == CmEventType::kRejected || type == CmEventType::kConnectError ||
         type == CmEventType::kDeviceRemoval || type == CmEventType::kConnectResponse ||
         type == CmEventType::kEstablished;
}

// Of those whose queue pairs have not been shown. On any thread, as the next.
void FindQueuePairs(OrphansById* orphans) {
  using Ends = std::pair<SocketAddress, SocketAddress>;
  std::map<uint32_t, std::multimap<Ends, Orphan*>> by_device;
  for (auto& [id, orphan] : *orphans) {
    if (orphan.qp.value == 0) by_device[orphan.device_index].emplace(Ends(orphan.local, orphan.peer), &orphan);
  }
  for (auto& [device, unknown] : by_device) {
    const auto shown = verbs::FindConnectionIds(device);
    if (!shown) continue;
    for (const auto& [ends, orphan] : unknown) ++orphan->looks;
    for (const verbs::ConnectionId& connected : *shown) {
      const auto found =
          unknown.find(Ends(FromKernelWithoutScope(connected.local), FromKernelWithoutScope(connected.peer)));
      if (found == unknown.end()) continue;
      found->second->qp.value = connected.queue_pair;
      found->second->thread = verbs::LookAtQueuePair(device, connected.queue_pair).thread;
      unknown.erase(found);
    }
  }
}

bool IsOver(const Orphan& orphan) {
  if (orphan.qp.value == 0) return orphan.looks >= kMostLooks;
  const verbs::QueuePairMaker now = verbs::LookAtQueuePair(orphan.device_index, orphan.qp.value);
  const bool is_another = orphan.thread != 0 && now.thread != 0 && now.thread != orphan.thread;
  return now.error == ENOENT || now.failed || is_another;
}

}  // namespace

bool Orphans::AreKept(const DescriptorKeep& keep) { return keep.HasInherited(kNames); }

Orphans::Orphans(DescriptorKeep& keep, BlockingPool& pool, Loop& loop)
    : files_(keep, kNames), pool_(pool), loop_(loop) {}

Orphans::~Orphans() {
  loop_.Unwatch(watch_);
  loop_.CancelTimer(look_);
}

absl::Status Orphans::TakeOver(const KeptFiles* unrecorded) {
  if (!files_.HasOld() && (unrecorded == nullptr || !unrecorded->HasOld())) return absl::OkStatus();
  auto opened = CmFile::Open();
  if (!opened.ok()) return opened.status();
  file_ = *std::move(opened);
  files_.Keep(file_->descriptor());
  if (absl::Status kept = files_.KeepSurely(file_->descriptor()); !kept.ok()) {
    files_.GiveUpOwn();
    return kept;
  }
  for (const KernelId id : MoveAll(unrecorded)) {
    CmAddresses at;
    if (file_->QueryAddresses(id, &at) != 0 || at.peer.ip.IsAny()) {
      anchors_.push_back(id);
    } else {
      orphans_[id] = {.device_index = at.device_index, .local = at.local, .peer = at.peer, .qp = {}};
    }
  }
  files_.GiveUpOld();
  if (!anchors_.empty()) {
    LogWarning("listeners, addresses and handshakes have no record, and end", {{"ids", anchors_.size()}});
  }
  if (!orphans_.empty())
    LogWarning("connections have no record, and stay with their owners", {{"ids", orphans_.size()}});
  return absl::OkStatus();
}

std::vector<KernelId> Orphans::MoveAll(const KeptFiles* unrecorded) const {
  std::vector<KernelId> moved;
  for (uint32_t number = 0, gap = 0; gap < kLongestGap && number < kMostNumbers; ++number, ++gap) {
    const KernelId id{number};
    int error = files_.Migrate(id, *file_);
    if (error != 0 && unrecorded != nullptr) error = unrecorded->Migrate(id, *file_);
    if (error == 0) moved.push_back(id);
    // One that is in a file of somebody else's is none that is free.
    if (error == 0 || error == EINVAL) gap = 0;
  }
  return moved;
}

void Orphans::EndAnchors(std::function<void()> done) {
  if (file_ == nullptr) return done();
  const auto left = std::make_shared<size_t>(anchors_.size() + 1);
  const auto end = [this, left, done = std::move(done)](int) {
    if (--*left > 0) return;
    Begin();
    done();
  };
  for (const KernelId id : std::exchange(anchors_, {})) {
    pool_.Run([file = file_, id] { return file->Destroy(id); }, end);
  }
  end(0);
}

// With a listener's end its requests have gone, so that the file has events of orphans only.
void Orphans::Begin() {
  if (orphans_.empty()) return Close();
  watch_ = loop_.Watch(file_->descriptor(), EPOLLIN, [this](uint32_t) { OnReadable(); });
  Look();
}

void Orphans::OnReadable() {
  CmEvent event;
  for (int i = 0; i < kEventsAtATime && file_ != nullptr; ++i) {
    const int error = file_->NextEvent(&event);
    if (error == EAGAIN) break;
    if (error != 0) {
      LogError("connections without a record are lost", {{"cause", std::strerror(error)}});
      return Close();
    }
    if (IsEnd(event.type)) End(event.id);
  }
  if (file_ != nullptr) loop_.Rearm(watch_, EPOLLIN);
}

void Orphans::LookLater() {
  if (orphans_.empty()) return;
  look_ = loop_.StartTimer(Loop::Now() + kLook, [this] { Look(); });
}

void Orphans::Look() {
  struct Findings {
    OrphansById orphans;
    std::vector<KernelId> over;
  };
  const auto findings = std::make_shared<Findings>(Findings{orphans_, {}});
  pool_.Run(
      [findings] {
        FindQueuePairs(&findings->orphans);
        for (const auto& [id, orphan] : findings->orphans) {
          if (IsOver(orphan)) findings->over.push_back(id);
        }
        return 0;
      },
      [this, findings](int) {
        for (auto& [id, orphan] : findings->orphans) {
          if (const auto known = orphans_.find(id); known != orphans_.end()) known->second = orphan;
        }
        for (const KernelId id : findings->over) End(id);
        LookLater();
      });
}

void Orphans::End(KernelId id) {
  const auto ended = orphans_.extract(id);
  if (ended.empty()) return;
  // Of a handshake the kernel may wait for the peer.
  pool_.Run([file = file_, id] { return file->Destroy(id); }, [](int) {},
            Towards{.wait = PeerWait::kTimed, .uid = 0, .session = {}, .peer = ended.mapped().peer.ip.ToString()});
  if (!orphans_.empty()) return;
  LogInfo("the last of the connections without a record has ended");
  Close();
}

void Orphans::Close() {
  loop_.Unwatch(std::exchange(watch_, WatchId::kNone));
  loop_.CancelTimer(std::exchange(look_, TimerId::kNone));
  orphans_.clear();
  files_.ForgetOwn();
  // The kernel ends what is left in it, which may block.
  pool_.Run([file = std::exchange(file_, nullptr)] { return 0; }, [](int) {});
}

}  // namespace rdmabroker
