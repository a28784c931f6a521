//! Names files and datagrams that hold no stream that is served, and says what makes one of them.

use std::fmt;

use memchr::memmem;

/// Bytes at the beginning of a file in which the codec of its video is looked for, where its place is not fixed.
const FRONT: usize = 1 << 20;

/// What bytes are that are no stream that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// The format, with its article: "an MP4 or QuickTime file".
    pub what: &'static str,
    /// What helps.
    pub remedy: Remedy,
}

/// What makes a stream that is served of a foreign file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// The codec of its video, where it was found.
    pub codec: Option<&'static str>,
    /// Whether sound was found beside it.
    pub has_sound: bool,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Its codec goes into a transport stream as it is.
    Copy,
    /// So it does, with the headers of the container put before each key frame.
    CopyHeaders,
    /// Pictures have decoding times only.
    CopyAvi,
    /// Its codec goes into IVF as it is.
    CopyIvf,
    /// The beginning is in a file of its own.
    Segment,
    /// No transport stream carries its codec.
    Encode,
    /// The codec was not found.
    Unknown,
    /// There is no video.
    NoVideo,
    /// A packet capture.
    Capture,
    /// Packed.
    Unpack,
    /// It names other files, or a session.
    Playlist,
    Session,
    /// A trace is recognised by its file name.
    Trace,
    /// Nothing is known of it.
    Nothing,
}

const COPY: &str = "ffmpeg -i FILE -c copy -f mpegts CLIP.ts";
const ENCODE: &str = "ffmpeg -i FILE -c:v libx264 -g 25 -bf 2 -c:a aac -f mpegts CLIP.ts";

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(codec) = self.codec {
            write!(f, "its video is {codec}; ")?;
        }
        match self.how {
            How::Copy => write!(f, "put it into a transport stream without loss: {COPY}"),
            How::CopyHeaders => write!(
                f,
                "put it into a transport stream without loss, with its headers before each key frame: \
                 ffmpeg -i FILE -c copy -bsf:v dump_extra -f mpegts CLIP.ts"
            ),
            How::CopyAvi => write!(
                f,
                "put it into a transport stream without loss: \
                 ffmpeg -fflags +genpts -i FILE -c copy -f mpegts CLIP.ts"
            ),
            How::Segment => write!(
                f,
                "it is of use behind its initialisation segment only: \
                 cat INIT.mp4 FILE | ffmpeg -i - -c copy -f mpegts CLIP.ts"
            ),
            How::Encode => write!(
                f,
                "no transport stream carries that so that players understand it; encode it: {ENCODE}"
            ),
            How::CopyIvf => write!(
                f,
                "put it into IVF without loss, which takes no sound: ffmpeg -i FILE -an -c copy CLIP.ivf; with sound, encode \
                 it: {ENCODE}"
            ),
            How::Unknown => write!(
                f,
                "H.264, H.265 and MPEG-2 go into a transport stream without loss: {COPY}; other codecs have to be \
                 encoded: {ENCODE}"
            ),
            How::NoVideo => write!(
                f,
                "there is no video in it to be layered; {COPY} serves sound alone"
            ),
            How::Capture => write!(
                f,
                "write the stream out of it first. MPEG-TS in UDP to port 5000: tshark -r FILE -d udp.port==5000,data \
                 -Y udp.dstport==5000 -T fields -e data | xxd -r -p > CLIP.ts. Times and sizes of datagrams, \
                 for layercast workload: tshark -r FILE -Y udp -T fields -E separator=, -e frame.time_relative \
                 -e udp.length > TRACE.csv"
            ),
            How::Unpack => write!(f, "unpack it first"),
            How::Playlist => write!(
                f,
                "it names the media and does not hold them; fetch them without loss: {COPY}"
            ),
            How::Session => write!(
                f,
                "it describes a session and holds no media; record that without loss: \
                 ffmpeg -protocol_whitelist file,udp,rtp -i FILE -c copy -f mpegts CLIP.ts"
            ),
            How::Trace => write!(
                f,
                "a frame-size trace is recognised by its name, *.trace or *.txt"
            ),
            How::Nothing => write!(f, "if it is a video, ffmpeg converts it: {ENCODE}"),
        }
    }
}

/// Codecs that a transport stream carries as they are.
const CARRIED: [&str; 4] = ["H.264", "H.265", "MPEG-2", "MPEG-1"];
/// Codecs that IVF carries, and no transport stream.
const IN_IVF: [&str; 3] = ["AV1", "VP8", "VP9"];
const MPEG4: &str = "MPEG-4 part 2";

