use std::fs::File;
use std::io::{self, Write};

use rustix::net::{SendFlags, send};

/// A file descriptor of the program that gets a stream. A socket whose other end is closed gives an error and no signal.
pub(crate) struct Stream {
    file: File,
    is_socket: bool,
}

impl Stream {
    pub(crate) fn new(file: File) -> Stream {
        Stream {
            file,
            is_socket: true,
        }
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.is_socket {
            match send(&self.file, data, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::NOTSOCK) => self.is_socket = false,
                sent => return Ok(sent?),
            }
        }
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
