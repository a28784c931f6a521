//! Codes on parts of the tree: encoders at the upper end, decoders at the lower ones, transparent to what is above
//! (specs/where-to-use-fec.md 2.4, 2.5).
//!
//! The codec is that of `layercast-fec`. What it protects here is the name of a packet under way, eight octets,
//! instead of its content: what is recovered is the same.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_fec::{
    Arrival, ConfigError, Decoder, DecoderConfig, DecoderEvent, Encoder, EncoderConfig, Header,
};
use serde::Serialize;

use super::item::{Items, NAME};
use super::tree::NONE;

/// A code on the branches that name its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeSpec {
    /// What encoders do; `mtu` and `keep` mean nothing here.
    pub encoder: EncoderConfig,
    /// How long a packet can be recovered after it was sent.
    pub hold: Span,
}

/// What a code did, at all of its encoders and decoders.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct EdgeCount {
    /// Packets protected.
    pub sources: u64,
    /// Parities of these packets.
    pub parities: u64,
    /// Packets expected at decoders.
    pub expected: u64,
    /// Of these, packets lost before decoding.
    pub lost: u64,
    /// Of these, packets recovered.
    pub recovered: u64,
    /// Mean additional delay of recovered packets in milliseconds.
    pub added_ms: f64,
    /// Largest additional delay in milliseconds.
    pub most_added_ms: f64,
}

/// An encoder at a node, for the branches of one port.
#[derive(Debug)]
pub(super) struct EdgeEncoder {
    encoder: Encoder,
    /// Packets that can be recovered, and until when.
    kept: VecDeque<(Time, u32)>,
    hold: Span,
    /// The longest packet since the last parity.
    longest: u32,
    pub node: u32,
    pub port: u32,
    /// When it is to be woken.
    pub wake: Time,
    pub sources: u64,
    pub parities: u64,
}

/// A decoder at a node.
#[derive(Debug)]
pub(super) struct EdgeDecoder {
    decoder: Decoder,
    /// Its encoder, and what that had sent before.
    pub encoder: u32,
    pub region: u16,
    plain: u64,
    recovered: u64,
    least: Span,
    late: Span,
    most_late: Span,
}

impl EdgeEncoder {
    pub fn new(spec: &EdgeSpec, node: u32, port: u32) -> Result<EdgeEncoder, ConfigError> {
        let config = EncoderConfig {
            // Names only: the sizes of what they stand for are counted apart.
            mtu: 4_096,
            keep: 0,
            ..spec.encoder
        };
        Ok(EdgeEncoder {
            encoder: Encoder::new(config)?,
            kept: VecDeque::new(),
            hold: spec.hold,
            longest: 0,
            node,
            port,
            wake: Time::MAX,
            sources: 0,
            parities: 0,
        })
    }

    /// Takes a packet; gives the octets and the length of its coded form.
    pub fn push(&mut self, now: Time, items: &mut Items, item: u32) -> Option<(Bytes, u32)> {
        while let Some(&(until, old)) = self.kept.front()
            && until <= now
        {
            self.kept.pop_front();
            items.done(old);
        }
        let name = items.name(item);
        let header = self.encoder.push(now, Bytes::copy_from_slice(&name)).ok()?;
        items.share(item, 1);
        self.kept.push_back((now + self.hold, item));
        let octets = items.get(item).octets;
        self.longest = self.longest.max(octets);
        self.sources += 1;
        let mut coded = [0; Header::SIZE + NAME];
        coded[..Header::SIZE].copy_from_slice(&header.encode());
        coded[Header::SIZE..].copy_from_slice(&name);
        Some((Bytes::copy_from_slice(&coded), octets + Header::SIZE as u32))
    }

    /// The next parity, with its length in octets: names are shorter than packets by as much as the parity of packets
    /// is longer than that of names.
    pub fn poll_parity(&mut self) -> Option<(Bytes, u32)> {
        let mut octets = Vec::new();
        if !self.encoder.poll_parity(&mut octets) {
            return None;
        }
        self.parities += 1;
        let longer = self.longest.saturating_sub(NAME as u32);
        let length = octets.len() as u32 + longer;
        Some((octets.into(), length))
    }

    /// All parities of what was taken have been sent.
    pub fn sent_all(&mut self) {
        if self.encoder.next_timeout().is_none() {
            self.longest = 0;
        }
    }

    /// When a block has to be closed.
    pub fn next_timeout(&self) -> Option<Time> {
        self.encoder.next_timeout()
    }

    /// Closes what has waited for long enough.
    pub fn on_timeout(&mut self, now: Time) {
        self.encoder.on_timeout(now);
    }
}

impl EdgeDecoder {
    pub fn new(spec: &EdgeSpec, region: u16) -> EdgeDecoder {
        let config = DecoderConfig {
            hold: spec.hold,
            ..DecoderConfig::default()
        };
        EdgeDecoder {
            decoder: Decoder::new(config),
            encoder: NONE,
            region,
            plain: 0,
            recovered: 0,
            least: Span::MAX,
            late: Span::ZERO,
            most_late: Span::ZERO,
        }
    }

    /// Takes a packet of the code.
    pub fn handle(&mut self, now: Time, octets: &Bytes) {
        self.decoder.handle(now, octets);
    }

    /// The next packet that is out of it, unless it came too late to be known.
    pub fn poll(&mut self, now: Time, items: &Items) -> Option<u32> {
        while let Some(event) = self.decoder.poll_event() {
            let DecoderEvent::Source { payload, how, .. } = event else {
                continue;
            };
            let Some(item) = items.find(&payload) else {
                continue;
            };
            let took = now.since(items.get(item).sent);
            if how == Arrival::Recovered {
                self.recovered += 1;
                let late = took.saturating_sub(self.least);
                self.late += late;
                self.most_late = self.most_late.max(late);
            } else {
                self.plain += 1;
                self.least = self.least.min(took);
            }
            return Some(item);
        }
        None
    }
}

/// What the codes did, by region.
pub(super) fn count(
    regions: usize,
    encoders: &[EdgeEncoder],
    encoder_regions: &[u16],
    decoders: &[EdgeDecoder],
) -> Vec<EdgeCount> {
    let mut counts = vec![EdgeCount::default(); regions];
    for (encoder, &region) in encoders.iter().zip(encoder_regions) {
        let count = &mut counts[usize::from(region) - 1];
        count.sources += encoder.sources;
        count.parities += encoder.parities;
    }
    let mut late = vec![Span::ZERO; regions];
    for decoder in decoders {
        let region = usize::from(decoder.region) - 1;
        let count = &mut counts[region];
        let expected = encoders
            .get(decoder.encoder as usize)
            .map_or(0, |encoder| encoder.sources);
        count.expected += expected;
        count.lost += expected.saturating_sub(decoder.plain);
        count.recovered += decoder.recovered;
        late[region] += decoder.late;
        count.most_added_ms = count.most_added_ms.max(decoder.most_late.as_ms_f64());
    }
    for (count, late) in counts.iter_mut().zip(late) {
        count.added_ms = late.as_ms_f64() / count.recovered.max(1) as f64;
    }
    counts
}
