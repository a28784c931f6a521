//! Explicit congestion notification: RFC 3168, and the echo of each mark of RFC 8257.

use std::cell::RefCell;
use std::rc::Rc;

use layercast_core::{Span, Stream};
use layercast_tcp::{Ecn, EcnMode, Profile, TcpConfig, TcpPacket, TcpStats, Variant};
use layercast_wire::{Payload, TcpFlags};

use super::net::{Net, VARIANTS, ms};

/// Bytes of segments that the network marked, bytes acknowledged with ECE set, and reductions of the window.
#[derive(Default, Debug)]
struct Seen {
    marked: u64,
    echoed: u64,
    data: u64,
    /// Packets by ECN field and flags that may not be as they are.
    wrong: Vec<String>,
    acked: Option<u32>,
}

fn config(variant: Variant, ecn: EcnMode) -> TcpConfig {
    TcpConfig {
        variant,
        ecn,
        timestamps: false,
        ..TcpConfig::from(Profile::Modern)
    }
}

/// Sends for `seconds`, 20 ms one way; of data segments those that `fate` says are marked or lost.
fn sends(
    configs: [TcpConfig; 2],
    seconds: u64,
    mut fate: impl FnMut(u64) -> Fate + 'static,
) -> (TcpStats, Seen, [bool; 2]) {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (shared, mut highest) = (seen.clone(), 0);
    let capable = match configs[0].ecn {
        EcnMode::L4s => Ecn::Capable1,
        _ => Ecn::Capable0,
    };
    let channel = move |host, mut packet: TcpPacket| {
        let mut seen = shared.borrow_mut();
        let segment = &packet.segment;
        let len = segment.payload.len() as u64;
        if host == 0 && len > 0 {
            seen.data += 1;
            let is_new = segment.seq.0.wrapping_sub(highest) as i32 >= 0 || highest == 0;
            if ![Ecn::NotCapable, capable].contains(&packet.ecn) {
                seen.wrong.push(format!("sent as {:?}", packet.ecn));
            }
            if is_new {
                highest = segment.seq.0;
            } else if packet.ecn.is_capable() {
                seen.wrong.push(format!("sent again: {segment:?}"));
            }
            match fate(seen.data) {
                Fate::Marked if packet.ecn.is_capable() => {
                    packet.ecn = Ecn::Congested;
                    seen.marked += len;
                }
                Fate::Lost => return Vec::new(),
                _ => {}
            }
        } else if packet.ecn.is_capable() {
            seen.wrong.push(format!("no data: {segment:?}"));
        }
        if host == 1 && segment.flags.has(TcpFlags::ACK) {
            let ack = segment.ack.0;
            let before = seen.acked.replace(ack).unwrap_or(ack);
            if segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN) {
                seen.echoed += u64::from(ack.wrapping_sub(before));
            }
        }
        vec![(ms(20), packet)]
    };
    let mut net = Net::new(configs, Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.stream(near, Span::from_secs(seconds));
    let in_use = [(0, near), (1, far)].map(|(host, id)| net.hosts[host].info(id).unwrap().ecn);
    let stats = net.hosts[0].stats();
    drop(net);
    (stats, Rc::into_inner(seen).unwrap().into_inner(), in_use)
}

enum Fate {
    Arrives,
    Marked,
    Lost,
}

#[test]
fn it_is_in_use_if_both_want_it() {
    use EcnMode::{Classic, Off};
    for (a, b) in [
        (Off, Off),
        (Off, Classic),
        (Classic, Off),
        (Classic, Classic),
    ] {
        let configs = [a, b].map(|mode| config(Variant::Sack, mode));
        let (stats, seen, in_use) = sends(configs, 1, |_| Fate::Marked);
        let both = a == Classic && b == Classic;
        assert_eq!(in_use, [both; 2]);
        assert_eq!((seen.marked > 0, stats.ecn_reductions > 0), (both, both));
        assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    }
}

