use std::sync::Arc;

use layercast_core::{Stream, Time};

use super::{AppInput, Application, ConnId, End, HostId, Out, Record};
use crate::dist::Distribution;

const CONN: ConnId = ConnId(0);

/// What the handing over of mail or news draws from (specs/insane-workloads.md 2.5).
#[derive(Clone, Debug)]
pub struct PushModel {
    /// Messages in one connection.
    pub nitems: Distribution,
    /// Bytes of a message.
    pub itemsize: Distribution,
    /// Port of the receiving server.
    pub port: u16,
}

/// A server hands messages over to another, one after the other, and closes.
#[derive(Debug)]
pub struct Push {
    model: Arc<PushModel>,
    stream: Stream,
    from: HostId,
    to: HostId,
    started: Time,
    bytes: u64,
    done: bool,
    out: Out,
}

impl Push {
    /// From one server to another.
    pub fn new(model: Arc<PushModel>, stream: Stream, from: HostId, to: HostId) -> Push {
        Push {
            model,
            stream,
            from,
            to,
            started: Time::ZERO,
            bytes: 0,
            done: false,
            out: Out::default(),
        }
    }
}

impl Application for Push {
    fn input(&mut self, now: Time, input: AppInput) {
        match input {
            AppInput::Start => {
                self.started = now;
                self.out.connect(CONN, self.from, self.to, self.model.port);
            }
            AppInput::Established { .. } => {
                for _ in 0..self.model.nitems.whole(&mut self.stream) {
                    let bytes = self.model.itemsize.whole(&mut self.stream);
                    self.out.write(CONN, End::Client, bytes);
                    self.bytes += bytes.max(1);
                }
                self.out.close(CONN, End::Client);
            }
            AppInput::Ended {
                end: End::Server, ..
            } => self.out.close(CONN, End::Server),
            AppInput::Ended {
                end: End::Client, ..
            } => {
                let (bytes, took) = (self.bytes, now.since(self.started));
                self.out.record(Record::Pushed { bytes, took });
                self.done = true;
            }
            AppInput::Failed { conn } => {
                self.out.record(Record::Failed { conn });
                self.done = true;
            }
            AppInput::Received { .. } | AppInput::Datagram { .. } => {}
        }
    }

    fn wake(&mut self, _: Time) {}

    fn next(&self) -> Option<Time> {
        None
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn is_done(&self) -> bool {
        self.done
    }
}
