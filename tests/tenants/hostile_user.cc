// SPDX-License-Identifier: Apache-2.0

// A user who harms others, or tries to: runs one of the attacks of attacks.h until the end of its input. Says when the
// attack is under way, and in the end what it did and what it saw, "WHAT: TIMES" a line.

#include <signal.h>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "tests/descriptor_limit.h"
#include "tests/tenants/attacker.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/become_user.h"

int main(int argc, char** argv) {
  using rdmabroker::tenants::Attack;
  std::string name;
  uid_t uid = 0;
  rdmabroker::tenants::Places places;
  CLI::App app{"A hostile user."};
  app.add_option("--attack", name, "Its name")->required();
  app.add_option("--uid", uid, "Who it is")->required();
  app.add_option("--control-socket", places.control_socket)->required();
  app.add_option("--handoff-socket", places.handoff_socket)->required();
  app.add_option("--tcp", places.tcp)->required();
  app.add_option("--listener", places.listener)->required();
  app.add_option("--certificates", places.certificates)->required();
  app.add_option("--host", places.host)->required();
  CLI11_PARSE(app, argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  rdmabroker::RaiseDescriptorLimit();
  rdmabroker::tenants::BecomeUser(uid);
  for (const Attack& attack : rdmabroker::tenants::Attacks()) {
    if (attack.name != name) continue;
    rdmabroker::tenants::Attacker attacker(places);
    attack.run(attacker);
    attacker.PrintCounts();
    return 0;
  }
  std::cout << "there is no such attack" << std::endl;
  return 1;
}
