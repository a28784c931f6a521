use layercast_wire::Payload;
use layercast_wire::multicast::{Object, Reason};
use thiserror::Error;

use crate::{Bits, Geometry};

/// The content cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("content cannot be read: {0}")]
pub struct ContentError(pub String);

/// Where a sender takes the packets of an object from: memory, a file, or nowhere ([`Virtual`]).
pub trait Source {
    /// What is announced: size, code, digest, name. `block` is set by the sender's configuration.
    fn object(&self) -> Object;

    /// Source packet `number`.
    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError>;

    /// Parity `index` of a block, below what the configuration says the code has.
    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
    ) -> Result<Payload, ContentError>;
}

/// What came of an attempt to rebuild a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rebuilt {
    /// All source packets are there now.
    Whole,
    /// So many symbols more are needed (RaptorQ now and then; a code that is not kept any more).
    Lacks(u16),
}

/// What came of a look at the digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It is the object.
    Same,
    /// It is not.
    Different,
    /// Not known yet: the driver says so by `Receiver::verified`.
    Later,
}

/// Where a receiver puts the packets of an object: memory, a file, or nowhere ([`Virtual`]).
///
/// A reason in an error makes the receiver leave the session with it.
pub trait Store {
    /// An object begins; gives the source packets that are there already, to resume.
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason>;

    /// Keeps a source packet that was not there yet; its length is right.
    fn packet(&mut self, geometry: &Geometry, number: u64, payload: &Payload)
    -> Result<(), Reason>;

    /// Keeps a parity of a block that is not whole yet.
    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
        payload: &Payload,
    ) -> Result<(), Reason>;

    /// Rebuilds a block that has as many symbols as source packets; what is in `held` is there. Parities of the
    /// block are not needed any more once it is whole.
    fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> Result<Rebuilt, Reason>;

    /// A block is whole: its parities are not needed any more.
    fn whole(&mut self, _block: u32) {}

    /// Whether the whole object, which is there, has the digest that was announced.
    fn verify(&mut self) -> Verdict;

    /// Forgets all packets: what is there is not the object.
    fn clear(&mut self);
}

/// An object without content: a simulator with ten thousand receivers needs no memory for it.
#[derive(Clone, Debug)]
pub struct Virtual {
    object: Object,
}

impl Virtual {
    /// So many octets, with the number of an erasure code (0: none).
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

/// Keeps nothing and believes that any n symbols rebuild a block of n.
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
