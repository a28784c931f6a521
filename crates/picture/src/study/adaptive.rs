use layercast_core::{DataClass, Span, Stream, Time};
use layercast_fec::MatrixCode;
use serde::{Deserialize, Serialize};

use super::SettingError;
use crate::datagrams::Timeline;
use crate::{
    Aal5Plus, Aal5PlusConfig, Aal5PlusReceiver, FecControllerConfig, MarkedCell, ParityConfig,
    ParityStats, ReceiverConfig,
};

/// Circuit of the stream.
const CIRCUIT: (u8, u16) = (0, 64);

/// A transport stream, repeated, whose parities follow the loss of its path (Q10).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveSetting {
    /// Seconds, and the share of the cells of class S that is lost, each for itself.
    pub steps: Vec<(f64, f64)>,
    /// N, cells of a column.
    pub rows: usize,
    /// M, cells of a row.
    pub columns: usize,
    /// Time that a message takes to the sender, in milliseconds.
    pub reverse_ms: u64,
    /// Messages that are lost, the first ones.
    pub lost_messages: u32,
    /// Seed.
    pub seed: u64,
}

/// What was seen.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AdaptiveRun {
    /// When the sender began another code, in seconds, and the code.
    pub changes: Vec<(f64, MatrixCode)>,
    /// Of each step.
    pub steps: Vec<AdaptiveStep>,
    /// Times the receiver lost track of the blocks.
    pub resyncs: u64,
}

/// What parities did during a step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AdaptiveStep {
    /// Data cells of class S that were sent.
    pub data_cells: u64,
    /// Data cells that parities brought back.
    pub repaired: u64,
    /// Data cells that they did not.
    pub unrepaired: u64,
}

impl AdaptiveSetting {
    /// Runs it.
    ///
    /// # Errors
    /// A value is out of range, or the stream has no clock.
    pub fn run(&self, packets: &[[u8; 188]]) -> Result<AdaptiveRun, SettingError> {
        for &(seconds, rate) in &self.steps {
            let range = |what, value, range| SettingError::Range { what, value, range };
            if !(0.0..=super::MAX_SECONDS).contains(&seconds) {
                return Err(range("seconds", seconds, "0 to 3600"));
            }
            if !(0.0..=0.5).contains(&rate) {
                return Err(range("rate", rate, "0 to 0.5"));
            }
        }
        let timeline = Timeline::of(packets)?;
        let parity = ParityConfig {
            code: MatrixCode::Columns,
            rows: self.rows,
            columns: self.columns,
            control: Some(FecControllerConfig::default()),
            ..ParityConfig::default()
        };
        let sender = Aal5Plus::new(Aal5PlusConfig {
            parity: Some(parity),
            ..Aal5PlusConfig::default()
        })?;
        let receiver = Aal5PlusReceiver::with_parities(ReceiverConfig::default(), parity);
        let mut path = Path {
            setting: self,
            sender,
            receiver: receiver.map_err(crate::Aal5PlusError::from)?,
            random: Stream::new(self.seed, "loss"),
            messages: Vec::new(),
            sent_messages: 0,
            run: AdaptiveRun {
                changes: Vec::new(),
                steps: Vec::new(),
                resyncs: 0,
            },
            code: MatrixCode::Columns,
        };
        let mut packets = (0_u64..).flat_map(|pass| {
            let begun = timeline.length.times(pass);
            let times = timeline.packets.iter();
            times
                .zip(packets)
                .map(move |((at, _), packet)| (Time::ZERO + begun + *at, packet))
        });
        let mut end = Time::ZERO;
        for &(seconds, rate) in &self.steps {
            end += Span::from_secs_f64(seconds);
            path.step(end, rate, &mut packets)?;
        }
        path.run.resyncs = path.stats().resyncs;
        Ok(path.run)
    }
}

/// Sender, path and receiver.
struct Path<'a> {
    setting: &'a AdaptiveSetting,
    sender: Aal5Plus,
    receiver: Aal5PlusReceiver,
    random: Stream,
    /// Messages on the way to the sender, each with its arrival.
    messages: Vec<(Time, layercast_wire::Cell)>,
    sent_messages: u32,
    run: AdaptiveRun,
    /// What the sender uses.
    code: MatrixCode,
}

impl Path<'_> {
    fn stats(&self) -> ParityStats {
        self.receiver.parity_stats().unwrap_or_default()
    }

    /// Data cells of class S that were sent.
    fn data_cells(&self) -> u64 {
        let stats = self.sender.stats();
        stats.cells[DataClass::System.index()] - stats.parity_cells
    }

    fn step<'p>(
        &mut self,
        end: Time,
        rate: f64,
        packets: &mut impl Iterator<Item = (Time, &'p [u8; 188])>,
    ) -> Result<(), SettingError> {
        let (before, sent) = (self.stats(), self.data_cells());
        for (now, packet) in packets.by_ref() {
            self.receive(now)?;
            self.sender.on_timeout(now);
            self.sender.push(now, packet)?;
            while let Some(cell) = self.sender.poll_cell() {
                self.carry(now, &cell, rate);
            }
            if now >= end {
                break;
            }
        }
        let after = self.stats();
        self.run.steps.push(AdaptiveStep {
            data_cells: self.data_cells() - sent,
            repaired: after.repaired - before.repaired,
            unrepaired: after.unrepaired - before.unrepaired,
        });
        Ok(())
    }

    fn carry(&mut self, now: Time, cell: &MarkedCell, rate: f64) {
        if cell.class == DataClass::System && self.random.chance(rate) {
            return;
        }
        self.receiver.on_cell(now, cell);
        while self.receiver.poll_packet().is_some() {}
    }

    /// Timers of the receiver, and messages in both directions.
    fn receive(&mut self, now: Time) -> Result<(), SettingError> {
        self.receiver.on_timeout(now);
        while let Some(cell) = self.receiver.poll_control(now, CIRCUIT) {
            self.sent_messages += 1;
            if self.sent_messages > self.setting.lost_messages {
                let at = now + Span::from_ms(self.setting.reverse_ms);
                self.messages.push((at, cell));
            }
        }
        while let Some((_, cell)) = { self.messages.first() }.filter(|(at, _)| *at <= now) {
            // One that cannot be followed changes nothing, and would show as a missing change.
            let _ = self.sender.on_control(cell);
            self.messages.remove(0);
        }
        let changes = self.sender.stats().parity_changes;
        if changes > self.run.changes.len() as u64 {
            self.code = match self.code {
                MatrixCode::Columns => MatrixCode::EvenOdd,
                _ => MatrixCode::Columns,
            };
            self.run.changes.push((now.as_secs_f64(), self.code));
        }
        Ok(())
    }
}
