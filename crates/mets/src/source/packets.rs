use bytes::BytesMut;
use layercast_core::{FlowId, Layer, Serial, Time};
use layercast_wire::{
    Carriage, Epoch, Flags, FlowEnd, FrameType, LinkPdu, Mark, MetsHeader, MetsPacket, Passing,
    Payload, Segmenter, Sound, Waited,
};

use layercast_qos::Released;

use super::keyring::Keyring;
use super::parity::Parities;
use crate::AppFrame;

/// A frame with its place in the flow.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Numbered {
    pub seq: Serial,
    pub e1_count: u8,
    pub e2_count: u8,
    pub sound: Sound,
    /// When it was due: the emission time of the wire.
    pub emission: Time,
    /// When its last byte arrived, if it is live.
    pub arrived: Option<Time>,
    pub frame: AppFrame,
}

/// Numbers frames: all of them, whether or not they will be sent, so that a receiver can tell
/// exactly what it did not get.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Numbering {
    last: Option<FlowEnd>,
    sound: u8,
}

impl Numbering {
    pub fn number(&mut self, released: Released<AppFrame>) -> Numbered {
        let Released {
            frame,
            deadline: emission,
            arrived,
            ..
        } = released;
        let (seq, e1, e2) = match self.last {
            Some(last) => (last.seq.plus(1), last.e1_count, last.e2_count),
            None => (Serial(0), 0, 0),
        };
        let end = FlowEnd {
            seq,
            e1_count: e1.wrapping_add(u8::from(frame.layer == Layer::E1)),
            e2_count: e2.wrapping_add(u8::from(frame.layer == Layer::E2)),
        };
        self.last = Some(end);
        // What opens a group of pictures, or is in another layer, is a picture.
        let is_sound = frame.sound && frame.layer == Layer::Base && !frame.gop_start;
        self.sound = self.sound.wrapping_add(u8::from(is_sound));
        Numbered {
            seq,
            e1_count: end.e1_count,
            e2_count: end.e2_count,
            sound: Sound::new(is_sound, self.sound),
            emission,
            arrived,
            frame,
        }
    }

    /// Where the count stands; `None` before the first frame.
    pub fn end(&self) -> Option<FlowEnd> {
        self.last
    }
}

/// Cuts frames into packets, and packets into cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packetiser {
    pub flow: FlowId,
    pub epoch: Epoch,
    pub carriage: Carriage,
    pub vci: u16,
    pub mark: Mark,
    /// Most bytes of a packet after its header.
    pub mtu: usize,
    /// The same of the base layer, where its parities need room.
    pub base_mtu: usize,
    /// How many of them sealing takes.
    pub overhead: usize,
    /// The layers of the flow are alternative.
    pub alternative: bool,
    /// Which layers the source sends; not stated in cells, which switches do not rewrite.
    pub passing: Passing,
}

impl Packetiser {
    /// Most bytes of a packet of `layer` after its header.
    fn mtu_of(&self, layer: Layer) -> usize {
        match layer {
            Layer::Base => self.base_mtu,
            _ => self.mtu,
        }
    }

    /// Credits that the packets of a frame of `bytes` cost.
    pub fn cost(&self, layer: Layer, bytes: usize) -> u32 {
        let mtu = self.mtu_of(layer);
        let pdu = |payload| self.carriage.cost(payload);
        let media = mtu - self.overhead;
        let full = u32::try_from(bytes / media).unwrap_or(u32::MAX);
        let rest = match bytes % media {
            0 => 0,
            rest => pdu(rest + self.overhead),
        };
        full.saturating_mul(pdu(mtu)).saturating_add(rest)
    }

    /// Bytes of a frame of `bytes` as it travels: sealed packet by packet, if at all.
    pub fn travelling(&self, layer: Layer, bytes: usize) -> usize {
        bytes + self.overhead * bytes.div_ceil(self.mtu_of(layer) - self.overhead)
    }

    /// Hands each PDU of the frame to `send`, in order, and each parity right behind its block; gives the
    /// number of packets, or `None` if `send` refused one, or a packet does not fit a cell frame or cannot
    /// be sealed.
    pub fn cut(
        &self,
        now: Time,
        numbered: &Numbered,
        mut keyring: Option<&mut Keyring>,
        mut parities: Option<&mut Parities>,
        mut send: impl FnMut(LinkPdu) -> bool,
    ) -> Option<u64> {
        let header = self.header(numbered);
        let media = &numbered.frame.payload;
        let layer = numbered.frame.layer;
        let mtu = self.mtu_of(layer);
        let len = self.travelling(layer, media.len());
        // Sealed packets are filled one by one, all out of one piece of memory.
        let (whole, mut memory) = match keyring {
            Some(_) => (Payload::Zeros(len as u32), BytesMut::with_capacity(len)),
            None => (media.clone(), BytesMut::new()),
        };
        let mut packets = 0;
        for mut packet in MetsPacket::fragments(header, &whole, mtu) {
            if let Some(keyring) = &mut keyring {
                let room = mtu - self.overhead;
                let from = packet.header.offset as usize / mtu * room;
                let plain = media.slice(from..from + room);
                let sealed = keyring.seal(layer, &packet.header, &plain, &mut memory)?;
                packet.payload = sealed.into();
            }
            packets += 1;
            if let Some(parities) = &mut parities {
                parities.take(now, &packet);
            }
            self.emit(packet, &mut send)?;
            if let Some(parities) = &mut parities {
                self.emit_parities(parities, &mut send)?;
            }
        }
        if let Some(parities) = parities {
            parities.end_frame();
            self.emit_parities(parities, &mut send)?;
        }
        Some(packets)
    }

