//! What decoders have to know of a track before its first fragment.

use layercast_media::{AacConfig, AdtsHeader, Av1Config, nal_units};
use mp4_atom::esds::{DecoderConfig, DecoderSpecific, EsDescriptor, SLConfig};
use mp4_atom::{
    Audio, Av01, Av1c, Avc1, Avcc, AvccExt, Codec, Dinf, Dref, DrefEntry, Encode, Esds, FourCC,
    Ftyp, Hdlr, Mdhd, Mdia, Minf, Moov, Mp4a, Mvex, Mvhd, Smhd, Stbl, Stco, Stsd, Tkhd, Trak, Trex,
    Url, Visual, Vmhd,
};

use super::{HZ, TRACK, encoded};
use crate::message::{Chunk, VideoInfo};

/// `nal_unit_type` of H.264: parameter sets are in the first segment, and delimiters are not needed (ISO/IEC 14496-15, 5.2.3).
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;

fn put_new(nal: &[u8], to: &mut Vec<Vec<u8>>) {
    if !to.iter().any(|it| it == nal) {
        to.push(nal.to_vec());
    }
}

/// The segment before all fragments of a track.
pub(super) fn first_segment(track: Trak) -> Option<Vec<u8>> {
    let moov = Moov {
        mvhd: Mvhd {
            timescale: HZ,
            next_track_id: TRACK + 1,
            ..Mvhd::default()
        },
        mvex: Some(Mvex {
            trex: vec![Trex {
                track_id: TRACK,
                default_sample_description_index: 1,
                ..Trex::default()
            }],
            ..Mvex::default()
        }),
        trak: vec![track],
        ..Moov::default()
    };
    let ftyp = Ftyp {
        major_brand: FourCC::new(b"iso6"),
        minor_version: 0,
        compatible_brands: vec![FourCC::new(b"iso6"), FourCC::new(b"mp41")],
    };
    let mut out = encoded(&ftyp);
    moov.encode(&mut out).ok()?;
    Some(out)
}

fn track(handler: &[u8; 4], tkhd: Tkhd, minf: Minf) -> Trak {
    Trak {
        tkhd: Tkhd {
            track_id: TRACK,
            enabled: true,
            in_movie: true,
            ..tkhd
        },
        mdia: Mdia {
            mdhd: Mdhd {
                timescale: HZ,
                language: "und".to_owned(),
                ..Mdhd::default()
            },
            hdlr: Hdlr {
                handler: FourCC::new(handler),
                name: String::new(),
            },
            minf,
        },
        ..Trak::default()
    }
}

fn samples(codec: Codec) -> Stbl {
    Stbl {
        stsd: Stsd {
            codecs: vec![codec],
        },
        stco: Some(Stco::default()),
        ..Stbl::default()
    }
}

/// The media are in the file itself.
fn here() -> Dinf {
    Dinf {
        dref: Dref {
            entries: vec![DrefEntry::Url(Url::default())],
        },
    }
}

/// What a key picture of H.264 says to decoders, and the picture with the length of each NAL unit before it.
pub(super) fn h264(chunk: &Chunk, video: &VideoInfo) -> Option<(Option<Trak>, Vec<u8>)> {
    let (mut sequence, mut picture) = (Vec::new(), Vec::new());
    let mut data = Vec::with_capacity(chunk.unit().len() + 16);
    for nal in nal_units(chunk.unit()) {
        match nal[0] & 31 {
            SPS => put_new(nal, &mut sequence),
            PPS => put_new(nal, &mut picture),
            DELIMITER => {}
            _ => {
                data.extend_from_slice(&u32::try_from(nal.len()).ok()?.to_be_bytes());
                data.extend_from_slice(nal);
            }
        }
    }
    Some((
        avc_track(sequence, picture, video).filter(|_| chunk.is_key),
        data,
    ))
}