#[test]
fn one_mark_halves_the_window_once() {
    let configs = || [(); 2].map(|()| config(Variant::Sack, EcnMode::Classic));
    let (stats, seen, _) = sends(configs(), 2, |n| match n {
        // Half of a window of slow start.
        60..90 => Fate::Marked,
        _ => Fate::Arrives,
    });
    assert_eq!((stats.ecn_reductions, stats.retransmitted), (1, 0));
    // The echo lasts until the sender says that it has reduced its window, a round trip later.
    assert!(seen.echoed > seen.marked, "{seen:?}");
    // As after a loss, the sender sends half of what it would have sent.
    let (lossy, ..) = sends(configs(), 2, |n| match n {
        60 => Fate::Lost,
        _ => Fate::Arrives,
    });
    let ratio = seen.data as f64 / lossy.sent as f64;
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn marks_and_a_loss_in_one_window_are_one_reduction() {
    let run = |marked: std::ops::Range<u64>| {
        let configs = [(); 2].map(|()| config(Variant::Sack, EcnMode::Classic));
        let (stats, seen, _) = sends(configs, 3, move |n| match n {
            60 => Fate::Lost,
            n if marked.contains(&n) => Fate::Marked,
            _ => Fate::Arrives,
        });
        assert_eq!(stats.fast_retransmits, 1);
        (stats.ecn_reductions, seen.data as f64)
    };
    let (_, alone) = run(0..0);
    // The first duplicate echoes a mark; or recovery has begun before the echo comes.
    for (marked, reductions) in [(61..80, 1), (70..80, 0)] {
        let (counted, data) = run(marked);
        assert_eq!(counted, reductions);
        assert!((data / alone - 1.0).abs() < 0.05, "{data} beside {alone}");
    }
}

/// RFC 8257 3.2: with delayed acknowledgements, too, the sender hears exactly how many bytes were marked.
#[test]
fn each_mark_is_echoed() {
    for seed in 0..20 {
        let mut random = Stream::new(seed, "test/marks");
        let configs = [(); 2].map(|()| config(Variant::Dctcp, EcnMode::EachMark));
        let (stats, seen, in_use) = sends(configs, 2, move |_| match random.below(4) {
            0 => Fate::Marked,
            _ => Fate::Arrives,
        });
        assert_eq!(in_use, [true; 2]);
        assert!(seen.marked > 40_000 && stats.ecn_reductions > 5, "{seen:?}");
        // But for what is under way at the end.
        let missing = seen
            .marked
            .checked_sub(seen.echoed)
            .expect("no more than that");
        assert!(missing < seen.marked / 10, "{seen:?}");
        assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    }
}

#[test]
fn each_mark_is_echoed_where_all_arrives() {
    // Marks end before the run does: nothing is under way.
    for pattern in 0..128_u64 {
        let mode = [EcnMode::EachMark, EcnMode::L4s][pattern as usize % 2];
        let configs = [(); 2].map(|()| config(Variant::Dctcp, mode));
        let (_, seen, _) = sends(configs, 2, move |n| match (pattern / 2) >> (n % 6) & 1 {
            1 if n < 60 => Fate::Marked,
            _ => Fate::Arrives,
        });
        assert_eq!(seen.marked, seen.echoed, "{pattern:07b}");
        assert!(
            (pattern < 2) == (seen.marked == 0) && seen.wrong.is_empty(),
            "{seen:?}"
        );
    }
}

#[test]
fn nothing_is_capable_that_is_sent_again() {
    let mut random = Stream::new(3, "test/fates");
    let configs = [(); 2].map(|()| config(Variant::Dctcp, EcnMode::EachMark));
    let (stats, seen, _) = sends(configs, 10, move |_| match random.below(100) {
        0 => Fate::Lost,
        1..4 => Fate::Marked,
        _ => Fate::Arrives,
    });
    assert!(stats.retransmitted > 5 && seen.wrong.is_empty(), "{seen:?}");
}

/// What acknowledgements say while a time-out is repaired.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// No ECE, whatever the receiver says.
    Nothing,
    /// What the receiver says.
    Theirs,
    /// ECE, all of them.
    Marks,
}

/// What became of a time-out.
#[derive(PartialEq, Debug)]
struct Repair {
    /// Time until all that was sent before it was acknowledged.
    lasted: Span,
    /// Acknowledgements with ECE that came meanwhile, and those after the first new data.
    echoes: [u64; 2],
    /// The first new data after it had CWR, behind the two segments with which F-RTO tries whether it is spurious.
    has_cwr: bool,
    reductions: u64,
}

#[derive(Default)]
struct Stage {
    highest: u32,
    data: u64,
    /// The segment with CWR was lost, and all behind it.
    is_losing: bool,
    /// What the time-out has to have acknowledged.
    recover: Option<u32>,
    is_over: bool,
    new: u64,
    cwr: bool,
    echoes: [u64; 2],
}