/// What a program that reads containers, such as ffmpeg, makes of a foreign file without encoding: a transport stream, or IVF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It does.
    Remux {
        /// The headers of the codec have to be put before each key frame.
        headers: bool,
    },
    /// It makes IVF of it, which carries AV1, VP8 and VP9, and no sound.
    Ivf,
    /// Nothing is known of it: that program may know more.
    Unknown,
    /// It is a session description, which names what is received.
    Session,
    /// It does not.
    None,
}

impl Remedy {
    /// What becomes of the file without encoding.
    pub const fn way(self) -> Way {
        match self.how {
            How::Copy | How::CopyAvi | How::Unknown | How::NoVideo | How::Playlist => {
                Way::Remux { headers: false }
            }
            How::CopyHeaders => Way::Remux { headers: true },
            How::Nothing => Way::Unknown,
            How::Session => Way::Session,
            How::CopyIvf => Way::Ivf,
            How::Segment | How::Encode | How::Capture | How::Unpack | How::Trace => Way::None,
        }
    }

    const fn of(how: How) -> Remedy {
        Remedy {
            codec: None,
            has_sound: false,
            how,
        }
    }

    /// For a container that keeps the headers of its codec apart.
    fn container(codec: Option<&'static str>) -> Remedy {
        let how = match codec {
            None => How::Unknown,
            Some(MPEG4) => How::CopyHeaders,
            Some(codec) if CARRIED.contains(&codec) => How::Copy,
            Some(codec) if IN_IVF.contains(&codec) => How::CopyIvf,
            Some(_) => How::Encode,
        };
        Remedy {
            codec,
            has_sound: false,
            how,
        }
    }

    /// The same, beside which there is sound.
    const fn with_sound(self, has_sound: bool) -> Remedy {
        Remedy { has_sound, ..self }
    }

    /// For a stream without a container whose times ffmpeg knows.
    pub(crate) const fn copied(codec: Option<&'static str>) -> Remedy {
        Remedy {
            codec,
            has_sound: false,
            how: How::Copy,
        }
    }

    /// For what nothing is known of.
    pub(crate) const NOTHING: Remedy = Remedy::of(How::Nothing);
}

/// Names a file or datagram by its first bytes; `None` if nothing tells what it is.
///
/// Streams that are served are not named: see [`Clip::parse`](crate::Clip::parse).
pub fn identify(data: &[u8]) -> Option<Foreign> {
    container(data).or_else(|| weakly(data))
}

/// First bytes of a format, its name, and what helps, by all of the file.
type Magic<'a> = (&'a [u8], &'static str, fn(&[u8]) -> Remedy);

