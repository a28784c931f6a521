"""Simulates a bottleneck link with queues of several lengths, prints a table and draws a plot.

python simulate_and_plot.py queue.png
"""

import sys

import matplotlib

matplotlib.use("agg")

import layercast
import matplotlib.pyplot as plt


def scenario(queue: int) -> dict:
    """Four TCP connections over 10 Mbit/s and a round trip of 24 ms."""
    return {
        "schema": "internet/1",
        "name": "bottleneck",
        "run": {"duration": "20s", "warm_up": "5s"},
        "topology": {
            "kind": "dumbbell",
            "pairs": 4,
            "trunk": {"rate": "10 Mbit/s", "delay": "10ms", "queue": f"{queue} packets"},
            "access": {"rate": "1 Gbit/s", "delay": "1ms"},
        },
        "flow": [{"from": "left{1..4}", "to": "right{1..4}"}],
    }


def main(path: str) -> None:
    queues = [5, 10, 20, 50, 100]
    goodputs, waits = [], []
    print("queue_packets,goodput_mbps,mean_wait_ms")
    for queue in queues:
        summary = layercast.run(scenario(queue)).summary
        trunk = next(it for it in summary["queues"] if it["name"] == "left->right")
        goodputs.append(sum(flow["goodput_bps"] for flow in summary["flows"]) / 1e6)
        waits.append(trunk["mean_wait"] * 1e3)
        print(f"{queue},{goodputs[-1]:.3f},{waits[-1]:.2f}")
    _, (above, below) = plt.subplots(2, sharex=True)
    above.plot(queues, goodputs, "o-")
    above.set_ylabel("goodput (Mbit/s)")
    below.plot(queues, waits, "o-")
    below.set_ylabel("mean wait (ms)")
    below.set_xlabel("queue (packets)")
    plt.savefig(path)


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
