use std::sync::Arc;

use layercast_core::{Span, Stream, Time, earliest};

use super::tally::Tally;
use super::{AppInput, Application, HostId, Media, Out};
use crate::dist::Distribution;

/// What packet voice is made of (specs/insane-workloads.md 2.6).
#[derive(Clone, Debug)]
pub struct AudioModel {
    /// How long somebody talks.
    pub talkspurt: Distribution,
    /// How long he then is silent.
    pub pause: Distribution,
    /// How long a conversation lasts.
    pub duration: Distribution,
    /// Payload of a packet, bytes.
    pub payload: u32,
    /// Time between packets of a talkspurt.
    pub period: Span,
    /// A packet under way for longer is overdue.
    pub bound: Span,
}

/// One direction of a conversation: packets while somebody talks, none while he listens.
#[derive(Debug)]
pub struct Audio {
    model: Arc<AudioModel>,
    stream: Stream,
    tally: Tally,
    until: Time,
    /// End of the talkspurt.
    spurt: Time,
    next: Option<Time>,
    out: Out,
}

impl Audio {
    /// Voice from one host to another.
    pub fn new(model: Arc<AudioModel>, stream: Stream, from: HostId, to: HostId) -> Audio {
        let bound = model.bound;
        Audio {
            model,
            stream,
            tally: Tally::new(Media::Audio, from, to, bound),
            until: Time::ZERO,
            spurt: Time::ZERO,
            next: None,
            out: Out::default(),
        }
    }

    fn talk(&mut self, from: Time) {
        // Even the shortest talkspurt has a packet.
        let spurt = self.model.talkspurt.span(&mut self.stream);
        self.spurt = from.saturating_add(spurt.max(Span::from_ps(1)));
        self.next = Some(from);
    }
}

impl Application for Audio {
    fn input(&mut self, now: Time, input: AppInput) {
        if input == AppInput::Start {
            self.until = now.saturating_add(self.model.duration.span(&mut self.stream));
            self.talk(now);
        }
        self.tally.input(now, input);
    }

    fn wake(&mut self, now: Time) {
        self.tally.wake(now, &mut self.out);
        while let Some(due) = self.next.filter(|&next| next <= now) {
            if due >= self.until {
                self.next = None;
                self.tally.stop(self.until);
            } else if due < self.spurt {
                self.tally.send(self.model.payload, &mut self.out);
                self.next = Some(due.saturating_add(self.model.period));
            } else {
                let pause = self.model.pause.span(&mut self.stream);
                // One coder's packets do not overlap.
                self.talk(self.spurt.saturating_add(pause).max(due));
            }
        }
    }

    fn next(&self) -> Option<Time> {
        earliest(self.next, self.tally.next())
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn is_done(&self) -> bool {
        self.tally.is_done()
    }
}
