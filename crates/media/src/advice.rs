//! What a stream cannot give to its receivers, and which setting of the encoder helps.

use std::fmt;

use layercast_core::{CellRate, Composition, FlowSpec, Layer, Media, Rate, Span};
use serde::Serialize;

use crate::levels::two_digits;
use crate::{LONG_GOP, VideoCodec};

/// Key frames further apart than this are worth a note; further than [`LONG_GOP`], a warning.
const RATHER_LONG_GOP: Span = Span::from_ms(2_500);

/// A worst GOP of this multiple of the mean rate, in permille, fills the queues of links that carry the mean.
const BURST_PERMILLE: u64 = 2_500;

/// Something for which receivers get less than their links carry.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Advice {
    /// Pictures of this codec are not distinguished.
    Codec {
        /// The codec.
        codec: VideoCodec,
    },
    /// There is no video.
    NoVideo,
    /// Every picture is a key frame.
    BaseOnly,
    /// Others refer to every picture, so that nothing is above the base layer.
    NoSteps {
        /// What the flow carries.
        media: Media,
    },
    /// The levels above the base layer add little.
    SmallSteps {
        /// Share of the base layer in the rate, in percent.
        base_percent: u8,
        /// What the flow carries.
        media: Media,
    },
    /// Nothing is in E2.
    NoDroppable,
    /// Key frames are far apart.
    LongGop {
        /// How far, in seconds.
        seconds: f64,
        /// GOPs are longer than can be measured.
        or_more: bool,
    },
    /// Every picture is a key frame or close to one: the base layer takes nearly all of the rate.
    ShortGop {
        /// Pictures in a GOP.
        pictures: u8,
    },
    /// The worst GOPs of the layers take several times the mean rate.
    Bursts {
        /// Mean rate of all layers.
        mean: Rate,
        /// Rate of the worst GOPs.
        peak: Rate,
        /// Bit rate of the encoder that gives this mean, in bit/s.
        encoder_bps: u64,
        /// Length of a GOP, in seconds.
        gop_s: f64,
    },
}

/// The base layer of a stream whose enhancement layers are of use takes at most this share, in percent.
const LARGE_BASE_PERCENT: u64 = 90;

/// Options of ffmpeg with which x264 makes two B pictures behind each P picture, to which no other refers and which are
/// quantised as P pictures are: the base layer takes some 60 to 70 % of the rate at a third of the pictures.
const STEPS: &str = "-preset veryfast -bf 2 -g 48 -x264-params scenecut=0:b-adapt=0:b-pyramid=none:mbtree=0:pbratio=1.0";

/// What makes pictures of a codec to which no other refers.
fn steps_of(media: Media) -> String {
    let layers = |map: &str, encoder: &str| {
        format!(
            "with three temporal layers (ffmpeg with {encoder}: -deadline realtime -lag-in-frames 0 -error-resilient 1 -b:v 1M \
             -minrate 1M -maxrate 1M -ts-parameters {THREE_LAYERS}) give --map {map}"
        )
    };
    match media {
        Media::H265 => "let the encoder make B pictures to which no other refers (ffmpeg with libx265: -bf 3 -x265-params \
                        temporal-layers=1), which -tune zerolatency does not"
            .into(),
        Media::Av1 => "let the encoder make pictures to which no other refers (ffmpeg: -c:v libsvtav1, or libaom-av1 without \
                       -usage realtime)"
            .into(),
        Media::Vp8 => layers("vp8-ts3", "libvpx"),
        Media::Vp9 => layers("vp9-ts3", "libvpx-vp9"),
        _ => format!(
            "let the encoder make B pictures to which no other refers (ffmpeg with libx264: {STEPS}), which -tune zerolatency \
             and -preset ultrafast do not"
        ),
    }
}

/// What makes them larger.
fn larger_steps_of(media: Media) -> String {
    match media {
        Media::Av1 => "let the encoder make temporal layers, which ffmpeg has no option for (libaom: SVC mode L1T3), or encode \
                       it as H.264"
            .into(),
        Media::H265 => {
            "let the encoder spend more on B pictures to which no other refers (ffmpeg with libx265: -bf 3 -x265-params \
             temporal-layers=1:b-adapt=0:pbratio=1.0), or encode it as H.264"
                .into()
        }
        _ => format!(
            "let the encoder spend more on B pictures to which no other refers (ffmpeg with libx264: {STEPS})"
        ),
    }
}