/// Names a file by first bytes that nothing else has.
pub(crate) fn container(data: &[u8]) -> Option<Foreign> {
    let found = |what, remedy| Some(Foreign { what, remedy });
    if is_mp4(data) {
        return found("an MP4 or QuickTime file", mp4(data));
    }
    if data.starts_with(b"RIFF") {
        return match data.get(8..12) {
            Some(b"AVI ") => found("an AVI file", avi(data)),
            Some(b"WAVE") => found("a WAV file", Remedy::of(How::NoVideo)),
            Some(b"WEBP") => found("a still image", Remedy::of(How::Nothing)),
            _ => found("a RIFF file", Remedy::of(How::Nothing)),
        };
    }
    let table: [Magic; 32] = [
        (b"\x1A\x45\xDF\xA3", "a WebM or Matroska file", matroska),
        (b"FLV", "a Flash video", flash),
        (b"OggS", "an Ogg file", ogg),
        (b"DKIF", "an IVF file", |data| {
            Remedy::container(fourcc(data.get(8..12)))
        }),
        (
            b"\x30\x26\xB2\x75\x8E\x66\xCF\x11",
            "a Windows Media (ASF) file",
            |_| encoded("Windows Media"),
        ),
        (b".RMF", "a RealMedia file", |_| encoded("RealVideo")),
        (b"\x06\x0E\x2B\x34", "an MXF file", |_| {
            Remedy::container(None)
        }),
        (b"YUV4MPEG2", "uncompressed video (Y4M)", |_| {
            encoded("uncompressed")
        }),
        (b"\xD4\xC3\xB2\xA1", "a packet capture (pcap)", |_| {
            Remedy::of(How::Capture)
        }),
        (b"\xA1\xB2\xC3\xD4", "a packet capture (pcap)", |_| {
            Remedy::of(How::Capture)
        }),
        (b"\x4D\x3C\xB2\xA1", "a packet capture (pcap)", |_| {
            Remedy::of(How::Capture)
        }),
        (b"\xA1\xB2\x3C\x4D", "a packet capture (pcap)", |_| {
            Remedy::of(How::Capture)
        }),
        (b"\x0A\x0D\x0D\x0A", "a packet capture (pcapng)", |_| {
            Remedy::of(How::Capture)
        }),
        (b"ID3", "an MP3 file", |_| Remedy::of(How::NoVideo)),
        (b"fLaC", "a FLAC file", |_| Remedy::of(How::NoVideo)),
        (b"\x7FELF", "an ELF executable", |_| Remedy::NOTHING),
        (b"\x89PNG", "a still image", |_| Remedy::NOTHING),
        (b"\xFF\xD8\xFF", "a still image", |_| Remedy::NOTHING),
        (b"GIF8", "a still image", |_| Remedy::NOTHING),
        (b"\x1F\x8B", "a compressed archive", |_| {
            Remedy::of(How::Unpack)
        }),
        (b"PK\x03\x04", "a compressed archive", |_| {
            Remedy::of(How::Unpack)
        }),
        (b"\xFD7zXZ", "a compressed archive", |_| {
            Remedy::of(How::Unpack)
        }),
        (b"BZh", "a compressed archive", |_| Remedy::of(How::Unpack)),
        (b"7z\xBC\xAF", "a compressed archive", |_| {
            Remedy::of(How::Unpack)
        }),
        (b"\x28\xB5\x2F\xFD", "a compressed archive", |_| {
            Remedy::of(How::Unpack)
        }),
        (b"%PDF", "a PDF document", |_| Remedy::NOTHING),
        (b"#EXTM3U", "a playlist (HLS)", |_| {
            Remedy::of(How::Playlist)
        }),
        (b"v=0\n", "a session description (SDP)", |_| {
            Remedy::of(How::Session)
        }),
        (b"v=0\r", "a session description (SDP)", |_| {
            Remedy::of(How::Session)
        }),
        (b"SIMPLE", "a FITS file", |_| Remedy::NOTHING),
        (b"PAR1", "a Parquet file", |_| Remedy::NOTHING),
        (b"nut/multimedia", "a NUT file", |_| Remedy::container(None)),
    ];
    let magic = table.iter().find(|(magic, ..)| data.starts_with(magic));
    if let Some((_, what, remedy)) = magic {
        return found(what, remedy(data));
    }
    None
}

/// Names a file by bytes that others may have too.
fn weakly(data: &[u8]) -> Option<Foreign> {
    let found = |what, remedy| Some(Foreign { what, remedy });
    if data.starts_with(b"\x0B\x77") {
        return found("AC-3 sound", Remedy::of(How::NoVideo));
    }
    if let [0xFF, second, ..] = data
        && second & 0xE0 == 0xE0
        && second & 0x06 != 0x06
        && data.len() > 3
    {
        // A sync word of 11 or 12 bits; layer 0 is AAC.
        let what = match second & 0x06 {
            0 => "AAC sound (ADTS)",
            _ => "MPEG sound",
        };
        return found(what, Remedy::of(How::NoVideo));
    }
    if is_text(data) {
        let what = match memmem::find(&data[..data.len().min(512)], b"<MPD") {
            Some(_) => return found("a playlist (DASH)", Remedy::of(How::Playlist)),
            None => "text",
        };
        return found(what, Remedy::of(How::Trace));
    }
    None
}

fn encoded(codec: &'static str) -> Remedy {
    Remedy {
        codec: Some(codec),
        has_sound: false,
        how: How::Encode,
    }
}

fn is_text(data: &[u8]) -> bool {
    !data.is_empty()
        && data
            .iter()
            .take(512)
            .all(|&byte| byte >= 0x20 && byte != 0x7F || matches!(byte, b'\t' | b'\n' | b'\r'))
}

/// Boxes with which files of ISO/IEC 14496-12 and QuickTime begin.
fn is_mp4(data: &[u8]) -> bool {
    const BOXES: [&[u8]; 12] = [
        b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"sidx", b"free", b"skip", b"wide", b"emsg",
        b"pdin", b"prft",
    ];
    data.get(4..8).is_some_and(|kind| BOXES.contains(&kind))
}

