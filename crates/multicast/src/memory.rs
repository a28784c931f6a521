use bytes::Bytes;
use layercast_wire::Payload;
use layercast_wire::multicast::{Object, Reason};

use crate::{Bits, ContentError, Geometry, Rebuilt, Source, Store, Verdict};

/// An object in memory, without a code.
#[derive(Clone, Debug)]
pub struct Memory {
    object: Object,
    bytes: Bytes,
}

impl Memory {
    /// `bytes` under a name of at most 256 octets (the rest is cut off).
    pub fn new(name: &str, bytes: Bytes) -> Memory {
        let name = Bytes::copy_from_slice(name.as_bytes());
        let kept = name.len().min(layercast_wire::multicast::MAX_NAME);
        Memory {
            object: Object {
                size: bytes.len() as u64,
                block: 1,
                scheme: 0,
                digest: *blake3::hash(&bytes).as_bytes(),
                name: name.slice(..kept),
            },
            bytes,
        }
    }
}

impl Source for Memory {
    fn object(&self) -> Object {
        self.object.clone()
    }

    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError> {
        let start = geometry.offset(number) as usize;
        let range = start..start + geometry.len(number);
        Ok(Payload::Bytes(self.bytes.slice(range)))
    }

    fn parity(&mut self, _: &Geometry, _: u32, _: u32) -> Result<Payload, ContentError> {
        Err(ContentError("no code".into()))
    }
}

/// Keeps an object in memory, of at most so many octets; what is there survives the receiver that used it.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    most: u64,
    digest: [u8; 32],
    bytes: Vec<u8>,
    held: Bits,
}

impl MemoryStore {
    /// Room for `most` octets.
    pub fn new(most: u64) -> MemoryStore {
        MemoryStore {
            most,
            digest: [0; 32],
            bytes: Vec::new(),
            held: Bits::default(),
        }
    }

    /// What is there; zeros where nothing arrived.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Store for MemoryStore {
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        if object.size > self.most {
            return Err(Reason::NoRoom);
        }
        if object.scheme != 0 {
            return Err(Reason::Unsupported);
        }
        let same = self.digest == object.digest && self.held.len() == geometry.packets();
        if !same {
            self.digest = object.digest;
            self.bytes = vec![0; object.size as usize];
            self.held = Bits::new(geometry.packets());
        }
        Ok(self.held.clone())
    }

    fn packet(
        &mut self,
        geometry: &Geometry,
        number: u64,
        payload: &Payload,
    ) -> Result<(), Reason> {
        let start = geometry.offset(number) as usize;
        payload.copy_to(&mut self.bytes[start..start + geometry.len(number)]);
        self.held.set(number);
        Ok(())
    }

    fn parity(&mut self, _: &Geometry, _: u32, _: u32, _: &Payload) -> Result<(), Reason> {
        Err(Reason::Unsupported)
    }

    fn rebuild(&mut self, _: &Geometry, _: u32, _: &Bits) -> Result<Rebuilt, Reason> {
        Err(Reason::Unsupported)
    }

    fn verify(&mut self) -> Verdict {
        match *blake3::hash(&self.bytes).as_bytes() == self.digest {
            true => Verdict::Same,
            false => Verdict::Different,
        }
    }

    fn clear(&mut self) {
        self.held.clear();
    }
}
