// SPDX-License-Identifier: Apache-2.0

#include "broker/control/accepting_thread.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "broker/control/acceptor.h"

namespace rdmabroker {

// One listening socket. Only the accepting thread may use its acceptor; after the end of that thread, any thread may.
class AcceptingThread::Entrance : public std::enable_shared_from_this<Entrance> {
 public:
  Entrance(UniqueFd socket, Listener listener, Loop& loop, Loop& accepting)
      : listener_(std::move(listener)),
        loop_(loop),
        accepting_(accepting),
        acceptor_(std::move(socket), listener_.name, accepting, [this](UniqueFd fd) { Enter(std::move(fd)); }) {}

  // Accepting thread.
  void Start() { acceptor_.Start(); }
  void Stop() { acceptor_.Stop(); }

  // Loop thread only. Later connections are closed.
  void Close() { closed_ = true; }

 private:
  void Enter(UniqueFd fd) {
    if (listener_.may_enter != nullptr && !listener_.may_enter(fd.get())) return Refuse();
    if (++under_way_ >= kMostUnderWay) acceptor_.Pause();
    loop_.Post([self = shared_from_this(), socket = std::make_shared<UniqueFd>(std::move(fd))] {
      self->Take(std::move(*socket));
    });
  }

  void Refuse() {
    if (refused_.fetch_add(1) > 0) return;
    loop_.Post([self = shared_from_this()] {
      const uint64_t count = self->refused_.exchange(0);
      if (!self->closed_) self->listener_.refused(count);
    });
  }

  // Loop thread.
  void Take(UniqueFd socket) {
    if (!closed_) listener_.take(std::move(socket));
    if (--under_way_ != kMostUnderWay / 2) return;
    accepting_.Post([self = shared_from_this()] { self->acceptor_.Resume(); });
  }

  const Listener listener_;
  Loop& loop_;
  Loop& accepting_;
  std::atomic<int> under_way_ = 0;
  std::atomic<uint64_t> refused_ = 0;  // Refusals that the loop thread has not counted yet.
  bool closed_ = false;                // Loop thread only.
  Acceptor acceptor_;                  // Last: it calls the others.
};

// One handshake. Accepting thread only.
class AcceptingThread::Handshake {
 public:
  Handshake(AcceptingThread& owner, UniqueFd socket, std::shared_ptr<const TlsServer> server, absl::Time end,
            Shaken done)
      : owner_(owner),
        socket_(std::move(socket)),
        tls_(std::make_unique<TlsConnection>(std::move(server))),
        done_(std::move(done)) {
    watch_ = owner_.accepting_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { GoOn(); });
    end_ = owner_.accepting_.StartTimer(end, [this] { Finish(); });
  }
  ~Handshake() {
    owner_.accepting_.Unwatch(watch_);
    owner_.accepting_.CancelTimer(end_);
  }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

 private:
  void GoOn() {
    std::array<char, TlsConnection::kLongestRecord> octets;
    const ssize_t size = ::recv(socket_.get(), octets.data(), octets.size(), MSG_DONTWAIT);
    const bool broken = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
    if (broken) return Break();
    if (size > 0) tls_->Receive({octets.data(), static_cast<size_t>(size)});
    // A handshake's messages fit into the socket's buffer, so a partial write means that the client does not read.
    const std::string output = tls_->TakeOutput();
    const ssize_t sent =
        output.empty() ? 0 : ::send(socket_.get(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(output.size())) return Break();
    if (tls_->state() != TlsConnection::State::kHandshake) return Finish();
    owner_.accepting_.Rearm(watch_, EPOLLIN);
  }

  void Break() {
    tls_.reset();
    Finish();
  }

  // Gives the connection away, and destroys this.
  void Finish() {
    owner_.accepting_.Unwatch(std::exchange(watch_, WatchId::kNone));
    owner_.loop_.Post([done = std::move(done_), socket = std::make_shared<UniqueFd>(std::move(socket_)),
                       tls = std::make_shared<std::unique_ptr<TlsConnection>>(std::move(tls_))] {
      done(std::move(*socket), std::move(*tls));
    });
    owner_.handshakes_.erase(this);
  }

  AcceptingThread& owner_;
  UniqueFd socket_;
  std::unique_ptr<TlsConnection> tls_;
  Shaken done_;
  WatchId watch_ = WatchId::kNone;
  TimerId end_ = TimerId::kNone;
};

AcceptingThread::AcceptingThread(Loop& loop) : loop_(loop) {
  thread_ = std::thread([this] { accepting_.Run(); });
}

AcceptingThread::~AcceptingThread() {
  accepting_.Post([this] { accepting_.Stop(); });
  thread_.join();
  for (const auto& [id, entrance] : entrances_) entrance->Stop();
  handshakes_.clear();
}

AcceptingThread::ListenerId AcceptingThread::Accept(UniqueFd socket, Listener listener) {
  const uint64_t id = ++last_id_;
  const auto entrance = std::make_shared<Entrance>(std::move(socket), std::move(listener), loop_, accepting_);
  entrances_[id] = entrance;
  accepting_.Post([entrance] { entrance->Start(); });
  return ListenerId(id);
}

void AcceptingThread::Stop(ListenerId id) {
  const auto entrance = entrances_.extract(static_cast<uint64_t>(id));
  if (!entrance) return;
  entrance.mapped()->Close();
  accepting_.Post([stopped = entrance.mapped()] { stopped->Stop(); });
}

void AcceptingThread::Shake(UniqueFd socket, std::shared_ptr<const TlsServer> server, absl::Time end, Shaken done) {
  accepting_.Post([this, socket = std::make_shared<UniqueFd>(std::move(socket)), server = std::move(server), end,
                   done = std::move(done)] {
    auto handshake = std::make_unique<Handshake>(*this, std::move(*socket), server, end, done);
    handshakes_[handshake.get()] = std::move(handshake);
  });
}

}  // namespace rdmabroker