fn mp4(data: &[u8]) -> Remedy {
    let entries = memmem::find_iter(data, b"stsd");
    // Behind the name: version and flags, number of entries, size of the first entry, its format.
    let codec = entries
        .into_iter()
        .find_map(|at| fourcc(data.get(at + 16..at + 20)).map(|codec| (at, codec)));
    match codec {
        // The codec in MPEG-4 systems follows from the decoder's object type (ISO/IEC 14496-1, table 5).
        Some((at, MPEG4)) => {
            let front = &data[at..data.len().min(at + 512)];
            let object = memmem::find(front, b"esds").and_then(|esds| {
                let body = &front[esds + 8..];
                let config = body.iter().position(|&byte| byte == 0x04)?;
                let sized = &body[config + 1..];
                let length = sized.iter().take_while(|&&byte| byte & 0x80 != 0).count() + 1;
                sized.get(length)
            });
            Remedy::container(Some(match object {
                Some(0x60..=0x65) => "MPEG-2",
                Some(0x6A) => "MPEG-1",
                _ => MPEG4,
            }))
        }
        Some((_, codec)) => {
            // The handler of a track of sound (ISO/IEC 14496-12, 8.4.3).
            let has_sound = memmem::find(data, b"soun").is_some();
            Remedy::container(Some(codec)).with_sound(has_sound)
        }
        None if memmem::find(data, b"moov").is_none() && memmem::find(data, b"moof").is_some() => {
            Remedy::of(How::Segment)
        }
        None => Remedy::container(None),
    }
}

/// The codec of a four-character code of video.
fn fourcc(code: Option<&[u8]>) -> Option<&'static str> {
    let code = code?.to_ascii_lowercase();
    Some(match &code[..] {
        b"avc1" | b"avc3" | b"h264" | b"x264" | b"dva1" | b"dvav" => "H.264",
        b"hvc1" | b"hev1" | b"hevc" | b"h265" | b"x265" | b"dvh1" | b"dvhe" => "H.265",
        b"mp4v" | b"xvid" | b"divx" | b"dx50" | b"fmp4" | b"mp4s" | b"m4s2" => MPEG4,
        b"m2v1" | b"mpg2" | b"mx5p" | b"xdv2" | b"xdvb" | b"hdv2" => "MPEG-2",
        b"mpg1" | b"m1v1" | b"mpeg" => "MPEG-1",
        b"vp08" | b"vp80" => "VP8",
        b"vp09" | b"vp90" => "VP9",
        b"av01" => "AV1",
        b"mjpg" | b"mjpa" | b"jpeg" => "Motion JPEG",
        b"apch" | b"apcn" | b"apcs" | b"apco" | b"ap4h" | b"ap4x" => "ProRes",
        b"h263" | b"s263" => "H.263",
        b"dvc " | b"dvcp" | b"dvsd" => "DV",
        _ => return None,
    })
}

fn matroska(data: &[u8]) -> Remedy {
    let front = &data[..data.len().min(FRONT)];
    let names: [(&[u8], &'static str); 12] = [
        (b"V_MPEG4/ISO/AVC", "H.264"),
        (b"V_MPEGH/ISO/HEVC", "H.265"),
        (b"V_MPEG4/ISO", MPEG4),
        (b"V_MPEG2", "MPEG-2"),
        (b"V_MPEG1", "MPEG-1"),
        (b"V_VP8", "VP8"),
        (b"V_VP9", "VP9"),
        (b"V_AV1", "AV1"),
        (b"V_THEORA", "Theora"),
        (b"V_MJPEG", "Motion JPEG"),
        (b"V_PRORES", "ProRes"),
        (b"V_FFV1", "FFV1"),
    ];
    let named = |name: &&(&[u8], &'static str)| memmem::find(front, name.0).is_some();
    const SOUND: [&[u8]; 8] = [
        b"A_OPUS",
        b"A_VORBIS",
        b"A_AAC",
        b"A_MPEG/",
        b"A_FLAC",
        b"A_AC3",
        b"A_EAC3",
        b"A_PCM/",
    ];
    let has_sound = SOUND.iter().any(|name| memmem::find(front, name).is_some());
    Remedy::container(names.iter().find(named).map(|it| it.1)).with_sound(has_sound)
}

/// The first video tag says which codec it is (Adobe Flash Video File Format 10.1, E.4.3; Enhanced RTMP 2).
fn flash(data: &[u8]) -> Remedy {
    const VIDEO: u8 = 9;
    let word = |at: usize| match data.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]) as usize,
        _ => 0,
    };
    let mut at = word(5) + 4;
    while let Some(&kind) = data.get(at) {
        let size = word(at) & 0xFF_FFFF;
        let Some(&first) = data.get(at + 11) else {
            break;
        };
        if kind & 31 != VIDEO {
            at += 11 + size + 4;
            continue;
        }
        return match (first & 0x80, first & 15) {
            (0, 2) => encoded("Sorenson H.263 (FLV1)"),
            (0, 4 | 5) => encoded("VP6"),
            (0, 7) => Remedy::container(Some("H.264")),
            (0, 12) => Remedy::container(Some("H.265")),
            (0, _) => encoded("a codec of Flash"),
            _ => Remedy::container(fourcc(data.get(at + 12..at + 16))),
        };
    }
    Remedy::container(None)
}

