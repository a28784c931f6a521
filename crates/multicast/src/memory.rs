use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_wire::Payload;
use layercast_wire::multicast::{MAX_NAME, Object, Reason};

use crate::{
    Bits, ContentError, Geometry, ParityMaker, Rebuilder, Rebuilt, Source, Store, Verdict,
};

/// An object in memory.
#[derive(Debug)]
pub struct Memory {
    object: Object,
    bytes: Bytes,
    parities: Option<ParityMaker>,
}

impl Memory {
    /// An object of `bytes` with a name of at most 256 octets (longer names are cut off) and an optional code.
    pub fn new(name: &str, bytes: Bytes, scheme: Option<Scheme>) -> Memory {
        let name = Bytes::copy_from_slice(name.as_bytes());
        let kept = name.len().min(MAX_NAME);
        Memory {
            object: Object {
                size: bytes.len() as u64,
                block: 1,
                scheme: scheme.map_or(0, Scheme::number),
                digest: *blake3::hash(&bytes).as_bytes(),
                name: name.slice(..kept),
            },
            bytes,
            parities: scheme.map(ParityMaker::new),
        }
    }
}

fn part(bytes: &Bytes, geometry: &Geometry, number: u64) -> Bytes {
    let start = geometry.offset(number) as usize;
    bytes.slice(start..start + geometry.len(number))
}

impl Source for Memory {
    fn object(&self) -> Object {
        self.object.clone()
    }

    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError> {
        Ok(Payload::Bytes(part(&self.bytes, geometry, number)))
    }

    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
    ) -> Result<Payload, ContentError> {
        let Some(parities) = &mut self.parities else {
            return Err(ContentError("the object has no code".into()));
        };
        let read = |number| Ok(part(&self.bytes, geometry, number));
        parities.parity(geometry, block, index, read)
    }
}

/// Stores an object of limited size in memory; its content survives the receiver that used it.
#[derive(Debug)]
pub struct MemoryStore {
    most: u64,
    digest: [u8; 32],
    bytes: Vec<u8>,
    held: Bits,
    parities: Option<Rebuilder>,
}

impl MemoryStore {
    /// Creates a store of `most` octets, plus as many for parities.
    pub fn new(most: u64) -> MemoryStore {
        MemoryStore {
            most,
            digest: [0; 32],
            bytes: Vec::new(),
            held: Bits::default(),
            parities: None,
        }
    }

    /// The content; zeros where nothing has arrived.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Store for MemoryStore {
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        if object.size > self.most {
            return Err(Reason::NoRoom);
        }
        self.parities = match (object.scheme, Scheme::from_number(object.scheme)) {
            (0, _) => None,
            (_, Some(scheme)) => Some(Rebuilder::new(scheme, self.most as usize)),
            (_, None) => return Err(Reason::Unsupported),
        };
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

    fn parity(
        &mut self,
        _: &Geometry,
        block: u32,
        index: u32,
        payload: &Payload,
    ) -> Result<(), Reason> {
        if let Some(parities) = &mut self.parities {
            parities.put(block, index, payload);
        }
        Ok(())
    }

    fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> Result<Rebuilt, Reason> {
        let Some(parities) = &mut self.parities else {
            return Err(Reason::Unsupported);
        };
        let mut rebuilt = Vec::new();
        let bytes = &self.bytes;
        let place = |number| {
            let start = geometry.offset(number) as usize;
            start..start + geometry.len(number)
        };
        let outcome = parities.rebuild(
            geometry,
            block,
            held,
            |number| Ok(Bytes::copy_from_slice(&bytes[place(number)])),
            |number, payload| {
                rebuilt.push((number, payload.to_vec()));
                Ok::<(), Reason>(())
            },
        )?;
        for (number, payload) in rebuilt {
            self.bytes[place(number)].copy_from_slice(&payload);
            self.held.set(number);
        }
        Ok(outcome)
    }

    fn verify(&mut self) -> Verdict {
        match *blake3::hash(&self.bytes).as_bytes() == self.digest {
            true => Verdict::Same,
            false => Verdict::Different,
        }
    }

    fn clear(&mut self) {
        self.held.clear();
        if let Some(parities) = &mut self.parities {
            parities.clear();
        }
    }
}
