use std::collections::VecDeque;

use super::{Recovery, SmpteConfig, SmpteConfigError, SmpteHeader, SmpteStream, sequence};

/// A parity packet to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmptePacket {
    /// Where it goes.
    pub stream: SmpteStream,
    /// Its octets.
    pub octets: Vec<u8>,
}

/// The sending side: media packets in, parity packets out. Media packets are sent as they are.
///
/// The parity of a row follows its last packet. Those of the columns of a block are spread over the next block, so that one
/// burst seldom takes packets and their parity.
#[derive(Debug)]
pub struct SmpteSender {
    config: SmpteConfig,
    row: Recovery,
    columns: Vec<Recovery>,
    /// Media packets of the block so far, the number of its first one, and of the one that should come next.
    at: usize,
    base: u16,
    next: Option<u16>,
    row_base: u16,
    /// Parities of the last block that wait, each with the place in this block at which it is sent.
    waiting: VecDeque<(usize, SmptePacket)>,
    ready: VecDeque<SmptePacket>,
    spare: Vec<Vec<u8>>,
    /// Sequence numbers of both streams.
    seq: [u16; 2],
    restarts: u64,
}

impl SmpteSender {
    /// A sender of a block. `seed` gives the first sequence numbers.
    ///
    /// # Errors
    /// There is no such block.
    pub fn new(config: SmpteConfig, seed: u64) -> Result<SmpteSender, SmpteConfigError> {
        config.validate()?;
        Ok(SmpteSender {
            row: Recovery::default(),
            columns: vec![Recovery::default(); config.columns.into()],
            at: 0,
            base: 0,
            next: None,
            row_base: 0,
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            spare: Vec::new(),
            seq: [seed as u16, (seed >> 16) as u16],
            restarts: 0,
            config,
        })
    }

    /// Times a block was given up because sequence numbers of the media jumped.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Takes the next media packet, after it was sent. A datagram that is no RTP packet is not protected.
    pub fn push(&mut self, packet: &[u8]) {
        let Some(seq) = sequence(packet) else {
            return;
        };
        if self.next.is_some_and(|next| next != seq) {
            self.restart();
        }
        self.next = Some(seq.wrapping_add(1));
        let (columns, rows) = (
            usize::from(self.config.columns),
            usize::from(self.config.rows),
        );
        if self.at == 0 {
            self.base = seq;
        }
        let column = self.at % columns;
        if column == 0 {
            self.row_base = seq;
            self.row.clear();
        }
        let timestamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        self.columns[column].add(packet);
        self.row.add(packet);
        self.at += 1;
        while self.waiting.front().is_some_and(|(at, _)| *at <= self.at) {
            self.ready
                .extend(self.waiting.pop_front().map(|(_, packet)| packet));
        }
        if self.config.with_rows && column + 1 == columns {
            let header = SmpteHeader {
                stream: SmpteStream::Rows,
                base: self.row_base,
                offset: 1,
                count: self.config.columns,
            };
            let octets = self.spare.pop().unwrap_or_default();
            let packet = write(header, &mut self.seq[1], timestamp, &self.row, octets);
            self.ready.push_back(packet);
        }
        if self.at == columns * rows {
            self.end_block(timestamp);
        }
    }

    fn end_block(&mut self, timestamp: u32) {
        self.at = 0;
        for (column, recovery) in (0..).zip(&mut self.columns) {
            let header = SmpteHeader {
                stream: SmpteStream::Columns,
                base: self.base.wrapping_add(column),
                offset: self.config.columns,
                count: self.config.rows,
            };
            let octets = self.spare.pop().unwrap_or_default();
            let packet = write(header, &mut self.seq[0], timestamp, recovery, octets);
            // One after each D packets of the next block.
            let at = (usize::from(column) + 1) * usize::from(self.config.rows);
            self.waiting.push_back((at, packet));
            recovery.clear();
        }
    }

    /// Sequence numbers jumped: a block begins with the next packet.
    fn restart(&mut self) {
        self.restarts += 1;
        self.at = 0;
        self.columns.iter_mut().for_each(Recovery::clear);
        self.ready
            .extend(self.waiting.drain(..).map(|(_, packet)| packet));
    }

    /// The stream is over: parities that wait are sent.
    pub fn finish(&mut self) {
        self.ready
            .extend(self.waiting.drain(..).map(|(_, packet)| packet));
    }

    /// The next parity packet.
    pub fn poll(&mut self) -> Option<SmptePacket> {
        self.ready.pop_front()
    }

    /// Gives back a packet that was sent, so that its memory is used again.
    pub fn give_back(&mut self, packet: SmptePacket) {
        self.spare.push(packet.octets);
    }
}

fn write(
    header: SmpteHeader,
    seq: &mut u16,
    timestamp: u32,
    recovery: &Recovery,
    mut octets: Vec<u8>,
) -> SmptePacket {
    header.write(*seq, timestamp, recovery, &mut octets);
    *seq = seq.wrapping_add(1);
    SmptePacket {
        stream: header.stream,
        octets,
    }
}
