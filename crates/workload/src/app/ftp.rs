use std::sync::Arc;

use layercast_core::{Stream, Time};

use super::{Act, AppInput, Application, ConnId, End, HostId, Out, Record};
use crate::dist::Distribution;

const CONTROL_PORT: u16 = 21;
const DATA_PORT: u16 = 20;
/// A port of the client for the data connections: any that is not well known.
const CLIENT_DATA_PORT: u16 = 1024;
const CONTROL: ConnId = ConnId(0);

/// What an FTP session draws from (specs/insane-workloads.md 2.3).
#[derive(Clone, Debug)]
pub struct FtpModel {
    /// Files of a session.
    pub nitems: Distribution,
    /// Bytes of a file.
    pub itemsize: Distribution,
    /// Bytes of a command.
    pub ctlsize: Distribution,
}

/// An FTP session: files fetched one after another, each on a data connection the server opens.
#[derive(Debug)]
pub struct Ftp {
    model: Arc<FtpModel>,
    stream: Stream,
    client: HostId,
    server: HostId,
    started: Time,
    asked: Time,
    /// Files still to be asked for.
    left: u64,
    /// Bytes of the command the server has not got.
    command: u64,
    /// The data connection in use, and its bytes that arrived.
    data: ConnId,
    arrived: u64,
    files: u32,
    bytes: u64,
    done: bool,
    out: Out,
}

impl Ftp {
    /// A session between two hosts.
    pub fn new(model: Arc<FtpModel>, stream: Stream, client: HostId, server: HostId) -> Ftp {
        Ftp {
            model,
            stream,
            client,
            server,
            started: Time::ZERO,
            asked: Time::ZERO,
            left: 0,
            command: 0,
            data: CONTROL,
            arrived: 0,
            files: 0,
            bytes: 0,
            done: false,
            out: Out::default(),
        }
    }

    fn next_file(&mut self, now: Time) {
        if self.left == 0 {
            let (files, bytes) = (self.files, self.bytes);
            let took = now.since(self.started);
            self.out.record(Record::FtpSession { files, bytes, took });
            self.out.close(CONTROL, End::Client);
            return;
        }
        self.left -= 1;
        self.asked = now;
        self.command = self.model.ctlsize.whole(&mut self.stream).max(1);
        self.out.write(CONTROL, End::Client, self.command);
    }

    fn open_data(&mut self) {
        self.data = ConnId(self.data.0 + 1);
        self.arrived = 0;
        self.out.act(Act::Connect {
            conn: self.data,
            opener: End::Server,
            from: self.server,
            from_port: Some(DATA_PORT),
            to: self.client,
            to_port: CLIENT_DATA_PORT,
        });
    }
}

impl Application for Ftp {
    fn input(&mut self, now: Time, input: AppInput) {
        match input {
            AppInput::Start => {
                self.started = now;
                self.out
                    .connect(CONTROL, self.client, self.server, CONTROL_PORT);
            }
            AppInput::Established { conn: CONTROL } => {
                self.left = self.model.nitems.whole(&mut self.stream);
                self.next_file(now);
            }
            AppInput::Established { conn } => {
                let bytes = self.model.itemsize.whole(&mut self.stream);
                self.out.write(conn, End::Server, bytes);
                self.out.close(conn, End::Server);
            }
            AppInput::Received {
                conn: CONTROL,
                end: End::Server,
                bytes,
            } => {
                let waiting = self.command > 0;
                self.command = self.command.saturating_sub(bytes);
                if waiting && self.command == 0 {
                    self.open_data();
                }
            }
            AppInput::Received { conn, bytes, .. } if conn == self.data => self.arrived += bytes,
            AppInput::Ended {
                conn: CONTROL,
                end: End::Server,
            } => self.out.close(CONTROL, End::Server),
            AppInput::Ended {
                conn: CONTROL,
                end: End::Client,
            } => self.done = true,
            AppInput::Ended {
                conn,
                end: End::Client,
            } if conn == self.data => {
                let (bytes, took) = (self.arrived, now.since(self.asked));
                self.files += 1;
                self.bytes += bytes;
                self.out.record(Record::FtpFile { bytes, took });
                self.out.close(conn, End::Client);
                self.next_file(now);
            }
            AppInput::Failed { conn } => {
                self.out.record(Record::Failed { conn });
                match conn {
                    CONTROL => self.done = true,
                    conn if conn == self.data => self.next_file(now),
                    _ => {}
                }
            }
            _ => {}
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
