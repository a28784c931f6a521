//! The command lines of the commands for files of cells.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use layercast_core::Span;
use layercast_fec::MatrixCode;
use layercast_picture::{OnLoss, Smoothing, VodFastStart};

use crate::units;

/// `layercast prepacketize`.
#[derive(Debug, Args)]
#[command(after_help = "\
Puts a transport stream into ATM cells of AAL5+, each with its class (headers, I, P or B pictures)
and the time at which it is sent, so that `layercast play-cells` only paces them. The clock of the
stream (PCR) says when: --smooth spreads the cells evenly over pictures or GOPs, --fast-start
sends the first seconds at a high rate, as a server of stored films does
(docs/src/how-to/cells.md).

Examples:
  layercast prepacketize clip.ts clip.cells
  layercast prepacketize clip.ts clip.cells --smooth gop --parity 4x4 --json
  layercast prepacketize clip.ts clip.cells --fast-start 120M,3s,4M
  layercast prepacketize clip.ts clip.cells --pcap clip.pcapng    # for Wireshark")]
pub struct Prepacketize {
    /// A transport stream of one program
    pub file: PathBuf,
    /// The file of cells; `-` is standard output
    pub out: PathBuf,
    /// Over what cells are spread evenly
    #[arg(long, value_enum, ignore_case = true, default_value = "none")]
    pub smooth: Smooth,
    /// Whatever the clock says: the first rate, how long, and the rate after that, of cells
    #[arg(long, value_name = "RATE,TIME,RATE", conflicts_with = "smooth", value_parser = units::fast_start)]
    pub fast_start: Option<VodFastStart>,
    /// Packets of a group, 1 to 15
    #[arg(long, value_name = "N", default_value = "8", value_parser = units::whole(1..=15_u8))]
    pub group: u8,
    /// Parities of headers and sound: rows and columns, such as 4x4, and in front of them the code: columns:10x10,
    /// even-odd:10x10
    #[arg(long, value_name = "[CODE:]NxM", value_parser = units::parity)]
    pub parity: Option<(MatrixCode, usize, usize)>,
    /// Classical AAL5 instead of AAL5+: two packets in eight cells, each with the class of its most important octet
    #[arg(long, conflicts_with_all = ["group", "parity"])]
    pub mark: bool,
    /// Write the cells to this capture, too
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print one JSON object (docs/src/reference/json-media.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast play-cells`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sends each cell at its time, in RTP datagrams of cells of one class; the DSCP is AF41 for headers
and I pictures, AF42 for P, AF43 for B. Nothing is parsed and nothing is computed but the time.

Examples:
  layercast play-cells clip.cells 192.0.2.7:5006
  layercast play-cells clip.cells 192.0.2.7:5006 --json")]
pub struct PlayCells {
    /// A file that `layercast prepacketize` made
    pub file: PathBuf,
    /// Where `layercast receive-cells` listens
    #[arg(value_name = "HOST:PORT", value_parser = units::cells_end)]
    pub to: String,
    /// Print one JSON object (docs/src/reference/json-media.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast receive-cells`.
#[derive(Debug, Args)]
#[command(after_help = "\
Makes a transport stream of cells, from a file or as they arrive. It ends at the end of the cells,
after --for, or with Ctrl-C. Parities bring lost cells of headers and sound back.

Examples:
  layercast receive-cells clip.cells seen.ts
  layercast receive-cells 0.0.0.0:5006 seen.ts
  layercast receive-cells 0.0.0.0:5006 - | ffplay -
  layercast receive-cells 0.0.0.0:5006 seen.ts --on-loss drop --for 1h --json")]
pub struct ReceiveCells {
    /// A file of cells, or the address to listen at
    #[arg(value_name = "FILE|ADDR:PORT")]
    pub from: PathBuf,
    /// The transport stream; `-` is standard output
    pub out: PathBuf,
    /// What becomes of a packet of which octets are missing
    #[arg(long, value_enum, ignore_case = true, default_value = "tei")]
    pub on_loss: Damaged,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Span>,
    /// Print one JSON object (docs/src/reference/json-media.md)
    #[arg(long)]
    pub json: bool,
}

impl ReceiveCells {
    /// The address, if it is one: a file of that name is given as ./NAME.
    pub fn address(&self) -> Option<SocketAddr> {
        self.from.to_str()?.parse().ok()
    }
}

/// Values of `--smooth`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Smooth {
    /// Nothing: as the clock of the stream says
    None,
    /// Each picture
    Frame,
    /// An I or P picture with the B pictures behind it
    References,
    /// From one I picture to the next
    Gop,
}

impl From<Smooth> for Smoothing {
    fn from(smooth: Smooth) -> Smoothing {
        match smooth {
            Smooth::None => Smoothing::None,
            Smooth::Frame => Smoothing::Frame,
            Smooth::References => Smoothing::References,
            Smooth::Gop => Smoothing::Gop,
        }
    }
}

/// Values of `--on-loss`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Damaged {
    /// It is marked (transport error indicator) and filled with zeros
    Tei,
    /// It is left out
    Drop,
    /// A null packet takes its place
    Null,
}

impl From<Damaged> for OnLoss {
    fn from(damaged: Damaged) -> OnLoss {
        match damaged {
            Damaged::Tei => OnLoss::Tei,
            Damaged::Drop => OnLoss::Drop,
            Damaged::Null => OnLoss::NullPacket,
        }
    }
}