fn ogg(data: &[u8]) -> Remedy {
    let front = &data[..data.len().min(4_096)];
    match memmem::find(front, b"theora") {
        Some(_) => encoded("Theora"),
        None => Remedy::of(How::NoVideo),
    }
}

fn avi(data: &[u8]) -> Remedy {
    let front = &data[..data.len().min(FRONT)];
    let codec = memmem::find(front, b"vids").and_then(|at| fourcc(front.get(at + 4..at + 8)));
    match Remedy::container(codec) {
        Remedy {
            codec,
            how: How::Copy | How::CopyHeaders,
            ..
        } => Remedy {
            how: How::CopyAvi,
            ..Remedy::container(codec)
        },
        other => other.with_sound(memmem::find(front, b"auds").is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(data: &[u8], what: &str, words: &[&str]) {
        let found = identify(data).expect("known");
        assert_eq!(found.what, what);
        let text = found.remedy.to_string();
        for word in words {
            assert!(text.contains(word), "{what}: {text}");
        }
    }

    #[test]
    fn the_remedy_follows_the_codec() {
        let mp4 = |format: &[u8], rest: &[u8]| {
            [
                b"\0\0\0\x18ftypmp42..............stsd\0\0\0\0\0\0\0\x01\0\0\0\x99",
                format,
                rest,
            ]
            .concat()
        };
        let file = "an MP4 or QuickTime file";
        says(&mp4(b"avc1", b""), file, &["H.264", "-c copy -f mpegts"]);
        let esds = |object: u8| {
            [
                b"..esds\0\0\0\0\x03\x80\x80\x80\x22\0\x01\0\x04\x80\x80\x80\x14",
                &[object][..],
            ]
            .concat()
        };
        says(&mp4(b"mp4v", &esds(0x20)), file, &[MPEG4, "dump_extra"]);
        says(
            &mp4(b"mp4v", &esds(0x61)),
            file,
            &["MPEG-2", "-c copy -f mpegts"],
        );
        says(&mp4(b"vp09", b""), file, &["VP9", "CLIP.ivf", "libx264"]);
        says(b"\0\0\0\x18ftypmp42", file, &["-c copy", "libx264"]);
        says(b"\0\0\0\x18stypmsdh........moof", file, &["INIT.mp4"]);
        let matroska = "a WebM or Matroska file";
        says(
            b"\x1A\x45\xDF\xA3....V_MPEG4/ISO/AVC",
            matroska,
            &["H.264", "-c copy -f"],
        );
        says(b"\x1A\x45\xDF\xA3....V_VP9", matroska, &["VP9", "libx264"]);
        let way = |data: &[u8]| {
            let remedy = identify(data).expect("known").remedy;
            (remedy.way(), remedy.has_sound)
        };
        assert_eq!(way(b"\x1A\x45\xDF\xA3..V_AV1..A_OPUS"), (Way::Ivf, true));
        assert_eq!(way(b"\x1A\x45\xDF\xA3..V_VP8"), (Way::Ivf, false));
        assert_eq!(way(&mp4(b"av01", b"..hdlr....soun")), (Way::Ivf, true));
        let flash = |first: u8| {
            let sound = [8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xAF, 0, 0, 0, 12];
            let video = [9, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, first];
            [&b"FLV\x01\x05\0\0\0\x09\0\0\0\0"[..], &sound, &video].concat()
        };
        says(&flash(0x17), "a Flash video", &["H.264", "-c copy -f"]);
        says(&flash(0x12), "a Flash video", &["FLV1", "libx264"]);
        says(
            b"RIFF....AVI ....vidsH264",
            "an AVI file",
            &["H.264", "+genpts"],
        );
        says(
            b"RIFF....AVI ....vidsMJPG",
            "an AVI file",
            &["Motion JPEG", "libx264"],
        );
        says(
            b"\xD4\xC3\xB2\xA1\x02\0",
            "a packet capture (pcap)",
            &["tshark -r FILE"],
        );
        says(b"\xFF\xF1\x50\x40", "AAC sound (ADTS)", &["no video"]);
        says(b"#EXTM3U\n", "a playlist (HLS)", &["-c copy"]);
        says(b"1 I 1000\n", "text", &["*.trace"]);
        assert_eq!(identify(&[3; 200]), None);
        assert_eq!(identify(b""), None);
    }
}
