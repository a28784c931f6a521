//! Pictures out of a stream in IVF, for decoders that take no container.

use layercast_core::Media;

use super::{FRAME_HEADER, Header, MAGIC, codec_of};
use crate::{AccessUnit, UnitKind, VideoCodec, av1, vpx};

/// Largest picture; a header that says more is none.
const MOST: usize = 1 << 24;
/// Ticks of time stamps in a second.
const HZ: u128 = 90_000;

/// Takes a stream in IVF apart that [`FlowWriter`](crate::FlowWriter) wrote. It may begin again, with another header.
#[derive(Debug, Default)]
pub struct IvfUnits {
    header: Option<Header>,
    state: av1::State,
    /// Octets of a header or a picture that is not whole.
    rest: Vec<u8>,
}

impl IvfUnits {
    /// Whether a stream in IVF begins here.
    pub fn begins(data: &[u8]) -> bool {
        data.starts_with(MAGIC)
    }

    /// Width and height, once a header came.
    pub fn size(&self) -> Option<(u32, u32)> {
        self.header.map(|it| (it.width, it.height))
    }

    /// Takes octets of the stream; `out` gets the pictures that they complete. What is none is skipped up to the next header.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<AccessUnit>) {
        self.rest.extend_from_slice(bytes);
        let mut rest = std::mem::take(&mut self.rest);
        let mut used = 0;
        while let Some(taken) = self.take(&rest[used..], out) {
            used += taken;
        }
        rest.drain(..used);
        self.rest = rest;
    }

    /// Takes a header or a picture; gives its octets. `None` if it is not whole.
    fn take(&mut self, data: &[u8], out: &mut Vec<AccessUnit>) -> Option<usize> {
        if IvfUnits::begins(data) {
            let (header, taken) = Header::read(data)?;
            (self.header, self.state) = (Some(header), av1::State::default());
            return (taken <= data.len()).then_some(taken);
        }
        let (head, behind) = data.split_first_chunk::<FRAME_HEADER>()?;
        let (len, ticks) = head.split_first_chunk().map(|(len, ticks)| {
            let ticks = ticks.try_into().map_or(0, u64::from_le_bytes);
            (u32::from_le_bytes(*len) as usize, ticks)
        })?;
        let Some(header) = self.header.filter(|_| len <= MOST) else {
            // The search for a header leaves what may be its beginning.
            let found = memchr::memmem::find(&data[1..], MAGIC).map(|at| at + 1);
            return Some(found.unwrap_or(data.len() - (MAGIC.len() - 1)));
        };
        let data = behind.get(..len)?;
        out.extend(self.unit(header, ticks, data));
        Some(FRAME_HEADER + len)
    }

    fn unit(&mut self, header: Header, ticks: u64, data: &[u8]) -> Option<AccessUnit> {
        let (codec, is_key) = match codec_of(header.fourcc)? {
            Media::Av1 => {
                let unit = av1::Unit::read(data, &mut self.state)?;
                (VideoCodec::Av1, unit.is_start)
            }
            Media::Vp8 => (VideoCodec::Vp8, vpx::Unit::vp8(data)?.is_start),
            Media::Vp9 => (VideoCodec::Vp9, vpx::Unit::vp9(data)?.is_start),
            _ => return None,
        };
        let (num, den) = (u128::from(header.clock.num), u128::from(header.clock.den));
        let pts = u128::from(ticks) * HZ * den / num;
        let pts = (pts % (1 << 33)) as u64;
        Some(AccessUnit {
            kind: UnitKind::Video(codec),
            pts,
            dts: pts,
            is_key,
            data: data.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of two pictures of VP8, the first of them a key picture.
    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        Header::write(*b"VP80", (320, 180), &mut out);
        super::super::put(
            &[0x30, 0, 0, 0x9D, 1, 0x2A, 0x40, 1, 0xB4, 0, 7],
            9_000,
            &mut out,
        );
        super::super::put(&[0x31, 0, 0, 7], 12_600, &mut out);
        out
    }

    #[test]
    fn pictures_come_whole_from_pieces_of_any_size_and_after_octets_that_are_none() {
        for size in [1, 7, 200] {
            let (mut units, mut out) = (IvfUnits::default(), Vec::new());
            let octets = [&stream()[..], &[0xFF; 50], &stream()].concat();
            for piece in octets.chunks(size) {
                units.push(piece, &mut out);
            }
            let seen: Vec<_> = out
                .iter()
                .map(|it| (it.pts, it.is_key, it.data.len()))
                .collect();
            let once = [(9_000, true, 11), (12_600, false, 4)];
            assert_eq!(seen, [once, once].concat(), "{size}");
            assert_eq!(units.size(), Some((320, 180)));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_octets_are_safe(octets in proptest::collection::vec(proptest::num::u8::ANY, 0..400), at in 0_usize..80) {
            let (mut units, mut out) = (IvfUnits::default(), Vec::new());
            let stream = stream();
            units.push(&stream[..at.min(stream.len())], &mut out);
            units.push(&octets, &mut out);
            proptest::prop_assert!(units.rest.len() <= MOST + FRAME_HEADER);
        }
    }
}
