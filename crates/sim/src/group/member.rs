//! Receivers, and where they keep what they have.

use layercast_core::{Span, Time};
use layercast_multicast::{
    Bits, Geometry, Peer, Rebuilt, Receiver, ReceiverConfig, ReceiverStats, Store, Verdict,
    VirtualStore,
};
use layercast_wire::Payload;
use layercast_wire::multicast::{MemberId, Object, Reason};

/// Where a receiver keeps an object that has no content: only a receiver that is to be started again has to know what it had.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Nothing(VirtualStore),
    Numbers(Bits),
}

impl Store for Kept {
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        match self {
            Kept::Nothing(store) => store.begin(object, geometry),
            Kept::Numbers(held) => {
                if held.len() != geometry.packets() {
                    *held = Bits::new(geometry.packets());
                }
                Ok(held.clone())
            }
        }
    }

    fn packet(&mut self, _: &Geometry, number: u64, _: &Payload) -> Result<(), Reason> {
        if let Kept::Numbers(held) = self {
            held.set(number);
        }
        Ok(())
    }

    fn parity(&mut self, _: &Geometry, _: u32, _: u32, _: &Payload) -> Result<(), Reason> {
        Ok(())
    }

    fn rebuild(&mut self, geometry: &Geometry, block: u32, _: &Bits) -> Result<Rebuilt, Reason> {
        if let Kept::Numbers(held) = self {
            let (first, end) = geometry.range(block);
            for number in first..end {
                held.set(number);
            }
        }
        Ok(Rebuilt::Whole)
    }

    fn verify(&mut self) -> Verdict {
        Verdict::Same
    }

    fn clear(&mut self) {
        if let Kept::Numbers(held) = self {
            held.clear();
        }
    }
}

/// The process that takes the packets of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    /// What it needs for a packet.
    pub service: Span,
    /// It has one.
    pub serves: bool,
    /// Packets it has taken.
    pub taken: u64,
}

/// A receiver.
#[derive(Debug)]
pub(super) struct Member {
    /// None: it is dead.
    pub machine: Option<Receiver<Kept>>,
    /// What is on its disk while it is dead.
    pub disk: Option<Kept>,
    pub node: u32,
    pub host: u32,
    /// The aggregator that it reports to.
    helper: Option<Peer>,
    /// When it is to be woken.
    pub wake: Time,
    pub incarnation: u32,
    /// When it had all of it.
    pub complete: Option<Time>,
    pub user: User,
    /// Of its former lives.
    past: ReceiverStats,
}

/// What all lives and processes of receivers have alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberTerms {
    pub seed: u64,
    pub buffer: u32,
    pub service: Span,
}

impl Member {
    pub fn new(
        number: u32,
        node: u32,
        host: u32,
        helper: Option<Peer>,
        terms: &MemberTerms,
        restarts: bool,
    ) -> Member {
        let kept = match restarts {
            true => Kept::Numbers(Bits::default()),
            false => Kept::Nothing(VirtualStore),
        };
        let mut member = Member {
            machine: None,
            disk: Some(kept),
            node,
            host,
            helper,
            wake: Time::MAX,
            incarnation: 0,
            complete: None,
            user: User {
                service: terms.service,
                serves: false,
                taken: 0,
            },
            past: ReceiverStats::default(),
        };
        member.start(number, terms);
        member
    }

    /// It begins a life, with what is on its disk.
    pub fn start(&mut self, number: u32, terms: &MemberTerms) {
        let Some(kept) = self.disk.take() else {
            return;
        };
        self.incarnation += 1;
        let mut config = ReceiverConfig::new(
            MemberId(number.into()),
            terms.seed ^ u64::from(self.incarnation) << 32,
        );
        config.incarnation = self.incarnation;
        config.buffer = terms.buffer;
        config.report_to = self.helper;
        self.machine = Some(Receiver::new(config, kept));
    }

    /// It dies; what was on its disk is there still, unless it is lost, too.
    pub fn kill(&mut self, keeps: bool) {
        let Some(machine) = self.machine.take() else {
            return;
        };
        self.past = self.stats_with(machine.stats());
        let mut kept = machine.into_store();
        if !keeps {
            kept.clear();
        }
        self.disk = Some(kept);
        self.wake = Time::MAX;
        self.user.serves = false;
    }

    /// What it counted in all of its lives.
    pub fn stats(&self) -> ReceiverStats {
        match &self.machine {
            Some(machine) => self.stats_with(machine.stats()),
            None => self.past,
        }
    }

    fn stats_with(&self, now: &ReceiverStats) -> ReceiverStats {
        let past = &self.past;
        ReceiverStats {
            data: past.data + now.data,
            duplicates: past.duplicates + now.duplicates,
            malformed: past.malformed + now.malformed,
            strangers: past.strangers + now.strangers,
            doubted: past.doubted + now.doubted,
            overflow: past.overflow + now.overflow,
            reports: past.reports + now.reports,
            suppressed: past.suppressed + now.suppressed,
            rebuilt: past.rebuilt + now.rebuilt,
        }
    }
}
