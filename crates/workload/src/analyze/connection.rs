use std::fmt;

/// Longest name of a host (RFC 1035).
const LONGEST_NAME: usize = 255;
/// No clock of a capture reads more, in seconds.
const LATEST: f64 = 1e11;
/// No connection carries more bytes one way.
const MOST_BYTES: u64 = 1_000_000_000_000_000;
/// Longest part of a bad field that is shown.
const SHOWN: usize = 40;

/// A TCP connection as a capture of its packets has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Connection<'a> {
    /// The host that opened it.
    pub client: &'a str,
    /// The other host.
    pub server: &'a str,
    /// Port of the server.
    pub port: u16,
    /// First packet, seconds.
    pub start: f64,
    /// Last packet, seconds; not before the first.
    pub end: f64,
    /// Payload to the server, bytes.
    pub sent: u64,
    /// Payload to the client, bytes.
    pub received: u64,
}

/// What is wrong with a trace of connections, and in which line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Too few columns, or too many.
    #[error("line {line}: {found} columns, expected seven: {}", Connection::HEAD)]
    Columns {
        /// From 1.
        line: usize,
        /// How many there are.
        found: usize,
    },
    /// A field that is not what its column has.
    #[error("line {line}: {column} is {field:?}, expected {expected}")]
    Field {
        /// From 1.
        line: usize,
        /// Name of the column.
        column: &'static str,
        /// What is there, at least how it begins.
        field: String,
        /// What should be.
        expected: &'static str,
    },
    /// Time goes back.
    #[error("line {0}: the connection ends before it starts")]
    Backwards(usize),
    /// Nothing there.
    #[error("the trace has no connection")]
    Empty,
}

impl<'a> Connection<'a> {
    /// The heading of a trace: what its columns are.
    pub const HEAD: &'static str = "client,server,port,start,end,sent,received";

    /// Reads a trace: one connection a line, its columns separated by commas; `#` starts a comment, a first
    /// line of words is a heading. The order of lines does not matter.
    pub fn parse(text: &'a str) -> Result<Vec<Connection<'a>>, ConnectionError> {
        let mut all = Vec::new();
        let mut first = true;
        for (index, line) in text.lines().enumerate() {
            let bare = line.split('#').next().unwrap_or_default().trim();
            if bare.is_empty() {
                continue;
            }
            let heading = std::mem::take(&mut first)
                && bare
                    .split(',')
                    .all(|field| field.trim().parse::<f64>().is_err());
            if !heading {
                all.push(Connection::parse_line(index + 1, bare)?);
            }
        }
        match all.is_empty() {
            true => Err(ConnectionError::Empty),
            false => Ok(all),
        }
    }

    fn parse_line(line: usize, text: &'a str) -> Result<Connection<'a>, ConnectionError> {
        let mut fields = text.split(',').map(str::trim);
        let found: [Option<&str>; 7] = std::array::from_fn(|_| fields.next());
        let more = fields.count();
        let [
            Some(client),
            Some(server),
            Some(port),
            Some(start),
            Some(end),
            Some(sent),
            Some(received),
        ] = found
        else {
            let found = found.iter().flatten().count();
            return Err(ConnectionError::Columns { line, found });
        };
        if more > 0 {
            let found = 7 + more;
            return Err(ConnectionError::Columns { line, found });
        }
        let wrong = |column, field: &str, expected| ConnectionError::Field {
            line,
            column,
            field: field.chars().take(SHOWN).collect(),
            expected,
        };
        let name = |column, field: &'a str| match field.len() {
            1..=LONGEST_NAME => Ok(field),
            _ => Err(wrong(column, field, "a name of 1 to 255 bytes")),
        };
        let time = |column, field: &str| {
            let found = field.parse().ok();
            let found = found.filter(|seconds: &f64| (0.0..LATEST).contains(seconds));
            found.ok_or_else(|| wrong(column, field, "seconds from 0 to below 1e11"))
        };
        let bytes = |column, field: &str| {
            let found = field.parse().ok().filter(|&bytes| bytes <= MOST_BYTES);
            found.ok_or_else(|| wrong(column, field, "a whole number of bytes up to 1e15"))
        };
        let connection = Connection {
            client: name("client", client)?,
            server: name("server", server)?,
            port: port
                .parse()
                .map_err(|_| wrong("port", port, "a number from 0 to 65535"))?,
            start: time("start", start)?,
            end: time("end", end)?,
            sent: bytes("sent", sent)?,
            received: bytes("received", received)?,
        };
        match connection.end < connection.start {
            true => Err(ConnectionError::Backwards(line)),
            false => Ok(connection),
        }
    }
}

/// The line of a trace, to a microsecond.
impl fmt::Display for Connection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connection {
            client,
            server,
            port,
            start,
            end,
            sent,
            received,
        } = self;
        write!(
            f,
            "{client},{server},{port},{start:.6},{end:.6},{sent},{received}"
        )
    }
}
