//! Hosts of specs/network-interface-framework.md 5, short: what holds of any seed.

use layercast_core::Span;
use layercast_host::Network;
use layercast_host::buffers::{Adapter, Buffers};
use layercast_host::jitter::{Jitter, JitterError, JitterReport, Scheduling};
use layercast_host::transfer::{Stack, Transfer, TransferReport};
use layercast_nif::{Policy, Refill};

fn jitter(
    network: Network,
    scheduling: Scheduling,
    transfers: u32,
    has_program: bool,
) -> JitterReport {
    let config = Jitter {
        network,
        scheduling,
        transfers,
        has_program,
        frames: 400,
        ..Jitter::default()
    };
    let report = config.run().unwrap();
    assert_eq!((report.frames, report.copied, report.dropped), (400, 0, 0));
    report
}

#[test]
fn jitter_grows_with_transfers_and_not_with_a_priority_for_the_video() {
    let fcfs = [0, 1, 3].map(|n| jitter(Network::Ethernet, Scheduling::Fcfs, n, false));
    assert!(fcfs[0].variance_ms2 < 1.5, "{:?}", fcfs[0]);
    assert!(
        fcfs[1].variance_ms2 > 8.0 && fcfs[2].variance_ms2 > 50.0,
        "{fcfs:?}"
    );
    // The network is not what does it.
    assert!(
        fcfs[2].network_variance_ms2 < 0.05 * fcfs[2].variance_ms2,
        "{fcfs:?}"
    );
    let priority = jitter(Network::Atm, Scheduling::Priority, 3, false);
    assert!(priority.variance_ms2 < 10.0, "{priority:?}");
    for scheduling in [Scheduling::Preemptive, Scheduling::Deadline] {
        let report = jitter(Network::Atm, scheduling, 3, false);
        assert!(report.variance_ms2 < 2.0, "{report:?}");
        assert!(report.transfer_packets_per_s > 0.9 * fcfs[2].transfer_packets_per_s);
    }
}

#[test]
fn software_interrupts_take_the_processor_from_programs() {
    let share = |scheduling| {
        jitter(Network::Atm, scheduling, 8, true)
            .program_share
            .unwrap()
    };
    let (inside, threads) = (
        share(Scheduling::SoftirqPriority),
        share(Scheduling::Priority),
    );
    assert!(inside < 0.75 * threads, "{inside} {threads}");
}

#[test]
fn frames_of_several_packets_are_shown_whole() {
    let config = Jitter {
        packets_per_frame: 4,
        frames: 100,
        transfers: 1,
        ..Jitter::default()
    };
    let report = config.run().unwrap();
    assert_eq!((report.frames, report.missed), (100, 0));
    assert_eq!(config.run(), Ok(report));
}

#[test]
fn bad_hosts_are_refused() {
    let refused = |change: fn(&mut Jitter)| {
        let mut config = Jitter::default();
        change(&mut config);
        config.run().unwrap_err()
    };
    let needs = JitterError::NeedsCircuits(Scheduling::Priority);
    assert_eq!(refused(|it| it.scheduling = Scheduling::Priority), needs);
    assert_eq!(refused(|it| it.frames = 2), JitterError::Size);
    assert_eq!(refused(|it| it.window = 0), JitterError::Size);
    assert_eq!(refused(|it| it.transfers = 33), JitterError::Size);
    assert_eq!(refused(|it| it.packets_per_frame = 0), JitterError::Size);
}

fn transfer(sender: Stack, receiver: Stack, message: usize) -> TransferReport {
    let duration = Span::from_secs(4);
    let buffers = |stack, other| {
        if stack == Stack::Sunos && other != Stack::Sunos {
            32_768
        } else {
            16_384
        }
    };
    let socket_buffers = [buffers(sender, receiver), buffers(receiver, sender)];
    Transfer {
        sender,
        receiver,
        socket_buffers,
        message,
        duration,
    }
    .run()
}

/// Tables 1 and 2, within 5 %.
#[test]
fn transfers_are_as_fast_as_the_tables_say() {
    for (stack, received, sent) in [
        (Stack::XKernel, [950.0, 1_080.0], [920.0, 920.0]),
        (Stack::Bsd, [1_030.0, 1_060.0], [980.0, 980.0]),
        (Stack::Sunos, [1_080.0, 1_080.0], [1_050.0, 1_060.0]),
    ] {
        for (at, message) in [1_024, 4_096].into_iter().enumerate() {
            let receive = transfer(Stack::Sunos, stack, message);
            let send = transfer(stack, Stack::Sunos, message);
            for (report, told) in [(receive, received[at]), (send, sent[at])] {
                let ratio: f64 = report.kbytes_per_s / told;
                assert!(
                    (ratio - 1.0).abs() < 0.05,
                    "{stack:?} {message}: {told} {report:?}"
                );
                assert_eq!((report.copied, report.dropped), (0, 0));
                assert!(
                    report.sender_busy < 1.01
                        && report.receiver_busy < 1.01
                        && report.wire_busy < 1.0
                );
            }
        }
    }
}

#[test]
fn only_the_client_that_keeps_its_buffers_loses_packets() {
    for adapter in [Adapter::Ring, Adapter::Circuits] {
        for refill in [Refill::Lazy, Refill::Eager] {
            for policy in [Policy::SwapOrReturn, Policy::MustReturn, Policy::PeekOnly] {
                let config = Buffers {
                    adapter,
                    policy,
                    refill,
                    pool: 6,
                    packets: 50,
                    has_hog: true,
                };
                let report = config.run().unwrap();
                assert!(
                    report.conserved && report.leaked == 0,
                    "{config:?} {report:?}"
                );
                assert_eq!(
                    (report.first.delivered, report.first.drops.total()),
                    (50, 0)
                );
                let lost = if policy == Policy::PeekOnly { 0 } else { 44 };
                assert_eq!(report.second.drops.total(), lost, "{config:?}");
                let copies = if (adapter, policy) == (Adapter::Ring, Policy::MustReturn) {
                    1.0
                } else {
                    0.0
                };
                assert_eq!(report.copies_per_packet, copies, "{config:?}");
            }
        }
    }
}