/// Three temporal layers of libvpx in the order that `--map vp8-ts3` and `vp9-ts3` expect.
const THREE_LAYERS: &str = "ts_number_layers=3:ts_target_bitrate=400,600,1000:ts_rate_decimator=4,2,1:ts_periodicity=4:\
                            ts_layer_id=0,2,1,2:ts_layering_mode=3";

/// The encoder options against [`Advice::Bursts`] let it take this multiple of the mean, in permille, ...
const MAXRATE_PERMILLE: u64 = 1_250;
/// ... and a buffer of this share of a GOP. A GOP then takes at most `MAXRATE_PERMILLE` times one and a half: in a time T
/// a rate-limited encoder sends no more than T times `-maxrate` and `-bufsize` (ISO/IEC 13818-2, annex C).
const BUFFER_PERMILLE: u64 = 500;
/// GOPs shorter than this get the buffer of one of this length, in seconds: a key frame has to fit.
const LEAST_BUFFERED_S: f64 = 0.4;

/// What a stream of this structure cannot give, the most important first; `video` is the codec of the video in a
/// transport stream, where it is known.
pub fn advice(spec: &FlowSpec, video: Option<VideoCodec>) -> Vec<Advice> {
    // The layers may have their worst GOPs at different times.
    let peaks = spec.layers.iter().map(|(_, it)| it.peak.max(it.mean));
    let peak = match spec.composition {
        Composition::Additive => peaks.fold(CellRate(0), CellRate::saturating_add),
        Composition::Alternative => peaks.max().unwrap_or_default(),
    };
    let gop = (spec.gop(), spec.gop_n == u8::MAX);
    advice_of(spec, video, peak, gop)
}

/// The same where the rate of the worst GOP, all layers together, is known, and how far key frames are apart, or whether that is
/// more.
pub(crate) fn advice_of(
    spec: &FlowSpec,
    video: Option<VideoCodec>,
    peak: CellRate,
    (gop, or_more): (Span, bool),
) -> Vec<Advice> {
    if spec.media == Media::Opaque {
        // Nothing is known of pictures.
        return Vec::new();
    }
    let mut found = Vec::new();
    let used = |layer: Layer| spec.layers[layer].burst > 0 || spec.layers[layer].mean.0 > 1;
    let additive = spec.composition.is_additive();
    match video {
        // Renditions need no layers.
        _ if !additive => {}
        Some(codec) if !codec.is_layered() => found.push(Advice::Codec { codec }),
        None if spec.media == Media::MpegTs && !used(Layer::E1) && !used(Layer::E2) => {
            return vec![Advice::NoVideo];
        }
        _ => {}
    }
    let told = !found.is_empty();
    if !used(Layer::E1) && !used(Layer::E2) {
        match spec.gop_n {
            _ if told => {}
            0 | 1 => found.push(Advice::BaseOnly),
            _ => found.push(Advice::NoSteps { media: spec.media }),
        }
    } else if !used(Layer::E2) && !told && additive {
        found.push(Advice::NoDroppable);
    }
    let means = spec.layers.iter().map(|(_, it)| it.mean);
    let mean = match spec.composition {
        Composition::Additive => means.fold(CellRate(0), CellRate::saturating_add),
        Composition::Alternative => means.max().unwrap_or_default(),
    };
    let base_percent = u64::from(spec.layers.base.mean.0) * 100 / u64::from(mean.0.max(1));
    let is_layered = used(Layer::E1) && spec.gop_n > 3 && additive;
    if is_layered && base_percent > LARGE_BASE_PERCENT && splits_references(spec, video) {
        let base_percent = u8::try_from(base_percent).unwrap_or(100);
        let media = spec.media;
        found.push(Advice::SmallSteps {
            base_percent,
            media,
        });
    }
    if gop > RATHER_LONG_GOP && spec.gop_n > 1 {
        found.push(Advice::LongGop {
            seconds: gop.as_secs_f64(),
            or_more,
        });
    }
    if (2..4).contains(&spec.gop_n) && !told && additive {
        found.push(Advice::ShortGop {
            pictures: spec.gop_n,
        });
    }
    if u64::from(peak.0) * 1_000 > u64::from(mean.0) * BURST_PERMILLE {
        found.push(Advice::Bursts {
            mean: mean.rate(),
            peak: peak.rate(),
            encoder_bps: u64::from(mean.0) * CELL_PAYLOAD_BITS,
            gop_s: gop.as_secs_f64(),
        });
    }
    found
}

/// Whether the base layer has all pictures that others refer to.
fn splits_references(spec: &FlowSpec, video: Option<VideoCodec>) -> bool {
    matches!(spec.media, Media::H264 | Media::H265 | Media::Av1)
        || matches!(video, Some(VideoCodec::H264 | VideoCodec::H265))
}

