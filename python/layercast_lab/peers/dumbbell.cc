// The dumbbell of python/layercast_lab/dumbbell.py for ns-3.37; prints one JSON object.
//
// Usage: dumbbell NAME VALUE ... with the names of `Cell.arguments`.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

using namespace ns3;

namespace
{

std::map<std::string, std::string> given;
uint64_t hops = 0;
uint64_t drops = 0;
uint64_t marks = 0;
/// Seconds in the queueing discipline of the trunk, after the warm-up.
std::vector<double> sojourns;

double
Number(const std::string& name)
{
    return std::stod(given.at(name));
}

void
CountHop(Ptr<const Packet>)
{
    ++hops;
}

void
CountDrop(Ptr<const Packet>)
{
    ++drops;
}

void
CountDiscDrop(Ptr<const QueueDiscItem>)
{
    ++drops;
}

void
CountMark(Ptr<const QueueDiscItem>, const char*)
{
    ++marks;
}

void
KeepSojourn(Time sojourn)
{
    if (Simulator::Now().GetSeconds() >= Number("warm_up"))
    {
        sojourns.push_back(sojourn.GetSeconds());
    }
}

/// The header of PPP takes 2 bytes more than IP: with this rate a full packet takes as long as without.
DataRate
Rate(const std::string& name)
{
    double full = Number("mss") + 40;
    return DataRate(static_cast<uint64_t>(Number(name) * (full + 2) / full + 0.5));
}

void
Count(Ptr<NetDevice> device)
{
    device->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
}

} // namespace

