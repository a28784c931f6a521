/// Bytes of a transport stream packet.
pub const TS_PACKET: usize = 188;
/// The first byte of each.
pub(crate) const SYNC: u8 = 0x47;
/// Packet identifier of the program association table.
pub(crate) const PAT: u16 = 0;
/// Packet identifier of packets that only fill the line.
pub(crate) const NULL: u16 = 0x1FFF;

/// Ticks per second of the system clock (2.4.2.1).
pub(crate) const PCR_HZ: u64 = 27_000_000;
/// A PCR wraps at this.
pub(crate) const PCR_WRAP: u64 = (1 << 33) * 300;

/// A transport stream packet (2.4.3.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a>(&'a [u8; TS_PACKET]);

impl<'a> Packet<'a> {
    /// A packet that begins with the sync byte.
    pub fn new(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let bytes: &[u8; TS_PACKET] = bytes.try_into().ok()?;
        (bytes[0] == SYNC).then_some(Packet(bytes))
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Known to be damaged.
    pub fn error(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// A PES packet or a section begins here.
    pub fn starts(&self) -> bool {
        self.0[1] & 0x40 != 0
    }

    pub fn pid(&self) -> u16 {
        u16::from_be_bytes([self.0[1] & 0x1F, self.0[2]])
    }

    pub fn scrambled(&self) -> bool {
        self.0[3] & 0xC0 != 0
    }

    pub fn has_payload(&self) -> bool {
        self.0[3] & 0x10 != 0
    }

    pub fn continuity(&self) -> u8 {
        self.0[3] & 0x0F
    }

    /// The adaptation field behind its length; empty if there is none.
    fn adaptation(&self) -> &'a [u8] {
        if self.0[3] & 0x20 == 0 {
            return &[];
        }
        let len = usize::from(self.0[4]);
        self.0.get(5..5 + len).unwrap_or_default()
    }

    /// It has room for more: its adaptation field has stuffing, or nothing else (2.4.3.5).
    pub fn is_stuffed(&self) -> bool {
        let field = self.adaptation();
        let Some((&flags, rest)) = field.split_first() else {
            return self.0[3] & 0x20 != 0;
        };
        let clocks = 6 * usize::from(flags & 0x10 != 0) + 6 * usize::from(flags & 0x08 != 0);
        let mut used = clocks + usize::from(flags & 0x04 != 0);
        // Private data and the extension say their lengths.
        for flag in [0x02, 0x01] {
            if flags & flag != 0 {
                used += 1 + rest.get(used).map_or(0, |&len| usize::from(len));
            }
        }
        flags == 0 || rest.len() > used
    }

    fn adaptation_flag(&self, flag: u8) -> bool {
        self.adaptation()
            .first()
            .is_some_and(|flags| flags & flag != 0)
    }

    /// The clock or the continuity may jump here.
    pub fn discontinuity(&self) -> bool {
        self.adaptation_flag(0x80)
    }

    /// A decoder can start here.
    pub fn random_access(&self) -> bool {
        self.adaptation_flag(0x40)
    }

    /// The program clock, in ticks of 27 MHz.
    pub fn pcr(&self) -> Option<u64> {
        let field = self.adaptation().get(1..7)?;
        if !self.adaptation_flag(0x10) {
            return None;
        }
        let base = field[..4].iter().fold(0, |n, &b| n << 8 | u64::from(b)) << 1
            | u64::from(field[4] >> 7);
        let extension = u64::from(field[4] & 1) << 8 | u64::from(field[5]);
        Some(base * 300 + extension)
    }

    pub fn payload(&self) -> &'a [u8] {
        if !self.has_payload() {
            return &[];
        }
        let start = match self.0[3] & 0x20 {
            0 => 4,
            _ => 5 + usize::from(self.0[4]),
        };
        self.0.get(start..).unwrap_or_default()
    }
}

/// The six bytes of a PCR.
pub(crate) fn pcr_bytes(pcr: u64) -> [u8; 6] {
    let pcr = pcr % PCR_WRAP;
    let (base, extension) = (pcr / 300, pcr % 300);
    // 33 bits, six reserved ones, nine bits.
    let all = base << 15 | 0x3F << 9 | extension;
    let [_, _, bytes @ ..] = all.to_be_bytes();
    bytes
}

/// Replaces the PCR of a packet that has one.
pub(crate) fn set_pcr(packet: &mut [u8], pcr: u64) {
    if let Some(field) = packet.get_mut(6..12) {
        field.copy_from_slice(&pcr_bytes(pcr));
    }
}