/// Bits of media in a cell.
const CELL_PAYLOAD_BITS: u64 = 48 * 8;

/// A rate for ffmpeg, at least `1k`, rounded up: `2300k`.
fn kbit(bps: u64) -> String {
    format!("{}k", two_digits(bps.max(1), true))
}

impl Advice {
    /// Whether receivers are not served well, so that it is more than a note. What is longer than can be measured is taken for
    /// more than it is.
    pub fn is_warning(&self) -> bool {
        let long = LONG_GOP.as_secs_f64();
        matches!(self, Advice::LongGop { seconds, or_more } if *or_more || *seconds > long)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::Codec {
                codec: VideoCodec::Unnamed,
            } => write!(
                f,
                "the video is not layered: it is {}, and all of it is base layer; encode it as H.264 \
                 (ffmpeg: -c:v libx264 -g 25 -bf 2)",
                VideoCodec::Unnamed.name()
            ),
            Advice::Codec { codec } => write!(
                f,
                "the video is not layered: of {} only key frames are distinguished from other pictures, and players get \
                 those at the base level alone; encode it as H.264 (ffmpeg: -c:v libx264 -g 25 -bf 2)",
                codec.name()
            ),
            Advice::NoVideo => write!(
                f,
                "nothing of the stream is layered, because it has no video, key frames alone, or no picture that others do \
                 not refer to: every receiver gets all or nothing; video needs P and B pictures between key frames \
                 (ffmpeg: -g 25 -bf 2)"
            ),
            Advice::BaseOnly => write!(
                f,
                "every picture is a key frame, so all of it is base layer: every receiver gets all or nothing; let the \
                 encoder make P and B pictures between key frames (ffmpeg: -g 25 -bf 2)"
            ),
            Advice::NoSteps { media } => write!(
                f,
                "no picture can be left out, because others refer to each, so all of it is base layer: every receiver gets \
                 all or nothing; {}, or give --map ipb, with which the base layer is the key frames alone",
                steps_of(*media)
            ),
            Advice::SmallSteps {
                base_percent,
                media,
            } => write!(
                f,
                "the base layer takes {base_percent} % of the rate on a link, with all headers, so a link that carries one level carries nearly all of \
                 them; {}",
                larger_steps_of(*media)
            ),
            Advice::NoDroppable => write!(
                f,
                "there are two levels, because nothing is in E2: a receiver gets all of the stream or the base layer alone; \
                 let the encoder make B pictures to which no other refers (ffmpeg: -bf 2, and with libx264 \
                 -x264-params b-pyramid=none; -tune zerolatency alone means -bf 0)"
            ),
            Advice::LongGop { seconds, or_more } => write!(
                f,
                "key frames are {seconds:.1} s{} apart: a receiver waits up to this long to start and to change its \
                 level; let the encoder make one every second (ffmpeg at 25 pictures/s: -g 25)",
                if *or_more { " or more" } else { "" }
            ),
            Advice::ShortGop { pictures } => write!(
                f,
                "every {pictures} pictures there is a key frame, so the base layer takes most of the rate; let the encoder \
                 make one every second (ffmpeg at 25 pictures/s: -g 25)"
            ),
            Advice::Bursts {
                mean,
                peak,
                encoder_bps,
                gop_s,
            } => {
                let most = encoder_bps * MAXRATE_PERMILLE / 1_000;
                let buffered = gop_s.max(LEAST_BUFFERED_S);
                let buffer = (most as f64 * buffered) as u64 * BUFFER_PERMILLE / 1_000;
                write!(
                    f,
                    "the busiest GOPs take up to {peak}, the mean is {mean}: on a link between the two, receivers lose \
                     enhancement pictures or a level for as long as a busy GOP lasts; let the encoder limit its rate, \
                     with a buffer of half a GOP (ffmpeg: -b:v {} -maxrate {} -bufsize {})",
                    kbit(*encoder_bps),
                    kbit(most),
                    kbit(buffer)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{FrameRate, LayerRate, PerLayer};

    use super::*;

    fn spec(rates: [u32; 3], gop_n: u8) -> FlowSpec {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            burst: mean / 10,
            ..LayerRate::default()
        };
        FlowSpec {
            media: Media::H264,
            frame_rate: FrameRate { num: 25, den: 1 },
            gop_n,
            layers: PerLayer {
                base: layer(rates[0]),
                e1: layer(rates[1]),
                e2: layer(rates[2]),
            },
            ..FlowSpec::default()
        }
    }

    #[test]
    fn a_stream_with_three_layers_and_a_key_frame_a_second_needs_nothing() {
        assert_eq!(advice(&spec([500, 400, 300], 25), None), []);
        assert_eq!(
            advice(&spec([500, 400, 300], 25), Some(VideoCodec::H265)),
            []
        );
    }

    #[test]
    fn bursts_name_the_limits_of_the_encoder() {
        let mut bursty = spec([1_000, 2_000, 2_000], 12);
        for layer in Layer::ALL {
            bursty.layers[layer].peak = CellRate(3 * bursty.layers[layer].mean.0);
        }
        let text = advice(&bursty, None)[0].to_string();
        // 5000 cells/s of 384 bits are 1.92 Mbit/s, and GOPs of 0.48 s.
        assert!(
            text.contains("-b:v 2000k -maxrate 2400k -bufsize 580k"),
            "{text}"
        );
        bursty.gop_n = 1;
        let of_peak =
            |spec: &FlowSpec, peak| advice_of(spec, None, CellRate(peak), (spec.gop(), false));
        let text = of_peak(&bursty, 15_000);
        let text = text.iter().map(Advice::to_string).collect::<String>();
        // Of pictures that are all key frames the buffer is that of a GOP of 0.4 s.
        assert!(text.contains("-bufsize 480k"), "{text}");
        bursty.gop_n = 12;
        // The worst GOPs of the layers are not the same.
        assert_eq!(of_peak(&bursty, 12_000), []);
        assert_eq!(
            [kbit(999), kbit(15_500), kbit(1_920_000)],
            ["1k", "16k", "2000k"]
        );
    }

    #[test]
    fn what_is_missing_is_told_with_its_setting() {
        let says = |spec: FlowSpec, video, words: &[&str]| {
            let text: Vec<String> = advice(&spec, video).iter().map(Advice::to_string).collect();
            for word in words {
                assert!(text.join("\n").contains(word), "{word}: {text:?}");
            }
        };
        says(spec([500, 400, 0], 25), None, &["two levels", "-bf 2"]);
        says(spec([500, 0, 0], 25), None, &[STEPS, "--map ipb"]);
        says(spec([920, 50, 30], 25), None, &["92 %", STEPS]);
        let of = |media, rates| FlowSpec {
            media,
            ..spec(rates, 25)
        };
        says(
            of(Media::Av1, [500, 0, 0]),
            None,
            &["libsvtav1", "--map ipb"],
        );
        says(of(Media::Av1, [980, 10, 10]), None, &["98 %", "L1T3"]);
        says(of(Media::H265, [500, 0, 0]), None, &["temporal-layers=1"]);
        says(
            of(Media::Vp9, [500, 0, 0]),
            None,
            &["--map vp9-ts3", "libvpx-vp9"],
        );
        says(
            of(Media::Vp8, [500, 0, 0]),
            None,
            &["--map vp8-ts3", "ts_layer_id=0,2,1,2"],
        );
        says(
            spec([500, 0, 0], 1),
            None,
            &["every picture is a key frame"],
        );
        says(
            spec([500, 400, 300], 255),
            None,
            &["10.2 s or more", "-g 25"],
        );
        let is_warning = |gop_n| advice(&spec([500, 400, 300], gop_n), None)[0].is_warning();
        assert_eq!([75, 100, 101].map(is_warning), [false, false, true]);
        // Whatever the layers; 255 frames, sound among them, may take less than 4 s.
        assert!(
            advice(&spec([500, 0, 0], 125), None)
                .iter()
                .any(Advice::is_warning)
        );
        let mut sound = spec([500, 400, 300], 255);
        sound.frame_rate = FrameRate { num: 75, den: 1 };
        says(sound.clone(), None, &["3.4 s or more"]);
        assert!(advice(&sound, None)[0].is_warning());
        says(spec([500, 400, 0], 2), None, &["every 2 pictures"]);
        says(
            spec([500, 400, 0], 25),
            Some(VideoCodec::Av1),
            &["AV1", "libx264"],
        );
        let sound = FlowSpec {
            media: Media::MpegTs,
            ..spec([500, 0, 0], 10)
        };
        let opaque = FlowSpec {
            media: Media::Opaque,
            ..spec([500, 0, 0], 10)
        };
        assert_eq!(advice(&opaque, None), []);
        says(sound.clone(), None, &["no video"]);
        says(sound, Some(VideoCodec::Unnamed), &["VP9", "libx264"]);
    }
}
