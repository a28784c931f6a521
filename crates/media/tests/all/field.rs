//! Conditions of RTP and of transport streams that users of other programs reported: each picture comes out, and none is damaged.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use bytes::Bytes;
use layercast_core::Media;
use layercast_media::{Clip, Undecodable};

use crate::common::{decode, encode, have_ffmpeg};
use crate::input_loss::{FRAMES, datagrams, taken, written};

const OPTIONS: &str =
    "-c:v libx264 -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none:repeat-headers=1";

type Packets = Vec<Vec<u8>>;

/// NAL unit type of a packet.
fn kind(packet: &[u8]) -> u8 {
    packet[12] & 31
}

fn stamp(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[4..8].try_into().expect("four octets"))
}

fn set_stamp(packet: &mut [u8], stamp: u32) {
    packet[4..8].copy_from_slice(&stamp.to_be_bytes());
}

/// Numbers packets one after the other from `first` on.
fn number(packets: &mut [Vec<u8>], first: u16) {
    for (at, packet) in packets.iter_mut().enumerate() {
        packet[2..4].copy_from_slice(&first.wrapping_add(at as u16).to_be_bytes());
    }
}

/// Each NAL unit of an aggregation packet (RFC 6184, 5.7.1) in a packet of its own, as cameras send them.
fn apart(packets: &[Vec<u8>]) -> Packets {
    let mut all = Packets::new();
    for packet in packets {
        if kind(packet) != 24 {
            all.push(packet.clone());
            continue;
        }
        let mut rest = &packet[13..];
        while let Some((len, behind)) = rest.split_first_chunk::<2>() {
            let (nal, behind) = behind.split_at(u16::from_be_bytes(*len).into());
            let mut one = [&packet[..12], nal].concat();
            if !behind.is_empty() {
                one[1] &= 0x7F;
            }
            all.push(one);
            rest = behind;
        }
    }
    number(&mut all, 1_000);
    all
}

/// Where the third key frame begins.
fn middle(packets: &[Vec<u8>]) -> usize {
    let starts = packets.iter().enumerate().filter(|it| kind(it.1) == 7);
    let starts: Vec<usize> = starts.map(|it| it.0).collect();
    assert_eq!(starts.len(), 4, "a parameter set before each key frame");
    starts[2]
}

/// A camera sends parameter sets with the marker, and with the time stamp of the picture before.
/// https://github.com/scottlamb/retina/issues/13
fn sets_of_the_picture_before(mut packets: Packets) -> Packets {
    let mut last = stamp(&packets[0]);
    for packet in &mut packets {
        match kind(packet) {
            7 | 8 => {
                packet[1] |= 0x80;
                set_stamp(packet, last);
            }
            _ => last = stamp(packet),
        }
    }
    packets
}

/// A camera sends units of SEI alone, with the marker and the time stamp of the picture before.
/// https://github.com/bluenviron/mediamtx/issues/6257
fn sei_alone(packets: Packets) -> Packets {
    let mut all = Packets::new();
    for packet in packets {
        let ends = packet[1] & 0x80 != 0;
        let sei = [&packet[..12], b"\x06\x05\x04abcd\x80"].concat();
        all.push(packet);
        if ends {
            all.extend([sei.clone(), sei]);
        }
    }
    number(&mut all, 65_000);
    all
}

/// A sender numbers from another beginning in mid-stream, and keeps its SSRC.
/// https://github.com/livekit/media-sdk/pull/95
fn numbers_begin_again(mut packets: Packets) -> Packets {
    let at = middle(&packets);
    number(&mut packets[..at], 30_000);
    number(&mut packets[at..], 5);
    packets
}

/// The same, and its time stamps begin again.
/// https://github.com/cisco/libsrtp/issues/424
fn numbers_and_stamps_begin_again(packets: Packets) -> Packets {
    let mut packets = numbers_begin_again(packets);
    let at = middle(&packets);
    for packet in &mut packets[at..] {
        let moved = stamp(packet).wrapping_add(900_000_000);
        set_stamp(packet, moved);
    }
    packets
}

#[test]
fn odd_senders_of_rtp_lose_no_picture() {
    if !have_ffmpeg() {
        return;
    }
    let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {OPTIONS} -f h264");
    let data = encode("field.h264", &options);
    let original = decode("h264", &data);
    let packets = apart(&datagrams(&Clip::parse(Bytes::from(data)).expect("a clip")));
    for (what, change) in [
        (
            "sets of the picture before",
            sets_of_the_picture_before as fn(Packets) -> Packets,
        ),
        ("SEI alone", sei_alone),
        ("numbers", numbers_begin_again),
        ("numbers and stamps", numbers_and_stamps_begin_again),
    ] {
        let packets = change(packets.clone());
        let (frames, loss) = taken(packets.iter().map(Vec::as_slice));
        let (out, stats) = written(Media::H264, &frames, Undecodable::LeaveOut);
        assert_eq!(loss.pictures, 0, "{what}: {loss:?}");
        assert_eq!(decode("h264", &out), original, "{what}: {stats:?}");
    }
}
