use core::net::SocketAddrV4;
use std::io::{self, Write};

use layercast_core::{CELL_SIZE, Time};

use crate::link::UDP_IP_HEADER;
use crate::{Carriage, Ipv4Packet, LinkPdu};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const LINKTYPE_ERF: u16 = 197;
const LINKTYPE_IPV4: u16 = 228;

const OPT_END: u16 = 0;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const SHB_USERAPPL: u16 = 4;

/// ERF record: an ATM cell, its header without HEC, and the payload.
const ERF_HEADER: usize = 16;
const ERF_TYPE_ATM: u8 = 3;
const ERF_VARYING_LENGTH: u8 = 4;
const ERF_CELL: usize = CELL_SIZE - 1;

/// One direction of a link in a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name, such as `chuff/2`.
    pub name: String,
    /// Description, such as `chuff -> rook, 100 Mbit/s`.
    pub description: String,
    /// What it carries.
    pub carriage: Carriage,
    /// Sender of its datagrams; cells do not need it.
    pub source: SocketAddrV4,
    /// Receiver of its datagrams; cells do not need it.
    pub destination: SocketAddrV4,
    /// Bytes of each packet to keep; 0 means all.
    pub snap_len: u32,
}

/// Writes what links carry as pcapng; the same packets give the same bytes.
///
/// Cells are ERF records of type ATM, the only per-cell encapsulation that Wireshark dissects;
/// datagrams are IPv4 and UDP, with congestion as ECN CE and no UDP checksum (RFC 768 allows
/// zero). Times are nanoseconds since the start of the run: tshark up to 4.0 overflows on the
/// picoseconds of ours.
#[derive(Debug)]
pub struct PcapNg<W: Write> {
    out: W,
    block: Vec<u8>,
    interfaces: Vec<Interface>,
}

impl<W: Write> PcapNg<W> {
    /// Starts a capture.
    pub fn new(out: W) -> io::Result<PcapNg<W>> {
        let (block, interfaces) = (Vec::new(), Vec::new());
        let mut pcap = PcapNg {
            out,
            block,
            interfaces,
        };
        pcap.begin(SECTION_HEADER);
        pcap.put32(0x1a2b_3c4d);
        pcap.put16(1);
        pcap.put16(0);
        // Section length unknown.
        pcap.block.extend_from_slice(&[0xff; 8]);
        pcap.option(SHB_USERAPPL, b"layercast");
        pcap.option(OPT_END, b"");
        pcap.end()?;
        Ok(pcap)
    }

    /// Declares an interface; gives the number [`write`](Self::write) wants.
    pub fn add_interface(&mut self, interface: Interface) -> io::Result<u32> {
        let number = self.interfaces.len() as u32;
        self.begin(INTERFACE);
        self.put16(match interface.carriage {
            Carriage::Cells => LINKTYPE_ERF,
            Carriage::Datagrams => LINKTYPE_IPV4,
        });
        self.put16(0);
        self.put32(interface.snap_len);
        self.option(IF_NAME, bounded(&interface.name));
        self.option(IF_DESCRIPTION, bounded(&interface.description));
        self.option(IF_TSRESOL, &[9]);
        self.option(OPT_END, b"");
        self.end()?;
        self.interfaces.push(interface);
        Ok(number)
    }

    /// Writes one PDU as seen on an interface at `now`.
    ///
    /// Refuses an unknown interface, a PDU of the other carriage, and a datagram above 65507
    /// bytes.
    pub fn write(&mut self, interface: u32, now: Time, pdu: &LinkPdu) -> io::Result<()> {
        let Some(face) = self.interfaces.get(interface as usize) else {
            return Err(invalid("unknown interface"));
        };
        let (carriage, source, destination) = (face.carriage, face.source, face.destination);
        let snap_len = face.snap_len;
        let start = self.begin_packet(interface, now);
        match (carriage, pdu) {
            (Carriage::Cells, LinkPdu::Cell(cell)) => {
                self.erf_header(now);
                let bytes = cell.encode();
                self.block.extend_from_slice(&bytes[..4]);
                self.block.extend_from_slice(&bytes[5..]);
            }
            (Carriage::Datagrams, LinkPdu::Mets(_) | LinkPdu::Adapter(_)) => {
                self.udp_header(source, destination, pdu)?;
                pdu.encode_into(&mut self.block);
            }
            _ => return Err(invalid("a cell among datagrams, or the other way round")),
        }
        self.end_packet(start, snap_len)
    }

