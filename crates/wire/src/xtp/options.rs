use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The 24 option bits of an XTP header (specs/xtp.md 2.1).
///
/// All but RCLOSE describe the stream that the sender of the packet sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct XtpOptions(pub u32);

const NAMES: [&str; 15] = [
    "NOCHECK", "EDGE", "NOERR", "MULTI", "RES", "SORT", "NOFLOW", "FASTNAK", "SREQ", "DREQ",
    "RCLOSE", "WCLOSE", "EOM", "END", "BTAG",
];

impl XtpOptions {
    /// The checksum covers the header only.
    pub const NOCHECK: XtpOptions = XtpOptions(0x40_0000);
    /// A change of this bit asks for the status.
    pub const EDGE: XtpOptions = XtpOptions(0x20_0000);
    /// What is lost is not sent again.
    pub const NOERR: XtpOptions = XtpOptions(0x10_0000);
    /// The association has many receivers.
    pub const MULTI: XtpOptions = XtpOptions(0x08_0000);
    /// Only buffers that the receiving user has posted may be allocated.
    pub const RES: XtpOptions = XtpOptions(0x04_0000);
    /// The priority of the header counts.
    pub const SORT: XtpOptions = XtpOptions(0x02_0000);
    /// The sender takes no notice of what is allocated.
    pub const NOFLOW: XtpOptions = XtpOptions(0x01_0000);
    /// Gaps are reported immediately.
    pub const FASTNAK: XtpOptions = XtpOptions(0x00_8000);
    /// Asks for the status now.
    pub const SREQ: XtpOptions = XtpOptions(0x00_4000);
    /// Asks for the status once the user has taken the data.
    pub const DREQ: XtpOptions = XtpOptions(0x00_2000);
    /// The sender reads no more, or has read everything.
    pub const RCLOSE: XtpOptions = XtpOptions(0x00_1000);
    /// The sender writes no more.
    pub const WCLOSE: XtpOptions = XtpOptions(0x00_0800);
    /// The last byte ends a message.
    pub const EOM: XtpOptions = XtpOptions(0x00_0400);
    /// The sender releases the association.
    pub const END: XtpOptions = XtpOptions(0x00_0200);
    /// The data begin with eight bytes that are the user's tag.
    pub const BTAG: XtpOptions = XtpOptions(0x00_0100);
    /// The bits that mean something; the others are sent as 0 and ignored.
    pub const ALL: XtpOptions = XtpOptions(0x7f_ff00);
    /// None.
    pub const NONE: XtpOptions = XtpOptions(0);

    /// Whether all of `options` are set.
    pub const fn has(self, options: XtpOptions) -> bool {
        self.0 & options.0 == options.0
    }

    /// Whether any of `options` is set.
    pub const fn any(self, options: XtpOptions) -> bool {
        self.0 & options.0 != 0
    }

    /// Without `options`.
    pub const fn without(self, options: XtpOptions) -> XtpOptions {
        XtpOptions(self.0 & !options.0)
    }

    /// `self` if `wanted`, else none.
    pub const fn when(self, wanted: bool) -> XtpOptions {
        XtpOptions(if wanted { self.0 } else { 0 })
    }
}

impl BitOr for XtpOptions {
    type Output = XtpOptions;
    fn bitor(self, other: XtpOptions) -> XtpOptions {
        XtpOptions(self.0 | other.0)
    }
}

impl BitOrAssign for XtpOptions {
    fn bitor_assign(&mut self, other: XtpOptions) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for XtpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = (0..)
            .zip(NAMES)
            .filter(|(place, _)| self.0 & 0x40_0000 >> place != 0);
        for (n, (_, name)) in set.enumerate() {
            write!(f, "{}{name}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Names a context at the host a packet goes to (specs/xtp.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct XtpKey(pub u64);

impl XtpKey {
    /// The bit that says that the key was chosen by the host the packet goes to.
    pub const RTN: u64 = 1 << 63;

    /// Whether the host the packet goes to has chosen it.
    pub const fn is_return(self) -> bool {
        self.0 & XtpKey::RTN != 0
    }

    /// The key as its owner is to see it.
    pub const fn returned(self) -> XtpKey {
        XtpKey(self.0 | XtpKey::RTN)
    }

    /// The key as its owner knows it.
    pub const fn own(self) -> XtpKey {
        XtpKey(self.0 & !XtpKey::RTN)
    }
}

impl fmt::Debug for XtpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
