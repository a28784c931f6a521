// The dumbbell of python/layercast_lab/peers for htsim (Broadcom/csg-htsim); prints one JSON object.
//
// Usage: htsim-dumbbell NAME VALUE ... with the names that the programs for ns-2 and ns-3 take. There is
// NewReno without SACK and without delayed acknowledgements, and drop-tail queues only.

#include "clock.h"
#include "config.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::map<std::string, std::string> given;

double number(const std::string &name) { return std::stod(given.at(name)); }

// One direction of a link: a queue whose limit, other than that of the others, counts the packet being sent.
struct Link {
    Queue queue;
    Pipe pipe;

    Link(double bps, double delay, double packets, EventList &events)
        : queue(linkspeed_bps(bps), mem_b((packets + 1) * (number("mss") + 40)), events, nullptr),
          pipe(timeFromSec(delay), events) {}

    void join(Route &route) {
        route.push_back(&queue);
        route.push_back(&pipe);
    }
};

} // namespace

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2)
        given[argv[i]] = argv[i + 1];
    const double full = number("mss") + 40;
    // htsim's sources tell of time-outs.
    std::cout.setstate(std::ios_base::failbit);

    EventList &events = EventList::getTheEventList();
    events.setEndtime(timeFromSec(number("seconds")));
    Packet::set_packet_size(int(full));
    TcpRtxTimerScanner timers(timeFromMs(10), events);

    std::vector<std::unique_ptr<Link>> links;
    auto link = [&](double bps, double delay, double packets) {
        links.push_back(std::make_unique<Link>(bps, delay, packets, events));
        return links.back().get();
    };
    Link *there = link(number("trunk_bps"), number("trunk_delay"), number("queue"));
    Link *back = link(number("trunk_bps"), number("trunk_delay"), number("queue"));
    auto access = [&] { return link(number("access_bps"), number("access_delay"), 1e6); };

    std::vector<std::unique_ptr<TcpSrc>> sources;
    std::vector<std::unique_ptr<TcpSink>> sinks;
    std::vector<std::unique_ptr<Route>> routes;
    std::istringstream starts(given.at("starts"));
    for (double start; starts >> start;) {
        sources.push_back(std::make_unique<TcpSrc>(nullptr, nullptr, events));
        sinks.push_back(std::make_unique<TcpSink>());
        TcpSrc &source = *sources.back();
        source.set_cwnd(uint64_t(number("initial_window") * full));
        source.set_ssthresh(0xffffffff);
        timers.registerTcp(source);
        auto out = std::make_unique<Route>();
        auto in = std::make_unique<Route>();
        for (Link *on : {access(), there, access()})
            on->join(*out);
        for (Link *on : {access(), back, access()})
            on->join(*in);
        out->push_back(sinks.back().get());
        in->push_back(&source);
        source.connect(*out, *in, *sinks.back(), timeFromSec(start));
        routes.push_back(std::move(out));
        routes.push_back(std::move(in));
    }
    while (events.doNextEvent()) {
    }

    double sent = 0, received = 0;
    std::ostringstream goodputs;
    for (std::size_t n = 0; n < sources.size(); ++n) {
        sent += sources[n]->_packets_sent / full;
        received += sinks[n]->_packets / full;
        double bits = 8.0 * sinks[n]->_cumulative_ack * number("mss") / full;
        goodputs << (n ? "," : "") << bits / number("seconds");
    }
    std::cout.clear();
    std::cout << "{\"goodputs\": [" << goodputs.str() << "], \"sent\": " << uint64_t(sent)
              << ", \"acks\": " << uint64_t(received) << ", \"drops\": " << there->queue.num_drops() << "}" << std::endl;
    return 0;
}