    /// Writes one IPv4 packet as seen on an interface of datagrams at `now`.
    ///
    /// Refuses an unknown interface, one of cells, and a packet above 65535 bytes.
    pub fn write_ip(&mut self, interface: u32, now: Time, packet: &Ipv4Packet) -> io::Result<()> {
        let face = self.interfaces.get(interface as usize);
        let Some(face) = face.filter(|face| face.carriage == Carriage::Datagrams) else {
            return Err(invalid("unknown interface, or one of cells"));
        };
        let snap_len = face.snap_len;
        let start = self.begin_packet(interface, now);
        packet
            .encode_into(&mut self.block)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.end_packet(start, snap_len)
    }

    /// Starts the block of a packet; gives where its bytes begin.
    fn begin_packet(&mut self, interface: u32, now: Time) -> usize {
        self.begin(ENHANCED_PACKET);
        let ns = now.as_ps() / 1_000;
        for field in [interface, (ns >> 32) as u32, ns as u32, 0, 0] {
            self.put32(field);
        }
        self.block.len()
    }

    /// Cuts the packet that begins at `start`, fills in both its lengths and writes the block.
    fn end_packet(&mut self, start: usize, snap_len: u32) -> io::Result<()> {
        let original = self.block.len() - start;
        let captured = match snap_len {
            0 => original,
            len => original.min(len as usize),
        };
        self.block.truncate(start + captured);
        let lengths = start - 8;
        self.block[lengths..lengths + 4].copy_from_slice(&(captured as u32).to_le_bytes());
        self.block[lengths + 4..start].copy_from_slice(&(original as u32).to_le_bytes());
        self.end()
    }

    /// Flushes and gives back the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn erf_header(&mut self, now: Time) {
        // Little-endian 32.32 fixed point seconds, then big-endian fields (LINKTYPE_ERF).
        let fixed = (u128::from(now.as_ps()) << 32) / 1_000_000_000_000;
        self.block.extend_from_slice(&(fixed as u64).to_le_bytes());
        self.block.push(ERF_TYPE_ATM);
        self.block.push(ERF_VARYING_LENGTH);
        let record = (ERF_HEADER + ERF_CELL) as u16;
        for field in [record, 0, ERF_CELL as u16] {
            self.block.extend_from_slice(&field.to_be_bytes());
        }
    }

    fn udp_header(
        &mut self,
        from: SocketAddrV4,
        to: SocketAddrV4,
        pdu: &LinkPdu,
    ) -> io::Result<()> {
        let Ok(total) = u16::try_from(pdu.encoded_len() + UDP_IP_HEADER) else {
            return Err(invalid("a datagram above 65507 bytes"));
        };
        let mut head = [0; UDP_IP_HEADER];
        head[0] = 0x45;
        head[1] = if pdu.congestion() { 0b11 } else { 0b10 };
        head[2..4].copy_from_slice(&total.to_be_bytes());
        head[6] = 0x40;
        head[8] = 64;
        head[9] = 17;
        head[12..16].copy_from_slice(&from.ip().octets());
        head[16..20].copy_from_slice(&to.ip().octets());
        let sum = head[..20]
            .chunks_exact(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum::<u32>();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        head[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
        head[20..22].copy_from_slice(&from.port().to_be_bytes());
        head[22..24].copy_from_slice(&to.port().to_be_bytes());
        head[24..26].copy_from_slice(&(total - 20).to_be_bytes());
        self.block.extend_from_slice(&head);
        Ok(())
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put32(kind);
        self.put32(0);
    }

    fn end(&mut self) -> io::Result<()> {
        let padded = self.block.len().next_multiple_of(4);
        self.block.resize(padded, 0);
        let total = padded as u32 + 4;
        self.put32(total);
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put16(code);
        self.put16(value.len() as u16);
        self.block.extend_from_slice(value);
        let padded = self.block.len().next_multiple_of(4);
        self.block.resize(padded, 0);
    }

    fn put16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }
}

/// An option has 16 bits for its length; a name that long is cut.
fn bounded(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(1024);
    &text.as_bytes()[..end]
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}
