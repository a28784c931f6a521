use layercast_core::{Media, Span, Time};

use super::packet::{Adaptation, PAT};
use super::pcr::OutputClock;
use super::pes::put_video;
use super::psi::{pat, pmt, put_section};
use super::video::stream_type;
use crate::h264::{nal, nals};
use crate::h265;
use crate::timeline::OutPicture;

const PROGRAM: u16 = 1;
const MAP_PID: u16 = 0x1000;
const VIDEO_PID: u16 = 0x100;
/// The tables go out at least this often.
const TABLES: Span = Span::from_ms(100);
/// How much earlier than its decoding a picture is sent, in ticks of 27 MHz: time to arrive.
const AHEAD: u64 = 27_000_000 / 5;

/// Puts an elementary video stream into a transport stream of one program.
#[derive(Debug)]
pub struct TsMux {
    codec: Media,
    clock: OutputClock,
    tables_at: Option<Time>,
    table_counter: u8,
    counter: u8,
}

impl TsMux {
    /// For MPEG-1, MPEG-2, H.264 or H.265 video.
    pub fn new(codec: Media) -> TsMux {
        TsMux {
            codec,
            clock: OutputClock::default(),
            tables_at: None,
            table_counter: 0,
            counter: 0,
        }
    }

    /// Appends the packets of a picture to `out`.
    pub(crate) fn picture(&mut self, picture: &OutPicture, data: &[u8], out: &mut Vec<u8>) {
        let time = picture.time;
        if !self.clock.is_set() {
            self.clock
                .set((picture.dts * 300).saturating_sub(AHEAD), time);
        }
        // A packet without payload repeats the counter of the one before.
        self.clock
            .fill(VIDEO_PID, self.counter.wrapping_sub(1) & 15, time, out);
        let due = self.tables_at.is_none_or(|at| time.since(at) >= TABLES);
        if due || picture.key {
            self.tables_at = Some(time);
            self.tables(out);
        }
        let adaptation = Adaptation {
            random_access: picture.key,
            pcr: self.clock.at(time),
        };
        // Access units of H.264 and H.265 begin with a delimiter in transport streams (2.14.1, 2.17.1).
        let first = nals(data).next().map_or(0, |(_, unit)| unit[0]);
        let delimiter: &[u8] = match self.codec {
            Media::H264 if first & 31 != nal::DELIMITER => &[0, 0, 0, 1, 9, 0xF0],
            Media::H265 if first >> 1 != h265::nal::DELIMITER => &[0, 0, 0, 1, 0x46, 1, 0x50],
            _ => &[],
        };
        put_video(
            VIDEO_PID,
            &mut self.counter,
            adaptation,
            (picture.pts, picture.dts),
            [delimiter, data],
            out,
        );
    }

    fn tables(&mut self, out: &mut Vec<u8>) {
        let kind = match self.codec {
            Media::Mpeg1 => stream_type::MPEG1,
            Media::H264 => stream_type::H264,
            Media::H265 => stream_type::H265,
            _ => stream_type::MPEG2,
        };
        let map = pmt(PROGRAM, kind, VIDEO_PID);
        for (pid, section) in [(PAT, pat(PROGRAM, MAP_PID)), (MAP_PID, map)] {
            put_section(pid, &mut self.table_counter.clone(), &section, out);
        }
        self.table_counter = (self.table_counter + 1) & 15;
    }
}
