// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker::misuse {
namespace {

// The memory of all regions. It stays mapped, as what is registered has to.
constexpr size_t kRegions = 256;
alignas(kFastRegisterPageSize) std::array<uint8_t, kRegions * kMemory> memory_of_regions;

std::string PlaceName(const Place& place) {
  switch (place.where) {
    case Where::kMain:
      return "";
    case Where::kSessionThread:
      return absl::StrCat(" [on the thread of session ", place.party, "]");
    default:
      return " [on another thread]";
  }
}

}  // namespace

std::string NameOf(const Owned& owned) {
  return absl::StrCat(kKindNames[static_cast<size_t>(owned.kind)], " #", owned.number);
}

Lease& Lease::operator=(Lease&& other) noexcept {
  Return();
  owned_ = std::move(other.owned_);
  referenced_ = std::exchange(other.referenced_, nullptr);
  return *this;
}

void Lease::Return() {
  owned_ = nullptr;
  if (DataObject* const referenced = std::exchange(referenced_, nullptr); referenced != nullptr) {
    referenced->ReleaseReference();
  }
}

// --- Tickets ---

Ticket::Ticket(std::shared_ptr<Stage> stage, uint32_t number, std::string what, OwnedPtr owner)
    : stage_(std::move(stage)), number_(number), what_(std::move(what)), owner_(std::move(owner)) {}

void Ticket::Returned(NdkStatus status) {
  stage_->Log(absl::StrCat(number_, ": ", what_, " = ", std::string(StatusName(status))));
  {
    const std::lock_guard lock(mutex_);
    returned_ = status;
    Check();
  }
  stage_->Changed();
}

void Ticket::Completed() {
  {
    const std::lock_guard lock(mutex_);
    ++completions_;
    Check();
  }
  stage_->Changed();
}

void Ticket::Waited() {
  {
    const std::lock_guard lock(mutex_);
    waited_ = true;
  }
  stage_->Changed();
}

void Ticket::Check() {
  const int allowed = !returned_.has_value() || *returned_ == NdkStatus::kPending ? 1 : 0;
  if (completions_ <= allowed) return;
  const std::string how = returned_.has_value() ? std::string(StatusName(*returned_)) : "nothing yet";
  stage_->Fail(absl::StrCat(number_, ": ", what_, " has had ", completions_, " completions and returned ", how));
}

bool Ticket::ended() const {
  const std::lock_guard lock(mutex_);
  if (waited_) return true;
  return returned_.has_value() && (*returned_ != NdkStatus::kPending || completions_ > 0);
}

std::string Ticket::ToString() const {
  const std::lock_guard lock(mutex_);
  return absl::StrCat(number_, ": ", what_, returned_.has_value() ? " is pending" : " has not returned");
}

// --- Stage ---

Stage::Stage(const ndkpi::Surroundings& surroundings, uint64_t its_seed, Tally& its_tally,
             std::array<client::Session*, 2> party_sessions, std::string socket)
    : on(surroundings), seed(its_seed), tally(its_tally), sessions(party_sessions), control_socket(std::move(socket)) {}

OwnedPtr Stage::Add(OwnedPtr object) {
  const std::lock_guard lock(mutex_);
  object->number = static_cast<uint32_t>(objects_.size() + 1);
  if (object->kind == Kind::kAdapter) {
    object->instance = object->number;
    object->data_closes = session_close_called_[object->party];
  }
  if (object->kind == Kind::kRegion) object->memory = &memory_of_regions[kMemory * (regions_++ % kRegions)];
  objects_.push_back(object);
  changed_.notify_all();
  return object;
}

Lease Stage::Borrow(const OwnedPtr& object) {
  return object->broker != nullptr ? Lease(object, nullptr) : BorrowData(object);
}

Lease Stage::BorrowData(const OwnedPtr& object) {
  const std::lock_guard lock(mutex_);
  if (object->data == nullptr || (object->data_closes && !object->kept)) return {};
  object->data->AddReference();
  return {object, object->data};
}

std::vector<OwnedPtr> Stage::Objects() const {
  const std::lock_guard lock(mutex_);
  return objects_;
}

bool Stage::BeginClose(const OwnedPtr& object) {
  const std::lock_guard lock(mutex_);
  object->data_closes = true;
  return !object->close_called.exchange(true);
}