    fn emit_parities(
        &self,
        parities: &mut Parities,
        send: &mut impl FnMut(LinkPdu) -> bool,
    ) -> Option<()> {
        while let Some(parity) = parities.poll() {
            self.emit(parity, send)?;
        }
        Some(())
    }

    /// Hands a packet to `send` as its link carries it; `None` if it was refused.
    pub fn emit(&self, packet: MetsPacket, send: &mut impl FnMut(LinkPdu) -> bool) -> Option<()> {
        match self.carriage {
            Carriage::Datagrams => send(LinkPdu::Mets(packet)).then_some(()),
            Carriage::Cells => {
                let mut cells = Segmenter::mets(&packet, 0, self.vci, self.mark).ok()?;
                cells.all(|cell| send(LinkPdu::Cell(cell))).then_some(())
            }
        }
    }

    fn header(&self, numbered: &Numbered) -> MetsHeader {
        let Numbered {
            frame, emission, ..
        } = numbered;
        let mut flags = self.epoch.stamp(Flags::default());
        if frame.gop_start {
            flags |= Flags::GOP_START;
        }
        MetsHeader {
            kind: match self.alternative && numbered.sound.is_sound() {
                true => FrameType::COMMON,
                false => FrameType::from_layer(frame.layer),
            },
            flags,
            flow: self.flow,
            seq: numbered.seq,
            // The low 32 bits: the timestamp wraps.
            timestamp_us: emission.as_us() as u32,
            e1_count: numbered.e1_count,
            e2_count: numbered.e2_count,
            alf_len: frame.payload.len() as u32,
            offset: 0,
            waited: numbered.arrived.map_or(Waited::default(), |arrived| {
                Waited::new(arrived.as_ps(), emission.as_ps())
            }),
            sound: numbered.sound,
            passing: self.passing,
        }
    }
}

/// The payload of a frame is at least one byte and at most `max_frame`.
pub(super) fn fits(payload: &Payload, max_frame: u32) -> bool {
    (1..=max_frame as usize).contains(&payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn packetiser(carriage: Carriage, mtu: usize) -> Packetiser {
        Packetiser {
            flow: FlowId(7),
            epoch: Epoch(5 << 16),
            carriage,
            vci: 64,
            mark: Mark::Last,
            mtu,
            base_mtu: mtu,
            overhead: 0,
            alternative: false,
            passing: Passing::default(),
        }
    }

    fn frame(layer: Layer, bytes: Bytes) -> AppFrame {
        AppFrame {
            layer,
            gop_start: layer == Layer::Base,
            sound: false,
            time: None,
            payload: bytes.into(),
        }
    }

    fn released(frame: AppFrame, deadline: Time) -> Released<AppFrame> {
        Released {
            k: 0,
            deadline,
            arrived: None,
            frame,
        }
    }

    proptest! {
        #[test]
        fn packets_are_valid_cost_what_was_said_and_hold_the_frame(
            len in 1usize..5_000, mtu in 1usize..2_000, cells in any::<bool>(),
        ) {
            let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
            let packetiser = packetiser(carriage, mtu);
            let bytes: Bytes = (0..len).map(|i| i as u8).collect();
            let emission = Time::from_ps(u64::MAX / 2);
            let numbered = Numbering::default().number(released(frame(Layer::E1, bytes.clone()), emission));
            prop_assert_eq!(numbered.e1_count, 1);
            let (mut cost, mut whole) = (0, Vec::new());
            packetiser.cut(Time::ZERO, &numbered, None, None, |pdu| {
                cost += pdu.cells();
                if let LinkPdu::Mets(packet) = pdu {
                    assert_eq!(packet.header.check(packet.payload.len()), Ok(()));
                    assert_eq!(packet.header.flags.life(), 5);
                    packet.payload.append_to(&mut whole);
                }
                true
            }).unwrap();
            prop_assert_eq!(cost, packetiser.cost(Layer::E1, len));
            prop_assert!(cells || whole == bytes);
        }
    }

    #[test]
    fn packets_share_the_memory_of_the_frame() {
        let bytes = Bytes::from(vec![1; 3_000]);
        let numbered =
            Numbering::default().number(released(frame(Layer::Base, bytes.clone()), Time::ZERO));
        let mut at = bytes.as_ptr();
        packetiser(Carriage::Datagrams, 1_176)
            .cut(Time::ZERO, &numbered, None, None, |pdu| {
                let LinkPdu::Mets(MetsPacket {
                    payload: Payload::Bytes(part),
                    ..
                }) = pdu
                else {
                    panic!("not a datagram");
                };
                assert_eq!(part.as_ptr(), at);
                at = at.wrapping_add(part.len());
                true
            })
            .unwrap();
    }
}
