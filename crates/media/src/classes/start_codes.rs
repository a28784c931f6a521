use layercast_core::DataClass;
use memchr::memmem::Finder;

use super::{Findings, PictureClassifier, UnitClass};

/// Octets `00 00 01` before each unit.
const PREFIX: usize = 3;
/// Longest header of a unit that is looked at, behind the prefix.
pub(crate) const MAX_HEAD: usize = 24;

/// A codec whose units begin with start codes.
pub(crate) trait Syntax {
    /// Octets behind the prefix that are header in any case, and that show what the unit is.
    const HEAD: usize;

    /// What the unit is whose first octets behind the prefix are `head`: fewer than [`HEAD`](Syntax::HEAD) if it is shorter.
    fn unit(&mut self, head: &[u8]) -> UnitClass;

    /// Pictures whose coding type the standard does not have.
    fn unknown_types(&self) -> u64 {
        0
    }
}

/// The classes of a stream with start codes.
#[derive(Debug)]
pub(crate) struct StartCodes<S> {
    syntax: S,
    finder: Finder<'static>,
    /// Zeros at the end of what came, which may begin a start code: two at most.
    zeros: u8,
    /// The header of the unit, as long as it is not whole.
    head: [u8; MAX_HEAD],
    len: usize,
    is_heading: bool,
    class: DataClass,
}

impl<S: Syntax> StartCodes<S> {
    pub fn new(syntax: S) -> StartCodes<S> {
        const { assert!(S::HEAD <= MAX_HEAD) };
        StartCodes {
            syntax,
            finder: Finder::new(b"\x00\x00\x01"),
            zeros: 0,
            head: [0; MAX_HEAD],
            len: 0,
            is_heading: false,
            class: DataClass::System,
        }
    }

    /// A prefix ended.
    fn begin(&mut self, out: &mut impl Findings) {
        if self.is_heading {
            self.settle(out);
        }
        (self.is_heading, self.len) = (true, 0);
    }

    /// The header is whole, or the unit ends before that.
    fn settle(&mut self, out: &mut impl Findings) {
        self.is_heading = false;
        let unit = self.syntax.unit(&self.head[..self.len]);
        self.class = unit.class;
        out.role(unit.role);
    }

    /// Octets of the unit, of which the last `tail` may begin a start code.
    fn body(&mut self, octets: &[u8], tail: usize, out: &mut impl Findings) {
        let mut rest = octets;
        if self.is_heading {
            let (head, behind) = rest.split_at(rest.len().min(S::HEAD - self.len));
            self.head[self.len..self.len + head.len()].copy_from_slice(head);
            self.len += head.len();
            out.octets(DataClass::System, head.len());
            if self.len == S::HEAD {
                self.settle(out);
            }
            rest = behind;
        }
        let tail = tail.min(rest.len());
        out.octets(self.class, rest.len() - tail);
        out.octets(DataClass::System, tail);
    }

    /// Octets from the beginning of a piece that complete a start code whose zeros are in the piece before.
    fn completed(&self, octets: &[u8]) -> Option<usize> {
        let mut zeros = self.zeros;
        for (at, &octet) in octets.iter().enumerate() {
            match (zeros, octet) {
                (2, 1) => return Some(at + 1),
                (1 | 2, 0) => zeros = 2,
                _ => return None,
            }
        }
        None
    }
}

impl<S: Syntax> PictureClassifier for StartCodes<S> {
    fn push(&mut self, octets: &[u8], out: &mut impl Findings) {
        let mut rest = octets;
        if self.zeros > 0
            && let Some(len) = self.completed(rest)
        {
            out.unit();
            out.octets(DataClass::System, len);
            self.begin(out);
            rest = &rest[len..];
            self.zeros = 0;
        }
        while let Some(at) = self.finder.find(rest) {
            self.body(&rest[..at], 0, out);
            out.unit();
            out.octets(DataClass::System, PREFIX);
            self.begin(out);
            rest = &rest[at + PREFIX..];
            self.zeros = 0;
        }
        let zeros = rest.iter().rev().take(2).take_while(|&&octet| octet == 0);
        let zeros = zeros.count();
        self.zeros = match zeros == rest.len() {
            // All of it continues the zeros of the piece before.
            true => (self.zeros + zeros as u8).min(2),
            false => zeros as u8,
        };
        self.body(rest, zeros, out);
    }

    fn gap(&mut self) {
        self.zeros = 0;
        if std::mem::take(&mut self.is_heading) {
            self.class = self.syntax.unit(&self.head[..self.len]).class;
        }
    }

    fn class(&self) -> DataClass {
        match self.is_heading {
            true => DataClass::System,
            false => self.class,
        }
    }

    fn unknown_types(&self) -> u64 {
        self.syntax.unknown_types()
    }
}
