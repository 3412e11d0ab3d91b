// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/work_queue.h"

#include <utility>

namespace rdmabroker {

struct WorkQueue::Peer {
  int begun = 0;
  // Leaves that could begin work but for the peer's share, by turn. None while there is room in that.
  std::map<uint64_t, Node*> held;
};

// All work of a kind, a user's, a session's, or, as a leaf, what one session has towards one peer. The work that waits
// for nobody is a leaf alone.
struct WorkQueue::Node {
  using Name = std::variant<uint32_t, SessionId, std::string>;

  Node(Node* above, Name named, int most) : parent(above), name(std::move(named)), share(most) {}

  bool MayBegin() const { return begun < share && (items.empty() ? !line.empty() : !held); }
  bool Needed() const { return begun > 0 || !items.empty() || !children.empty(); }
  Node& Child(const Name& named, int most, uint64_t& last_turn) {
    std::unique_ptr<Node>& child = children[named];
    if (child == nullptr) {
      child = std::make_unique<Node>(this, named, most);
      child->turn = ++last_turn;
    }
    return *child;
  }

  Node* const parent;
  const Name name;  // Among the parent's children.
  const int share;
  int begun = 0;
  std::map<Name, std::unique_ptr<Node>> children;
  std::map<uint64_t, Node*> line;  // The children that may begin work, by turn.
  std::list<WorkItem> items;       // A leaf's.
  uint64_t turn = 0;               // When it has last begun work, or came: the least is first.
  bool in_line = false;            // Of the parent.
  bool held = false;               // A leaf's: by the peer.
};

WorkQueue::WorkQueue() {
  for (size_t i = 0; i < kinds_.size(); ++i) {
    kinds_[i].shares = i < kWorkShares.size() ? kWorkShares[i] : WorkShares{.all = kPoolThreads};
    kinds_[i].root = std::make_unique<Node>(nullptr, Node::Name(), kinds_[i].shares.all);
  }
}

WorkQueue::~WorkQueue() = default;

WorkQueue::Kind& WorkQueue::KindOf(const std::optional<Towards>& towards) {
  return towards ? kinds_[static_cast<size_t>(towards->wait)] : kinds_.back();
}

WorkQueue::Node& WorkQueue::LeafOf(Kind& kind, const std::optional<Towards>& towards) {
  if (!towards) return *kind.root;
  Node& user = kind.root->Child(towards->uid, kind.shares.of_user, last_turn_);
  Node& session = user.Child(towards->session, kind.shares.of_session, last_turn_);
  return session.Child(towards->peer, kind.shares.of_lane, last_turn_);
}

void WorkQueue::Update(Node* node) {
  while (node->parent != nullptr) {
    Node* const parent = node->parent;
    const bool may_begin = node->MayBegin();
    if (may_begin && !node->in_line) parent->line.emplace(node->turn, node);
    if (!may_begin && node->in_line) parent->line.erase(node->turn);
    node->in_line = may_begin;
    if (!node->Needed()) parent->children.erase(Node::Name(node->name));
    node = parent;
  }
}

void WorkQueue::Add(WorkItem item) {
  Node& leaf = LeafOf(KindOf(item.towards), item.towards);
  const WorkId id = item.id;
  leaf.items.push_back(std::move(item));
  waiting_[id] = {&leaf, std::prev(leaf.items.end())};
  Update(&leaf);
}

bool WorkQueue::Cancel(WorkId id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return false;
  const auto [leaf, place] = found->second;
  waiting_.erase(found);
  const WorkItem item = std::move(*place);
  leaf->items.erase(place);
  if (leaf->items.empty() && std::exchange(leaf->held, false)) {
    KindOf(item.towards).peers.at(item.towards->peer).held.erase(leaf->turn);
  }
  Update(leaf);
  return true;
}

std::optional<WorkItem> WorkQueue::Begin() {
  for (size_t i = 1; i <= kinds_.size(); ++i) {
    const size_t next = (last_kind_ + i) % kinds_.size();
    std::optional<WorkItem> item = BeginIn(kinds_[next]);
    if (!item) continue;
    last_kind_ = next;
    return item;
  }
  return std::nullopt;
}

std::optional<WorkItem> WorkQueue::BeginIn(Kind& kind) {
  while (kind.root->MayBegin()) {
    Node* leaf = kind.root.get();
    while (!leaf->line.empty()) leaf = leaf->line.begin()->second;
    if (const auto& towards = leaf->items.front().towards) {
      Peer& peer = kind.peers[towards->peer];
      if (peer.begun == kind.shares.of_peer) {
        leaf->held = true;
        peer.held.emplace(leaf->turn, leaf);
        Update(leaf);
        continue;
      }
      ++peer.begun;
    }
    WorkItem item = std::move(leaf->items.front());
    leaf->items.pop_front();
    waiting_.erase(item.id);
    for (Node* node = leaf; node != nullptr; node = node->parent) {
      ++node->begun;
      if (std::exchange(node->in_line, false)) node->parent->line.erase(node->turn);
      node->turn = ++last_turn_;
    }
    Update(leaf);
    return item;
  }
  return std::nullopt;
}

void WorkQueue::End(const std::optional<Towards>& towards) {
  Kind& kind = KindOf(towards);
  Node& leaf = LeafOf(kind, towards);
  for (Node* node = &leaf; node != nullptr; node = node->parent) --node->begun;
  Update(&leaf);
  if (!towards) return;
  const auto peer = kind.peers.find(towards->peer);
  for (const auto& [turn, held] : std::exchange(peer->second.held, {})) {
    held->held = false;
    Update(held);
  }
  if (--peer->second.begun == 0) kind.peers.erase(peer);
}

bool WorkQueue::MayBegin() const {
  for (const Kind& kind : kinds_) {
    if (kind.root->MayBegin()) return true;
  }
  return false;
}

}  // namespace rdmabroker
