// One end of SRT for scripts/peers/transports.py; prints JSON as crates/net/examples/transports does.
//
// Usage: srt take|hear|bulk|pace MODE ADDRESS PORT [SECONDS [RATE]]
// MODE live: message by message, each in a packet, late ones dropped, `RATE` bytes/s at most (0: no limit).
// MODE file: a stream with SRT's own congestion control. `hear` takes what `pace` sends.

#include <srt/srt.h>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace
{

// The most that SRT puts into a packet, and the messages whose delay is measured.
constexpr int kPacket = 1456;
constexpr int kMessage = 200;
constexpr int kBlock = 64 << 10;
constexpr int64_t kGap = 1000000;
constexpr size_t kWarmUp = 200;

int64_t
Now()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

double
CpuSeconds()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec + used.tv_nsec / 1e9;
}

[[noreturn]] void
Fail(const char* what)
{
    std::fprintf(stderr, "srt: %s: %s\n", what, srt_getlasterror_str());
    std::exit(1);
}

template <typename T>
void
Set(SRTSOCKET socket, SRT_SOCKOPT option, T value)
{
    if (srt_setsockflag(socket, option, &value, sizeof value) == SRT_ERROR)
    {
        Fail("option");
    }
}

SRTSOCKET
Open(const std::string& mode, bool paced, int64_t rate)
{
    SRTSOCKET socket = srt_create_socket();
    Set(socket, SRTO_TRANSTYPE, mode == "live" ? SRTT_LIVE : SRTT_FILE);
    // Room for what a fast path carries in the 120 ms that live media wait for what was lost.
    Set(socket, SRTO_FC, 60000);
    int buffer = mode == "live" ? 64 << 20 : 8 << 20;
    Set(socket, SRTO_SNDBUF, buffer);
    Set(socket, SRTO_RCVBUF, buffer);
    Set(socket, SRTO_UDP_SNDBUF, 4 << 20);
    Set(socket, SRTO_UDP_RCVBUF, 4 << 20);
    if (mode == "live")
    {
        Set(socket, SRTO_PAYLOADSIZE, kPacket);
        Set(socket, SRTO_MAXBW, rate > 0 ? rate : int64_t{-1});
        // A message is given out when it comes, not at a playout time.
        if (paced)
        {
            Set(socket, SRTO_LATENCY, 0);
        }
    }
    return socket;
}

sockaddr_in
Address(const char* host, const char* port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
}

int
Take(const std::string& mode, bool paced, sockaddr_in address)
{
    SRTSOCKET listener = Open(mode, paced, 0);
    if (srt_bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == SRT_ERROR ||
        srt_listen(listener, 1) == SRT_ERROR)
    {
        Fail("listen");
    }
    std::printf("{\"ready\": \"%d\"}\n", ntohs(address.sin_port));
    std::fflush(stdout);
    SRTSOCKET socket = srt_accept(listener, nullptr, nullptr);
    if (socket == SRT_INVALID_SOCK)
    {
        Fail("accept");
    }
    std::vector<char> buffer(256 << 10);
    std::vector<double> delays;
    uint64_t bytes = 0;
    int64_t first = 0;
    int64_t last = 0;
    double before = 0;
    while (true)
    {
        int got = srt_recv(socket, buffer.data(), static_cast<int>(buffer.size()));
        if (got <= 0)
        {
            break;
        }
        last = Now();
        if (bytes == 0)
        {
            first = last;
            before = CpuSeconds();
        }
        bytes += static_cast<uint64_t>(got);
        if (paced && got == kMessage)
        {
            int64_t sent = 0;
            std::memcpy(&sent, buffer.data(), sizeof sent);
            delays.push_back((last - sent) / 1e3);
        }
    }
    double cpu = CpuSeconds() - before;
    std::printf("{\"bytes\": %llu, \"seconds\": %f, \"cpu_seconds\": %f",
                static_cast<unsigned long long>(bytes),
                (last - first) / 1e9,
                cpu);
    if (delays.size() > kWarmUp)
    {
        delays.erase(delays.begin(), delays.begin() + kWarmUp);
        std::sort(delays.begin(), delays.end());
        auto at = [&](double q) { return delays[static_cast<size_t>((delays.size() - 1) * q)]; };
        std::printf(", \"messages\": %zu, \"p50_us\": %f, \"p99_us\": %f, \"worst_us\": %f",
                    delays.size(),
                    at(0.5),
                    at(0.99),
                    at(1.0));
    }
    std::printf("}\n");
    return 0;
}

int
Send(const std::string& mode, bool paced, sockaddr_in address, double seconds, int64_t rate)
{
    SRTSOCKET socket = Open(mode, paced, rate);
    if (srt_connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == SRT_ERROR)
    {
        Fail("connect");
    }
    int piece = paced ? kMessage : mode == "live" ? kPacket : kBlock;
    std::vector<char> data(static_cast<size_t>(piece), 0x5a);
    double before = CpuSeconds();
    int64_t due = Now();
    int64_t end = due + static_cast<int64_t>(seconds * 1e9);
    uint64_t sent = 0;
    while (true)
    {
        if (paced)
        {
            due += kGap;
            timespec until{due / 1000000000, due % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
        }
        int64_t now = Now();
        if (now >= end)
        {
            break;
        }
        std::memcpy(data.data(), &now, sizeof now);
        int done = 0;
        while (done < piece)
        {
            int count = srt_send(socket, data.data() + done, piece - done);
            if (count == SRT_ERROR)
            {
                Fail("send");
            }
            done += count;
        }
        sent += static_cast<uint64_t>(piece);
    }
    // What was handed over leaves before the socket closes.
    for (int waiting = 1, tries = 0; waiting > 0 && tries < 500; ++tries)
    {
        size_t blocks = 0;
        size_t held = 0;
        if (srt_getsndbuffer(socket, &blocks, &held) == SRT_ERROR)
        {
            break;
        }
        waiting = static_cast<int>(blocks);
        timespec pause{0, 10000000};
        nanosleep(&pause, nullptr);
    }
    double cpu = CpuSeconds() - before;
    srt_close(socket);
    std::printf("{\"sent\": %llu, \"cpu_seconds\": %f}\n", static_cast<unsigned long long>(sent), cpu);
    return 0;
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc < 5)
    {
        std::fprintf(stderr, "usage: srt take|hear|bulk|pace live|file ADDRESS PORT [SECONDS [RATE]]\n");
        return 2;
    }
    std::string role = argv[1];
    sockaddr_in address = Address(argv[3], argv[4]);
    srt_startup();
    int result = 0;
    if (role == "take" || role == "hear")
    {
        result = Take(argv[2], role == "hear", address);
    }
    else
    {
        double seconds = argc > 5 ? std::atof(argv[5]) : 5;
        int64_t rate = argc > 6 ? std::atoll(argv[6]) : 0;
        result = Send(argv[2], role == "pace", address, seconds, rate);
    }
    srt_cleanup();
    return result;
}