int
main(int argc, char** argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
    {
        given[argv[i]] = argv[i + 1];
    }
    auto mss = static_cast<uint32_t>(Number("mss"));
    auto window = static_cast<uint32_t>(Number("window")) * mss;
    RngSeedManager::SetRun(static_cast<uint64_t>(Number("seed")));

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    // The default is proportional rate reduction (RFC 6937); this is RFC 6582 and RFC 6675.
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(given.at("variant") == "sack"));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(static_cast<uint32_t>(Number("initial_window"))));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(Number("delayed_acks") != 0 ? 2 : 1));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));

    NodeContainer routers(2);
    PointToPointHelper trunk;
    trunk.SetDeviceAttribute("DataRate", DataRateValue(Rate("trunk_bps")));
    trunk.SetChannelAttribute("Delay", TimeValue(Seconds(Number("trunk_delay"))));
    // With a queueing discipline above it the device keeps one packet waiting, which the
    // discipline does not see: limit and thresholds are one packet lower there.
    bool red = Number("red") != 0;
    std::string aqm = given.count("aqm") ? given.at("aqm") : "";
    bool disciplined = red || !aqm.empty();
    auto limit = static_cast<uint32_t>(Number("queue"));
    trunk.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(PACKETS, disciplined ? 1 : limit)));
    NetDeviceContainer middle = trunk.Install(routers);

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", DataRateValue(Rate("access_bps")));
    access.SetChannelAttribute("Delay", TimeValue(Seconds(Number("access_delay"))));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(PACKETS, 1000000)));

    std::vector<double> starts;
    std::istringstream list(given.at("starts"));
    for (double start; list >> start;)
    {
        starts.push_back(start);
    }
    NodeContainer lefts(starts.size());
    NodeContainer rights(starts.size());
    InternetStackHelper stack;
    stack.Install(routers);
    stack.Install(lefts);
    stack.Install(rights);

    TrafficControlHelper none;
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    auto assign = [&](NetDeviceContainer& devices, bool keep) {
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        if (!keep)
        {
            none.Uninstall(devices);
        }
        return interfaces;
    };
    if (red)
    {
        TrafficControlHelper disc;
        disc.SetRootQueueDisc("ns3::RedQueueDisc",
                              "MaxSize", QueueSizeValue(QueueSize(PACKETS, limit - 1)),
                              "MinTh", DoubleValue(Number("red_min") - 1),
                              "MaxTh", DoubleValue(Number("red_max") - 1),
                              "QW", DoubleValue(Number("red_weight")),
                              "LInterm", DoubleValue(1 / Number("red_max_p")),
                              "Gentle", BooleanValue(true),
                              "Wait", BooleanValue(false),
                              "MeanPktSize", UintegerValue(mss + 40),
                              "IdlePktSize", UintegerValue(mss + 40),
                              "LinkBandwidth", DataRateValue(DataRate(static_cast<uint64_t>(Number("trunk_bps")))),
                              "LinkDelay", TimeValue(Seconds(Number("trunk_delay"))));
        QueueDiscContainer discs = disc.Install(middle);
        discs.Get(0)->TraceConnectWithoutContext("Drop", MakeCallback(&CountDiscDrop));
    }
    else if (!aqm.empty())
    {
        TrafficControlHelper disc;
        QueueSizeValue most(QueueSize(PACKETS, limit));
        if (aqm == "pie")
        {
            disc.SetRootQueueDisc("ns3::PieQueueDisc",
                                  "MaxSize", most,
                                  "MeanPktSize", UintegerValue(mss + 40),
                                  "QueueDelayReference", TimeValue(MilliSeconds(15)),
                                  "Tupdate", TimeValue(MilliSeconds(15)),
                                  "Supdate", TimeValue(MilliSeconds(0)),
                                  "MaxBurstAllowance", TimeValue(MilliSeconds(150)),
                                  "A", DoubleValue(0.125),
                                  "B", DoubleValue(1.25));
        }
        else if (aqm == "codel")
        {
            disc.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", most, "MinBytes", UintegerValue(1500));
        }
        else
        {
            disc.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", most);
        }
        QueueDiscContainer discs = disc.Install(middle);
        discs.Get(0)->TraceConnectWithoutContext("Drop", MakeCallback(&CountDiscDrop));
        discs.Get(0)->TraceConnectWithoutContext("Mark", MakeCallback(&CountMark));
        discs.Get(0)->TraceConnectWithoutContext("SojournTime", MakeCallback(&KeepSojourn));
    }
    else
    {
        // A full device stops the layer above, which then drops.
        routers.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop",
                                                                                     MakeCallback(&CountDrop));
    }
    assign(middle, disciplined);
    Count(middle.Get(0));
    Count(middle.Get(1));

    std::vector<Ptr<PacketSink>> sinks;
    for (std::size_t n = 0; n < starts.size(); ++n)
    {
        NetDeviceContainer one = access.Install(lefts.Get(n), routers.Get(0));
        NetDeviceContainer two = access.Install(routers.Get(1), rights.Get(n));
        assign(one, false);
        Ipv4Address to = assign(two, false).GetAddress(1);
        for (auto& pair : {one, two})
        {
            Count(pair.Get(0));
            Count(pair.Get(1));
        }
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(to, 5000));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(rights.Get(n)).Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, 5000));
        bulk.SetAttribute("SendSize", UintegerValue(mss));
        bulk.Install(lefts.Get(n)).Start(Seconds(starts[n]));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<uint64_t> before(starts.size(), 0);
    Simulator::Schedule(Seconds(Number("warm_up")), [&] {
        for (std::size_t n = 0; n < sinks.size(); ++n)
        {
            before[n] = sinks[n]->GetTotalRx();
        }
    });
    Simulator::Stop(Seconds(Number("seconds")));
    Simulator::Run();

    double over = Number("seconds") - Number("warm_up");
    std::cout << "{\"goodputs\": [";
    for (std::size_t n = 0; n < sinks.size(); ++n)
    {
        std::cout << (n ? "," : "") << 8.0 * (sinks[n]->GetTotalRx() - before[n]) / over;
    }
    std::cout << "], \"drops\": " << drops << ", \"hops\": " << hops;
    if (!sojourns.empty())
    {
        double sum = 0;
        for (double one : sojourns)
        {
            sum += one;
        }
        std::sort(sojourns.begin(), sojourns.end());
        auto quantile = [&](double q) { return sojourns[static_cast<std::size_t>(q * (sojourns.size() - 1))]; };
        std::cout << ", \"mean_wait\": " << sum / sojourns.size() << ", \"p50\": " << quantile(0.5)
                  << ", \"p95\": " << quantile(0.95) << ", \"marks\": " << marks;
    }
    std::cout << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
