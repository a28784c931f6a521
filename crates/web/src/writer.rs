//! From the transport stream, or the pictures in IVF, that a receiver writes to what players get.

use std::io::{self, Write};
use std::sync::Arc;

use layercast_media::{AccessUnit, AccessUnits, IvfUnits, UnitKind, codec_parameter};

use crate::hub::Hub;
use crate::message::{Chunk, SoundInfo, StreamInfo, VideoInfo};

/// How a flow for browsers is made.
const ENCODE: &str = "serve H.264, such as ffmpeg -re -i INPUT -c:v libx264 -g 25 -c:a aac -f mpegts - | layercast serve - makes";

/// Ticks after which the 33 bits of a time stamp begin again.
const WRAP: i64 = 1 << 33;

/// Takes the stream of a receiver, frame by frame, and gives its hub access units.
pub struct HubWriter {
    hub: Arc<Hub>,
    units: AccessUnits,
    /// A stream in IVF.
    pictures: Option<IvfUnits>,
    ready: Vec<AccessUnit>,
    info: Option<StreamInfo>,
    sound: Option<SoundInfo>,
    /// The last time stamp, counted on over its wraps.
    last: Option<i64>,
}

impl HubWriter {
    /// Gives `hub` what is written.
    pub fn new(hub: Arc<Hub>) -> HubWriter {
        hub.restart();
        HubWriter {
            hub,
            units: AccessUnits::default(),
            pictures: None,
            ready: Vec::new(),
            info: None,
            sound: None,
            last: None,
        }
    }

    /// A time stamp in microseconds, across wraps.
    fn time_us(&mut self, ticks: u64) -> i64 {
        let ticks = ticks as i64;
        let near = match self.last {
            None => ticks,
            Some(last) => {
                let step = (ticks - last).rem_euclid(WRAP);
                last + if step > WRAP / 2 { step - WRAP } else { step }
            }
        };
        self.last = Some(near);
        near * 100 / 9
    }

    fn unit(&mut self, unit: &AccessUnit) {
        let time_us = self.time_us(unit.pts);
        match unit.kind {
            UnitKind::Video(codec) => {
                if unit.is_key {
                    self.tell(codec_parameter(codec, &unit.data), codec.name());
                }
                if self.info.is_some() {
                    let ahead = (unit.pts as i64 - unit.dts as i64).rem_euclid(WRAP) * 100 / 9;
                    let times = (time_us, time_us - ahead);
                    self.hub
                        .push(Chunk::picture(unit.is_key, times, &unit.data));
                }
            }
            UnitKind::Sound { rate, channels } => {
                self.sound = Some(SoundInfo {
                    rate,
                    channels: if channels == 0 { 2 } else { channels },
                });
                self.hub.push(Chunk::sound(time_us, &unit.data));
            }
        }
    }

    /// Tells viewers what the stream is, at a key picture.
    fn tell(&mut self, codec: Option<String>, name: &str) {
        let Some(codec) = codec.or_else(|| self.info.take().map(|it| it.video.codec)) else {
            let problem = format!("{name} is not played here: {ENCODE}");
            self.hub.problem(Some(&problem));
            return;
        };
        let info = StreamInfo {
            video: VideoInfo {
                codec,
                size: match &self.pictures {
                    Some(pictures) => pictures.size(),
                    None => self.units.size(),
                },
            },
            sound: self.sound,
            other_sound: self.units.has_unused_sound(),
        };
        self.hub.stream(&info);
        self.hub.problem(None);
        self.info = Some(info);
    }
}

impl Write for HubWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What cannot be in a transport stream comes in IVF, from its beginning on.
        if IvfUnits::begins(bytes) && self.pictures.is_none() {
            self.pictures = Some(IvfUnits::default());
        }
        match &mut self.pictures {
            Some(pictures) => pictures.push(bytes, &mut self.ready),
            None => self.units.push(bytes, &mut self.ready),
        }
        Ok(bytes.len())
    }

    /// A frame is whole.
    fn flush(&mut self) -> io::Result<()> {
        self.units.end_frame(&mut self.ready);
        for unit in std::mem::take(&mut self.ready) {
            self.unit(&unit);
        }
        Ok(())
    }
}
