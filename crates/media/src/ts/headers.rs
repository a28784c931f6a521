use super::packet::{Adaptation, Packet, TS_PACKET, put, set_continuity};
use super::pes::PesHeader;

/// The packets of a picture with `headers` put into its elementary stream, `at` bytes from its beginning.
///
/// The first packet keeps its adaptation field and its PES header; what does not fit into it any more goes
/// into packets behind it, and the continuity counters of all later packets move on. The length of the PES
/// packet becomes "not specified", which video may use (ISO/IEC 13818-1, 2.4.3.7). `None` if the first
/// packet does not hold the place.
pub(crate) fn with_headers(packets: &[u8], at: usize, headers: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = packets.split_at_checked(TS_PACKET)?;
    let packet = Packet::new(first)?;
    let payload = packet.payload();
    let header = PesHeader::parse(payload)?;
    let place = header.len.checked_add(at)?;
    let (before, behind) = payload.split_at_checked(place)?;
    let mut pes = [before, headers, behind].concat();
    pes[4..6].copy_from_slice(&[0, 0]);

    let room = payload.len();
    let mut out = Vec::with_capacity(packets.len() + headers.len() + 2 * TS_PACKET);
    out.extend_from_slice(&first[..TS_PACKET - room]);
    out.extend_from_slice(&pes[..room]);
    let mut counter = packet.continuity();
    let mut left = &pes[room..];
    while !left.is_empty() {
        counter = (counter + 1) & 15;
        let none = Adaptation::default();
        let taken = put(packet.pid(), false, counter, none, left, &mut out);
        left = &left[taken..];
    }
    for bytes in rest.chunks(TS_PACKET) {
        let at = out.len();
        out.extend_from_slice(bytes);
        let packet = Packet::new(bytes)?;
        if packet.has_payload() {
            counter = (counter + 1) & 15;
        }
        set_continuity(&mut out[at..], counter);
    }
    debug_assert!(out.len().is_multiple_of(TS_PACKET));
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pes::put_video;
    use super::*;

    proptest! {
        #[test]
        fn what_is_put_in_is_in_its_place_and_counters_follow(
            picture in prop::collection::vec(any::<u8>(), 1..900),
            headers in prop::collection::vec(any::<u8>(), 1..400),
            at in 0usize..150,
            pcr in prop::option::of(0u64..1_000_000),
        ) {
            let mut packets = Vec::new();
            let mut counter = 13;
            let adaptation = Adaptation { random_access: true, pcr };
            put_video(256, &mut counter, adaptation, (9_000, 3_000), [&picture, &[]], &mut packets);
            let Some(out) = with_headers(&packets, at, &headers) else {
                prop_assert!(at > picture.len() || at > 150);
                return Ok(());
            };
            let all: Vec<Packet> = out.chunks(TS_PACKET).filter_map(Packet::new).collect();
            prop_assert_eq!(all.len() * TS_PACKET, out.len());
            prop_assert!(all[0].starts() && all[0].random_access());
            prop_assert_eq!(all[0].pcr(), pcr);
            for (index, packet) in all.iter().enumerate() {
                prop_assert_eq!(usize::from(packet.continuity()), (13 + index) & 15);
                prop_assert!(packet.pid() == 256 && packet.starts() == (index == 0));
            }
            let pes: Vec<u8> = all.iter().flat_map(|packet| packet.payload()).copied().collect();
            let header = PesHeader::parse(&pes).expect("a header");
            prop_assert_eq!((header.pts, header.dts), (Some(9_000), Some(3_000)));
            let expected = [&picture[..at], &headers, &picture[at..]].concat();
            prop_assert_eq!(&pes[header.len..], &expected[..]);
        }

        #[test]
        fn any_packets_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..200) {
            let mut bytes = bytes;
            bytes.iter_mut().step_by(TS_PACKET).for_each(|byte| *byte = 0x47);
            let _ = with_headers(&bytes, at, b"headers");
        }
    }
}