impl Stage {
    /// Whether the data arrive, and whether they are marked.
    fn on_data(&mut self, packet: &mut TcpPacket) -> bool {
        let segment = &packet.segment;
        let end = segment.seq.0.wrapping_add(segment.payload.len() as u32);
        let is_new = self.data == 0 || segment.seq.0.wrapping_sub(self.highest) as i32 >= 0;
        let has_cwr = segment.flags.has(TcpFlags::CWR);
        self.data += 1;
        if is_new {
            self.highest = end;
            if self.recover.is_some() {
                self.new += 1;
                self.cwr |= has_cwr && self.new <= 3;
            } else {
                self.is_losing |= has_cwr;
                return !self.is_losing;
            }
        } else if self.is_losing {
            self.recover.get_or_insert(self.highest);
        }
        true
    }

    fn on_ack(&mut self, packet: &mut TcpPacket, says: Says) {
        let Some(recover) = self.recover else { return };
        let segment = &mut packet.segment;
        let repairs = segment.ack.0.wrapping_sub(recover) as i32 <= 0;
        self.is_over |= segment.ack.0.wrapping_sub(recover) as i32 >= 0;
        if repairs && says == Says::Marks {
            segment.flags |= TcpFlags::ECE;
        }
        if repairs && says == Says::Nothing && segment.flags.has(TcpFlags::ECE) {
            segment.flags.0 ^= TcpFlags::ECE.0;
        }
        if segment.flags.has(TcpFlags::ECE) {
            self.echoes[usize::from(!repairs)] += 1;
        }
    }
}

/// A mark halves the window of 128 segments or so; the segment that says so is lost with all behind it.
fn loses_cwr(variant: Variant, sack: bool, says: Says) -> Repair {
    let ecn = match variant {
        Variant::Dctcp => EcnMode::EachMark,
        _ => EcnMode::Classic,
    };
    let stage = Rc::new(RefCell::new(Stage::default()));
    let shared = stage.clone();
    let channel = move |host, mut packet: TcpPacket| {
        let mut stage = shared.borrow_mut();
        if host == 1 {
            stage.on_ack(&mut packet, says);
        } else if !packet.segment.payload.is_empty() {
            if !stage.on_data(&mut packet) {
                return Vec::new();
            }
            if stage.data == 150 {
                packet.ecn = Ecn::Congested;
            }
        }
        vec![(ms(20), packet)]
    };
    let configs = [(); 2].map(|()| TcpConfig {
        sack,
        ..config(variant, ecn)
    });
    let mut net = Net::new(configs, Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    let end = net.now + Span::from_secs(20);
    let (mut begun, mut over) = (None, None);
    while over.is_none_or(|over| net.now < over + ms(200)) {
        net.hosts[0].write(near, &Payload::Zeros(1 << 20)).unwrap();
        assert!(net.step(end), "the repair ends");
        let stage = stage.borrow();
        begun = begun.or(stage.recover.map(|_| net.now));
        over = over.or(stage.is_over.then_some(net.now));
    }
    let stats = net.hosts[0].stats();
    assert_eq!((stats.timeouts, stats.fast_retransmits), (1, 0));
    let stage = stage.borrow();
    Repair {
        lasted: over.unwrap().since(begun.unwrap()),
        echoes: stage.echoes,
        has_cwr: stage.cwr,
        reductions: stats.ecn_reductions,
    }
}

/// RFC 3168 6.1.2: one reduction for a window. What a time-out sends again has no CWR, so that the receiver repeats its echo: that
/// is no reason to continue with one segment for each round trip.
#[test]
fn echoes_do_not_slow_the_repair_of_a_time_out() {
    for variant in VARIANTS {
        for sack in [true, false] {
            let run = |says| loses_cwr(variant, sack, says);
            let (silent, theirs, marks) = (run(Says::Nothing), run(Says::Theirs), run(Says::Marks));
            assert_eq!(silent.echoes[0], 0, "{variant:?}");
            assert!(marks.echoes[0] > 10, "{variant:?}: {marks:?}");
            if variant != Variant::Dctcp {
                assert!(theirs.echoes[0] > 10, "{variant:?}: {theirs:?}");
            }
            for run in [&silent, &theirs, &marks] {
                assert_eq!(run.lasted, silent.lasted, "{variant:?}: {run:?}");
                // CWR reaches the receiver, which ends its echo; that of the segments before it may be on its way.
                let late = u64::from(
                    sack && matches!(
                        variant,
                        Variant::Sack | Variant::Cubic | Variant::Linux | Variant::Dctcp
                    ),
                );
                assert!(run.has_cwr && run.echoes[1] <= late, "{variant:?}: {run:?}");
                assert_eq!(run.reductions, 1, "{variant:?}");
            }
        }
    }
}
