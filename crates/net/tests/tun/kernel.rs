//! The kernel's side: ordinary sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::device::{KERNEL, OURS, PORT};

/// How an attempt to connect ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It was established.
    Open,
    /// It was refused.
    Refused,
}

/// Bytes `from..from + len` of a stream both sides know.
pub fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// Takes one connection; it listens before this returns.
pub fn serve(with: impl FnOnce(TcpStream) + Send + 'static) -> JoinHandle<()> {
    let listener = TcpListener::bind((KERNEL, PORT)).expect("the kernel listens");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        drop(listener);
        with(patient(stream));
    })
}

/// Sends and receives the pattern simultaneously.
pub fn exchange(len: usize) -> JoinHandle<()> {
    serve(move |stream| both_ways(stream, len))
}

/// Connects to us, then does the same.
pub fn dial(len: usize) {
    let stream = TcpStream::connect((OURS, PORT)).expect("a connection");
    both_ways(patient(stream), len);
}

pub fn try_dial(port: u16) -> Ending {
    match TcpStream::connect((OURS, port)) {
        Ok(_) => Ending::Open,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ending::Refused,
        Err(error) => panic!("neither open nor refused: {error}"),
    }
}

/// Closes with a reset.
pub fn reset(stream: TcpStream) {
    let socket = socket2::Socket::from(stream);
    socket
        .set_linger(Some(Duration::ZERO))
        .expect("a socket option");
}

/// A hanging test is distinguished from a slow one.
fn patient(stream: TcpStream) -> TcpStream {
    let limit = Some(Duration::from_secs(120));
    stream.set_read_timeout(limit).expect("a socket option");
    stream.set_write_timeout(limit).expect("a socket option");
    stream
}

fn both_ways(mut stream: TcpStream, len: usize) {
    let mut reader = stream.try_clone().expect("a second handle");
    let writer = thread::spawn(move || {
        let mut at = 0;
        while at < len {
            let part = (len - at).min(1 << 16);
            stream.write_all(&pattern(at, part)).expect("written");
            at += part;
        }
        stream.shutdown(std::net::Shutdown::Write).expect("open");
    });
    let mut buffer = vec![0; 1 << 16];
    let mut got = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            // The machine was halted meanwhile.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            got => got.expect("read"),
        };
        if count == 0 {
            break;
        }
        assert!(
            buffer[..count] == pattern(got, count)[..],
            "wrong bytes at {got}"
        );
        got += count;
    }
    assert_eq!(got, len);
    writer.join().expect("the writer");
}
