use bytes::Bytes;
use layercast_core::{Layer, Span};
use layercast_mets::{AppFrame, PlayedFrame};
use layercast_wire::Payload;

/// A media frame as a source sends it: one picture, or whatever is decoded at a time.
///
/// ```
/// use layercast::{Frame, Layer, Span};
///
/// let frame = Frame::e1(vec![7; 300]).at(Span::from_ms(40));
/// assert_eq!((frame.layer, frame.data.len()), (Layer::E1, 300));
/// // A frame of the base layer opens a group of pictures.
/// assert!(Frame::base(vec![0; 900]).gop_start);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its layer: base (BL), or what is added with more bandwidth (E1, E2).
    pub layer: Layer,
    /// Whether it opens a group of pictures: receivers join and layers change here.
    pub gop_start: bool,
    /// Whether it is sound or other data beside the pictures, in the base layer: nothing refers from one to the other.
    pub sound: bool,
    /// When it is due, counted from the start of the flow; `None`: at its slot of the frame rate.
    pub time: Option<Span>,
    /// Its bytes, at least one.
    pub data: Bytes,
}

/// A media frame as a sink plays it, handed over when it is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// Its number in the flow, modulo 2^32; frames of layers that are not granted leave gaps.
    pub seq: u32,
    /// Its layer.
    pub layer: Layer,
    /// Whether it opens a group of pictures.
    pub gop_start: bool,
    /// Whether it is sound, or other data beside the pictures. Pictures come in the order of their numbers, and so does sound;
    /// while pictures wait for a missing one, sound may overtake them, and the other way round.
    pub sound: bool,
    /// From emission to arrival; counted from the first frame's if the hosts share no clock.
    pub delay: Span,
    /// Its bytes.
    pub data: Bytes,
}

impl Frame {
    /// A frame of the base layer that opens a group of pictures, as an I picture does.
    pub fn base(data: impl Into<Bytes>) -> Frame {
        Frame {
            gop_start: true,
            ..Frame::of(Layer::Base, data)
        }
    }

    /// A frame of the first enhancement layer, such as a P picture.
    pub fn e1(data: impl Into<Bytes>) -> Frame {
        Frame::of(Layer::E1, data)
    }

    /// A frame of the second enhancement layer, such as a B picture.
    pub fn e2(data: impl Into<Bytes>) -> Frame {
        Frame::of(Layer::E2, data)
    }

    /// A frame of sound, or of other data beside the pictures.
    pub fn sound(data: impl Into<Bytes>) -> Frame {
        Frame {
            sound: true,
            ..Frame::of(Layer::Base, data)
        }
    }

    /// A frame of `layer` that opens no group of pictures.
    pub fn of(layer: Layer, data: impl Into<Bytes>) -> Frame {
        Frame {
            layer,
            gop_start: false,
            sound: false,
            time: None,
            data: data.into(),
        }
    }

    /// The same frame, due `time` after the start of the flow.
    pub fn at(self, time: Span) -> Frame {
        Frame {
            time: Some(time),
            ..self
        }
    }
}

impl From<Frame> for AppFrame {
    fn from(frame: Frame) -> AppFrame {
        AppFrame {
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: frame.sound,
            time: frame.time,
            payload: Payload::Bytes(frame.data),
        }
    }
}

impl From<AppFrame> for Frame {
    /// A frame of a live input ([`LiveInput::start`](layercast_net::LiveInput::start)).
    fn from(frame: AppFrame) -> Frame {
        Frame {
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: frame.sound,
            time: frame.time,
            data: bytes_of(frame.payload),
        }
    }
}

impl From<&layercast_media::Frame> for Frame {
    /// A picture of a clip; of a trace without pictures, as many zeros.
    fn from(frame: &layercast_media::Frame) -> Frame {
        let zeros = || vec![0; frame.size as usize].into();
        Frame {
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: frame.sound,
            time: frame.time,
            data: frame.data.clone().unwrap_or_else(zeros),
        }
    }
}

impl From<PlayedFrame> for Played {
    fn from(frame: PlayedFrame) -> Played {
        Played {
            seq: frame.seq.0,
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: frame.sound,
            delay: frame.delay,
            data: bytes_of(frame.payload),
        }
    }
}

/// The bytes of a payload, without a copy where it holds them.
fn bytes_of(payload: Payload) -> Bytes {
    match payload {
        Payload::Bytes(data) => data,
        other => {
            let mut data = Vec::with_capacity(other.len());
            other.append_to(&mut data);
            data.into()
        }
    }
}
