use std::fmt::Write;

use layercast_core::{Composition, FrameRate, Media};

use crate::clip::without_gap;
use crate::{Clip, ClipInfo, Container, Frame, MediaError, Picture};

impl Clip {
    /// Reads a frame-size trace: one line `frame_no type bytes` per frame in coded order, type I, P
    /// or B; blank lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// A malformed line, an unknown type, a size that is zero or no number, or a frame number that
    /// does not increase: its line number and what is wrong. A trace must begin with an I picture.
    pub fn parse_trace(text: &str, frame_rate: FrameRate) -> Result<Clip, MediaError> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut last = None;
        let mut lines = 0;
        for (index, line) in text.lines().enumerate() {
            lines = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |problem| MediaError::Trace {
                line: index + 1,
                problem,
            };
            let (number, frame) = parse_line(line).map_err(fail)?;
            if last.is_some_and(|last| number <= last) {
                return Err(fail(format!("frame number {number} does not increase")));
            }
            if frames.is_empty() && !frame.gop_start {
                return Err(fail("the first frame must be an I picture".into()));
            }
            last = Some(number);
            frames.push(frame);
        }
        if frames.is_empty() {
            return Err(MediaError::Trace {
                line: lines,
                problem: "expected `frame_no type bytes`, but the trace ends without a frame"
                    .into(),
            });
        }
        Ok(Clip {
            info: ClipInfo {
                container: Container::Trace,
                codec: Media::Mpeg1,
                composition: Composition::Additive,
                width: 0,
                height: 0,
                frame_rate,
                video: None,
                truncated: None,
            },
            frames: without_gap(frames),
        })
    }

    /// The frame-size trace of the clip, as [`Clip::parse_trace`] reads it.
    pub fn to_trace(&self) -> String {
        let mut text = String::from("# frame_no type bytes\n");
        for (number, frame) in self.frames.iter().enumerate() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{number} {:?} {}", frame.picture, frame.size);
        }
        text
    }
}

fn parse_line(line: &str) -> Result<(u64, Frame), String> {
    let mut fields = line.split_whitespace();
    let (Some(number), Some(kind), Some(size), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(format!(
            "expected `frame_no type bytes`, found {:?}",
            shorten(line)
        ));
    };
    let number = number
        .parse()
        .map_err(|_| format!("{:?} is no frame number", shorten(number)))?;
    let picture = match kind {
        "I" => Picture::I,
        "P" => Picture::P,
        "B" => Picture::B,
        _ => {
            return Err(format!(
                "{:?} is no picture type (I, P or B)",
                shorten(kind)
            ));
        }
    };
    match size.parse() {
        Ok(size) if size > 0 => Ok((number, Frame::sized(picture, size))),
        _ => Err(format!("{:?} is no frame size in bytes", shorten(size))),
    }
}

/// The beginning of a line's text, short enough for a message.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{Layer, Level};

    const PAL: FrameRate = FrameRate { num: 25, den: 1 };

    #[test]
    fn a_trace_is_written_as_it_was_read() {
        let clip = Clip::parse_trace("# a\n\n0 I 100\r\n 2\tP 50\n3 B 7", PAL).unwrap();
        assert_eq!(clip.frames.len(), 3);
        assert!(clip.frames[0].gop_start && !clip.frames[1].gop_start);
        let again = Clip::parse_trace(&clip.to_trace(), PAL).unwrap();
        assert_eq!(again, clip);
    }

    #[test]
    fn b_pictures_are_the_first_enhancement_where_there_are_no_p_pictures() {
        let rate = FrameRate { num: 24, den: 1 };
        let clip = Clip::parse_trace("0 I 900\n1 B 100\n2 B 100\n3 I 900\n4 B 100", rate).unwrap();
        assert_eq!(clip.flow_spec().validate(), Ok(()));
        assert_eq!(clip.flow_spec().top_level(), Level::E1);
        let layers: Vec<Layer> = clip.frames.iter().map(Frame::layer).collect();
        let (base, e1) = (Layer::Base, Layer::E1);
        assert_eq!(layers, [base, e1, e1, base, e1]);
        let with_p = Clip::parse_trace("0 I 900\n1 P 300\n2 B 100", rate).unwrap();
        assert_eq!(with_p.frames[2].layer(), Layer::E2);
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let line = |text: &str| match Clip::parse_trace(text, PAL) {
            Err(MediaError::Trace { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(line("# c\n0 I 1\n1 X 1"), 3);
        assert_eq!(line("0 I 1\n0 P 1"), 2);
        assert_eq!(line("0 I"), 1);
        assert_eq!(line("0 I 1 1"), 1);
        assert_eq!(line("0 I -1"), 1);
        assert_eq!(line("0 I 0"), 1);
        assert_eq!(line("0 P 1"), 1);
        assert_eq!(line("zero I 1"), 1);
        assert_eq!(line("#\n#\n"), 2);
    }
}
