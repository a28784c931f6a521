//! What `layercast send --dry-run` says.

use layercast_multicast::model::{Estimate, estimate};
use layercast_multicast::{Members, RateControl, Repair};
use layercast_net::{Destination, SendConfig, SendPlan};

use super::args::Send;
use super::line::{self, SendLine};
use super::{Say, octets};
use crate::failure::{Failure, Outcome};
use crate::output::count;

/// Seconds from the end of a pass until all answers are there, in a local network.
const TURN_AROUND: f64 = 0.01;
/// Seconds between the answers of two receivers.
const BETWEEN: f64 = 0.0005;
/// Octets of memory of a sender beside its blocks, and of a receiver beside its parities.
const PROCESS: u64 = 10 << 20;
/// Octets of parities that a receiver keeps at most.
const PARITIES: u64 = 64 << 20;

/// Prints what would be sent, and what it takes.
pub fn print(args: &Send, config: &SendConfig, plan: &SendPlan, say: &Say) -> Outcome {
    let machine = &config.machine;
    let packet = u64::from(machine.packet_size.max(1));
    let packets: u64 = plan.sizes().map(|size| size.div_ceil(packet)).sum();
    let receivers = receivers(config);
    let bps = match machine.rate {
        RateControl::Fixed(rate) => rate.as_bps(),
        RateControl::Monitor(it) | RateControl::Friendly(it) => it.start.as_bps(),
        RateControl::Free => 100_000_000,
    };
    let rate = bps as f64 / 8.0 / packet as f64;
    let expected = match packets {
        0 => None,
        packets => {
            let it = estimate(
                receivers,
                packets,
                args.expect_loss,
                rate,
                TURN_AROUND,
                BETWEEN,
            );
            Some(it.map_err(Failure::new)?)
        }
    };
    let repairs = packets as f64 * (share(&machine.repair, expected.as_ref()) - 1.0).max(0.0);
    let proactive = match machine.repair {
        Repair::Parity { proactive, .. } => {
            packets.div_ceil(u64::from(machine.block.max(1))) * u64::from(proactive)
        }
        _ => 0,
    };
    let sent = packets + proactive + repairs.ceil() as u64;
    let seconds = sent as f64 / rate;
    // Twice a block, once as packets and once as symbols of the code, and a bit for each packet.
    let largest = plan.sizes().max().unwrap_or(0);
    let memory = PROCESS
        + 2 * packet * u64::from(machine.block)
        + plan.manifest_octets() * 2
        + largest.div_ceil(packet) / 8;
    let at_receiver =
        PROCESS + PARITIES.min(largest) + largest.div_ceil(packet) / 8 + largest / 32_768;
    let what = match machine.repair {
        Repair::Parity { .. } => "parities",
        _ => "packets sent again",
    };
    let percent = args.expect_loss * 100.0;
    let human = format!(
        "{} and {}, {}\n\
         {} of {packet} bytes, and about {} {what} if each of {} loses {percent} %\n\
         about {} at {:.1} Mbit/s, the time to read each file for its digest, and up to {} (--wait) for receivers\n\
         memory: about {} here, up to {} at a receiver\n\
         nothing was sent",
        count(plan.files(), "file"),
        count(plan.folders(), "folder"),
        octets(plan.octets()),
        count(packets, "packet"),
        sent - packets,
        count(receivers, "receiver"),
        time(seconds),
        bps as f64 / 1e6,
        time(args.wait.as_secs_f64()),
        octets(memory),
        octets(at_receiver),
    );
    say.event(
        &SendLine::Estimate(line::Estimate {
            files: plan.files(),
            folders: plan.folders(),
            octets: plan.octets(),
            packets,
            packet,
            receivers,
            loss: args.expect_loss,
            repairs: sent - packets,
            rate_bps: bps,
            seconds,
            wait_seconds: args.wait.as_secs_f64(),
            passes: expected.map_or(0.0, |it| 1.0 + it.rounds),
            memory_sender: memory,
            memory_receiver: at_receiver,
        }),
        &human,
    )
}

/// Packets that are sent for each packet of the files, with repairs.
fn share(repair: &Repair, expected: Option<&Estimate>) -> f64 {
    match (repair, expected) {
        (_, None) => 1.0,
        (Repair::Parity { .. }, Some(it)) => it.with_parities,
        (_, Some(it)) => it.transmissions,
    }
}

/// Receivers that are expected.
fn receivers(config: &SendConfig) -> u64 {
    let hosts = match &config.to {
        Destination::Hosts(hosts) => hosts.len() as u64,
        Destination::Group { .. } => 1,
    };
    match &config.members {
        Members::Listed(members) => members.len() as u64,
        Members::Anyone { expect, .. } => expect.map_or(hosts, u64::from),
    }
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