fn avc_track(sequence: Vec<Vec<u8>>, picture: Vec<Vec<u8>>, video: &VideoInfo) -> Option<Trak> {
    let mut avcc = Avcc::new(sequence.first()?, picture.first()?).ok()?;
    avcc.sequence_parameter_sets = sequence;
    avcc.picture_parameter_sets = picture;
    // Browsers decode 4:2:0 of eight bits.
    avcc.ext = matches!(avcc.avc_profile_indication, 100 | 110 | 122 | 144).then(AvccExt::default);
    let (visual, tkhd) = visual(video.size?)?;
    let avc1 = Avc1 {
        visual,
        avcc,
        ..Avc1::default()
    };
    Some(video_track(avc1.into(), tkhd))
}

/// What a key picture of AV1 says to decoders.
pub(super) fn av1_track(chunk: &Chunk, video: &VideoInfo) -> Option<Trak> {
    let config = Av1Config::of(chunk.unit()).filter(|_| chunk.is_key)?;
    let (visual, tkhd) = visual(video.size.unwrap_or(config.size))?;
    let av01 = Av01 {
        visual,
        av1c: Av1c {
            seq_profile: config.profile,
            seq_level_idx_0: config.level,
            seq_tier_0: config.is_high_tier,
            high_bitdepth: config.depth > 8,
            twelve_bit: config.depth > 10,
            monochrome: config.is_monochrome,
            chroma_subsampling_x: config.subsampling.0,
            chroma_subsampling_y: config.subsampling.1,
            chroma_sample_position: config.sample_position,
            initial_presentation_delay: None,
            config_obus: config.sequence,
        },
        ..Av01::default()
    };
    Some(video_track(av01.into(), tkhd))
}

fn visual((width, height): (u32, u32)) -> Option<(Visual, Tkhd)> {
    let (width, height) = (u16::try_from(width).ok()?, u16::try_from(height).ok()?);
    let visual = Visual {
        data_reference_index: 1,
        width,
        height,
        ..Visual::default()
    };
    let tkhd = Tkhd {
        width: width.into(),
        height: height.into(),
        ..Tkhd::default()
    };
    Some((visual, tkhd))
}

fn video_track(codec: Codec, tkhd: Tkhd) -> Trak {
    let minf = Minf {
        vmhd: Some(Vmhd::default()),
        dinf: here(),
        stbl: samples(codec),
        ..Minf::default()
    };
    track(b"vide", tkhd, minf)
}

/// Splits a frame of AAC from its header.
pub(super) fn aac(frame: &[u8]) -> Option<(AacConfig, &[u8])> {
    let adts = AdtsHeader::read(frame).filter(|it| it.config.channels > 0)?;
    Some((adts.config, frame.get(adts.header..)?))
}

/// The track of frames of AAC.
pub(super) fn sound_track(aac: AacConfig) -> Trak {
    let es_desc = EsDescriptor {
        es_id: 1,
        dec_config: DecoderConfig {
            // Audio of ISO/IEC 14496-3.
            object_type_indication: 0x40,
            stream_type: 5,
            dec_specific: Some(DecoderSpecific {
                profile: aac.object,
                freq_index: aac.frequency,
                chan_conf: aac.channels,
                raw: Vec::new(),
            }),
            ..DecoderConfig::default()
        },
        sl_config: SLConfig::default(),
        ..EsDescriptor::default()
    };
    let mp4a = Mp4a {
        audio: Audio {
            data_reference_index: 1,
            channel_count: aac.channels.into(),
            sample_size: 16,
            sample_rate: u16::try_from(aac.rate()).unwrap_or(0).into(),
        },
        esds: Esds { es_desc },
        btrt: None,
        taic: None,
    };
    let minf = Minf {
        smhd: Some(Smhd::default()),
        dinf: here(),
        stbl: samples(mp4a.into()),
        ..Minf::default()
    };
    let tkhd = Tkhd {
        volume: 1.into(),
        ..Tkhd::default()
    };
    track(b"soun", tkhd, minf)
}
