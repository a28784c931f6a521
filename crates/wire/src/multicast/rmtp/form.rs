/// Which of RMTP's wire formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RmtpForm {
    /// The implementation of the paper, inferred from the sizes it prints: no connection.
    Paper96,
    /// draft-shiroshita-rmtp-spec-00.
    V1,
    /// draft-shiroshita-rmtpv2-00: also FREPO, SUSP, monitor bits and options of CACK.
    V2,
    /// V2 with an object in parts: data packets say of which (large delivery).
    V2Parts,
}

impl RmtpForm {
    /// All of them.
    pub const ALL: [RmtpForm; 4] = [
        RmtpForm::Paper96,
        RmtpForm::V1,
        RmtpForm::V2,
        RmtpForm::V2Parts,
    ];

    /// Octets before those of a packet's kind.
    pub const fn head(self) -> usize {
        match self {
            RmtpForm::Paper96 => 4,
            _ => 6,
        }
    }

    /// Octets of a data packet before its data.
    pub const fn data_head(self) -> usize {
        self.head() + if self.has_parts() { 6 } else { 4 }
    }

    /// What CONN says in its version octet.
    pub const fn version(self) -> u8 {
        match self {
            RmtpForm::Paper96 => 0,
            RmtpForm::V1 => 1,
            RmtpForm::V2 | RmtpForm::V2Parts => 2,
        }
    }

    /// Whether it has what V2 added.
    pub const fn is_v2(self) -> bool {
        self.version() == 2
    }

    /// Whether data packets name a part.
    pub const fn has_parts(self) -> bool {
        matches!(self, RmtpForm::V2Parts)
    }
}