/// Gives a packet another packet identifier.
pub(crate) fn set_pid(packet: &mut [u8], pid: u16) {
    if let [_, high, low, ..] = packet {
        let [top, rest] = pid.to_be_bytes();
        *high = *high & 0xE0 | top & 0x1F;
        *low = rest;
    }
}

/// Says that the packet is damaged (`transport_error_indicator`).
pub(crate) fn set_error(packet: &mut [u8]) {
    packet[1] |= 0x80;
}

/// Whether the packet is damaged.
pub(crate) fn has_error(packet: &[u8; TS_PACKET]) -> bool {
    packet[1] & 0x80 != 0
}

/// Replaces the continuity counter.
pub(crate) fn set_continuity(packet: &mut [u8], counter: u8) {
    packet[3] = packet[3] & 0xF0 | counter & 0x0F;
}

/// Says that the clock jumps here, in a packet with an adaptation field.
pub(crate) fn set_discontinuity(packet: &mut [u8]) {
    packet[5] |= 0x80;
}

/// The adaptation field of a packet to be written.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Adaptation {
    pub random_access: bool,
    pub pcr: Option<u64>,
}

/// Appends a packet with as much of `payload` as fits; gives how much that is.
pub(crate) fn put(
    pid: u16,
    starts: bool,
    continuity: u8,
    adaptation: Adaptation,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    let wanted = match adaptation {
        Adaptation { pcr: Some(_), .. } => 8,
        Adaptation {
            random_access: true,
            ..
        } => 2,
        _ => 0,
    };
    let len = payload.len().min(TS_PACKET - 4 - wanted);
    let field = TS_PACKET - 4 - len;
    let has_payload = if len > 0 { 0x10 } else { 0 };
    let has_field = if field > 0 { 0x20 } else { 0 };
    let [high, low] = pid.to_be_bytes();
    out.extend_from_slice(&[
        SYNC,
        high & 0x1F | if starts { 0x40 } else { 0 },
        low,
        has_field | has_payload | continuity & 0x0F,
    ]);
    if field > 0 {
        let end = out.len() + field;
        out.push((field - 1) as u8);
        if field > 1 {
            let random_access = if adaptation.random_access { 0x40 } else { 0 };
            let pcr = if adaptation.pcr.is_some() { 0x10 } else { 0 };
            out.push(random_access | pcr);
            if let Some(pcr) = adaptation.pcr {
                out.extend_from_slice(&pcr_bytes(pcr));
            }
        }
        out.resize(end, 0xFF);
    }
    out.extend_from_slice(&payload[..len]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_read_as_they_were_written(
            pid in 0u16..0x2000,
            starts in any::<bool>(),
            continuity in 0u8..16,
            random_access in any::<bool>(),
            pcr in prop::option::of(0..PCR_WRAP),
            payload in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut out = Vec::new();
            let adaptation = Adaptation { random_access, pcr };
            let taken = put(pid, starts, continuity, adaptation, &payload, &mut out);
            prop_assert_eq!(out.len(), TS_PACKET);
            let packet = Packet::new(&out).expect("a packet");
            prop_assert_eq!(packet.pid(), pid);
            prop_assert_eq!(packet.starts(), starts);
            prop_assert_eq!(packet.continuity(), continuity);
            prop_assert_eq!(packet.payload(), &payload[..taken]);
            prop_assert_eq!(packet.pcr(), pcr);
            prop_assert!(!packet.discontinuity() && !packet.error() && !packet.scrambled());
            if pcr.is_some() || taken + 6 <= TS_PACKET {
                prop_assert_eq!(packet.random_access(), random_access);
            }
            let (pcr_2, mut changed) = (123_456_789_012, out.clone());
            if pcr.is_some() {
                set_pcr(&mut changed, pcr_2);
                set_continuity(&mut changed, 7);
                let packet = Packet::new(&changed).expect("a packet");
                prop_assert_eq!((packet.pcr(), packet.continuity()), (Some(pcr_2), 7));
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), TS_PACKET)) {
            let mut bytes = bytes;
            bytes[0] = SYNC;
            let packet = Packet::new(&bytes).expect("a packet");
            prop_assert!(packet.payload().len() < TS_PACKET);
            let _ = (packet.pcr(), packet.random_access(), packet.discontinuity());
        }
    }
}
