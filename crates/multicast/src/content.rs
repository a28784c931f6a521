use layercast_wire::Payload;
use layercast_wire::multicast::{Object, Reason};
use thiserror::Error;

use crate::{Bits, Geometry};

/// The content cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("content cannot be read: {0}")]
pub struct ContentError(pub String);

/// Source of the packets of an object: memory, a file, or none ([`Virtual`]).
pub trait Source {
    /// The announced properties: size, code, digest, name. The sender's configuration sets `block`.
    fn object(&self) -> Object;

    /// Returns source packet `number`.
    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError>;

    /// Returns parity `index` of a block, below the configured number of parities.
    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
    ) -> Result<Payload, ContentError>;
}

/// Result of an attempt to rebuild a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rebuilt {
    /// All source packets are present.
    Whole,
    /// This many further symbols are needed (RaptorQ at times; a code that is no longer kept).
    Lacks(u16),
    /// A parity or a packet that is present is wrong; the parities are not kept.
    Wrong,
}

/// Result of verifying the digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// The digest is right.
    Same,
    /// The digest is wrong.
    Different,
    /// Not yet known; the driver reports it by `Receiver::verified`.
    Later,
}

/// Destination of the packets of an object: memory, a file, or none ([`Virtual`]).
///
/// If an error holds a reason, the receiver leaves the session with it.
pub trait Store {
    /// Begins an object; returns the source packets that are already present, to resume.
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason>;

    /// Stores a missing source packet of the right length.
    fn packet(&mut self, geometry: &Geometry, number: u64, payload: &Payload)
    -> Result<(), Reason>;

    /// Stores a parity of an incomplete block.
    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
        payload: &Payload,
    ) -> Result<(), Reason>;

    /// Rebuilds a block with enough symbols; `held` lists the packets that are present. The parities of a complete
    /// block are no longer needed.
    fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> Result<Rebuilt, Reason>;

    /// A block is complete: its parities are no longer needed.
    fn whole(&mut self, _block: u32) {}

    /// Verifies that the complete object has the announced digest.
    fn verify(&mut self) -> Verdict;

    /// Discards all packets: they are not the object.
    fn clear(&mut self);
}

/// An object without content: a simulation of ten thousand receivers needs no memory for it.
#[derive(Clone, Debug)]
pub struct Virtual {
    object: Object,
}

impl Virtual {
    /// An object of `size` octets with the number of an erasure code (0: none).
    pub fn new(size: u64, scheme: u8) -> Virtual {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"layercast virtual object");
        hasher.update(&size.to_be_bytes());
        Virtual {
            object: Object {
                size,
                block: 1,
                scheme,
                digest: *hasher.finalize().as_bytes(),
                name: "virtual".into(),
            },
        }
    }
}

impl Source for Virtual {
    fn object(&self) -> Object {
        self.object.clone()
    }

    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError> {
        Ok(Payload::Zeros(geometry.len(number) as u32))
    }

    fn parity(&mut self, geometry: &Geometry, _: u32, _: u32) -> Result<Payload, ContentError> {
        Ok(Payload::Zeros(geometry.packet_size.into()))
    }
}

/// Stores nothing and assumes that any n symbols rebuild a block of n.
#[derive(Clone, Copy, Default, Debug)]
pub struct VirtualStore;

impl Store for VirtualStore {
    fn begin(&mut self, _: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        Ok(Bits::new(geometry.packets()))
    }

    fn packet(&mut self, _: &Geometry, _: u64, _: &Payload) -> Result<(), Reason> {
        Ok(())
    }

    fn parity(&mut self, _: &Geometry, _: u32, _: u32, _: &Payload) -> Result<(), Reason> {
        Ok(())
    }

    fn rebuild(&mut self, _: &Geometry, _: u32, _: &Bits) -> Result<Rebuilt, Reason> {
        Ok(Rebuilt::Whole)
    }

    fn verify(&mut self) -> Verdict {
        Verdict::Same
    }

    fn clear(&mut self) {}
}