bool Stage::Keep(const OwnedPtr& object) {
  const std::lock_guard lock(mutex_);
  if (object->data == nullptr || object->data_closes || object->kept.exchange(true)) return false;
  object->data->AddReference();
  return true;
}

bool Stage::LetGo(const OwnedPtr& object) {
  {
    const std::lock_guard lock(mutex_);
    if (!object->kept.exchange(false)) return false;
  }
  object->data->ReleaseReference();
  return true;
}

void Stage::BeginSessionClose(size_t party) {
  const std::lock_guard lock(mutex_);
  for (const OwnedPtr& object : objects_) {
    if (object->kind == Kind::kAdapter && object->party == party) object->data_closes = true;
  }
  session_close_called_[party] = true;
}

bool Stage::session_close_called(size_t party) const {
  const std::lock_guard lock(mutex_);
  return session_close_called_[party];
}

void Stage::NoteAddress(const SocketAddress& address) {
  const std::lock_guard lock(mutex_);
  addresses_.push_back(address);
}

std::vector<SocketAddress> Stage::addresses() const {
  const std::lock_guard lock(mutex_);
  return addresses_;
}

TicketPtr Stage::NewTicket(const std::string& what, OwnedPtr owner, const Place& place) {
  const uint32_t number = NextCall();
  auto ticket = std::make_shared<Ticket>(shared_from_this(), number, what + PlaceName(place), std::move(owner));
  const std::lock_guard lock(mutex_);
  tickets_.push_back(ticket);
  return ticket;
}

void Stage::Log(const std::string& line) {
  const std::lock_guard lock(mutex_);
  log_.push_back(line);
}

void Stage::Fail(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  problems_.push_back(problem);
  log_.push_back("WRONG: " + problem);
}

std::vector<std::string> Stage::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::vector<std::string> Stage::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

void Stage::Spawn(std::function<void()> work) {
  ++waiting_;
  std::thread thread([this, work = std::move(work)] {
    work();
    --waiting_;
    Changed();
  });
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(thread));
}

void Stage::JoinThreads() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool Stage::Idle() const {
  // Whatever ends meanwhile may have begun something else first, which is a call or a thread.
  const uint32_t calls = calls_made_;
  return running_ == 0 && waiting_ == 0 && IdleSince(0) && waiting_ == 0 && calls_made_ == calls;
}

bool Stage::IdleSince(uint32_t number) const {
  std::vector<TicketPtr> tickets;
  {
    const std::lock_guard lock(mutex_);
    tickets = tickets_;
  }
  // A callback runs from before its call has ended.
  return std::all_of(tickets.begin(), tickets.end(),
                     [number](const TicketPtr& one) { return one->number() <= number || one->ended(); }) &&
         running_ == 0;
}

std::vector<std::string> Stage::Unended() const {
  std::vector<TicketPtr> tickets;
  {
    const std::lock_guard lock(mutex_);
    tickets = tickets_;
  }
  std::vector<std::string> unended;
  for (const TicketPtr& ticket : tickets) {
    if (!ticket->ended()) unended.push_back(ticket->ToString());
  }
  return unended;
}

bool Stage::AwaitUntil(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& condition) {
  while (!condition()) {
    // What ends between the question and the wait is seen a little later.
    constexpr std::chrono::milliseconds kGlance{1};
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kGlance);
  }
  return true;
}

void Stage::Changed() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Stage::Clear() {
  std::vector<OwnedPtr> objects;
  std::vector<TicketPtr> tickets;
  const std::lock_guard lock(mutex_);
  objects.swap(objects_);
  tickets.swap(tickets_);
}

// --- Callbacks ---

Callback::Callback(StagePtr stage, OwnedPtr owner, const std::string& what, Place place)
    : stage_(std::move(stage)), owner_(std::move(owner)) {
  ++stage_->running_;
  if (owner_ != nullptr) {
    ++owner_->running;
    if (owner_->closed) stage_->Fail(absl::StrCat(what, " comes after the close of ", NameOf(*owner_)));
  }
  if (place.where == Where::kSessionThread && stage_->session_closed(place.party)) {
    stage_->Fail(absl::StrCat(what, " comes after the close of session ", place.party));
  }
}

Callback::~Callback() {
  if (owner_ != nullptr) --owner_->running;
  --stage_->running_;
  stage_->Changed();
}

}  // namespace rdmabroker::misuse
