use std::sync::Arc;

use layercast_core::{Rate, Span, Stream, Time, earliest};

use super::tally::Tally;
use super::{AppInput, Application, HostId, Media, Out};
use crate::dist::Distribution;

/// What vic's Intra-H.261 is made of (specs/insane-workloads.md 2.7, 3.2).
#[derive(Clone, Debug)]
pub struct VideoModel {
    /// Bytes of a packet of blocks that changed (conditional replenishment).
    pub size_cr: Distribution,
    /// Bytes of a packet of background refresh.
    pub size_bg: Distribution,
    /// Packets in a row of the first sort.
    pub packets_cr: Distribution,
    /// Packets in a row of the second.
    pub packets_bg: Distribution,
    /// How long a conversation lasts.
    pub duration: Distribution,
    /// Rate to which changed blocks are paced.
    pub rate: Rate,
    /// Time between background packets: one in each frame.
    pub frame: Span,
    /// A packet under way for longer is overdue.
    pub bound: Span,
}

/// One direction of video: runs of paced packets of motion, runs of one packet a frame.
#[derive(Debug)]
pub struct Video {
    model: Arc<VideoModel>,
    stream: Stream,
    tally: Tally,
    until: Time,
    motion: bool,
    /// Packets left of the run.
    left: u64,
    next: Option<Time>,
    out: Out,
}

impl Video {
    /// Video from one host to another.
    pub fn new(model: Arc<VideoModel>, stream: Stream, from: HostId, to: HostId) -> Video {
        let bound = model.bound;
        Video {
            model,
            stream,
            tally: Tally::new(Media::Video, from, to, bound),
            until: Time::ZERO,
            motion: true,
            left: 0,
            next: None,
            out: Out::default(),
        }
    }

    fn run(&mut self) {
        let run = match self.motion {
            true => &self.model.packets_cr,
            false => &self.model.packets_bg,
        };
        self.left = run.whole(&mut self.stream);
    }
}

impl Application for Video {
    fn input(&mut self, now: Time, input: AppInput) {
        if input == AppInput::Start {
            self.until = now.saturating_add(self.model.duration.span(&mut self.stream));
            self.run();
            self.next = Some(now);
        }
        self.tally.input(now, input);
    }

    fn wake(&mut self, now: Time) {
        self.tally.wake(now, &mut self.out);
        while let Some(due) = self.next.filter(|&next| next <= now) {
            if due >= self.until {
                self.next = None;
                self.tally.stop(self.until);
                return;
            }
            let (size, gap) = match self.motion {
                true => {
                    let size = self.model.size_cr.whole(&mut self.stream);
                    (size, self.model.rate.time_for(size))
                }
                false => {
                    let size = self.model.size_bg.whole(&mut self.stream);
                    (size, self.model.frame)
                }
            };
            // The printed program turns while packets are left; the text and its numbers do not.
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.motion = !self.motion;
                self.run();
            }
            self.tally.send(size.max(1) as u32, &mut self.out);
            self.next = Some(due.saturating_add(gap));
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
