use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use layercast_core::Time;
use layercast_wire::{Carriage, Interface, Ipv4Packet, PcapNg};

use crate::failure::Failure;

/// A file with all packets, one interface for each direction of a link and each LAN.
pub struct Capture {
    path: PathBuf,
    file: PcapNg<BufWriter<File>>,
    error: Option<io::Error>,
}

impl Capture {
    pub fn create<'a>(
        path: &Path,
        interfaces: impl Iterator<Item = &'a str>,
    ) -> Result<Capture, Failure> {
        let create = || {
            let mut file = PcapNg::new(BufWriter::new(File::create(path)?))?;
            let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            for name in interfaces {
                file.add_interface(Interface {
                    name: name.to_owned(),
                    description: String::new(),
                    carriage: Carriage::Datagrams,
                    source: nobody,
                    destination: nobody,
                    snap_len: 0,
                })?;
            }
            Ok(file)
        };
        let file = create().map_err(|error| Failure::file(path, "write", &error))?;
        Ok(Capture {
            path: path.to_owned(),
            file,
            error: None,
        })
    }

    pub fn add(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        if self.error.is_none() {
            self.error = self.file.write_ip(interface, at, packet).err();
        }
    }

    /// Whether nothing more can be written: then there is no sense in going on.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    pub fn finish(self) -> Result<(), Failure> {
        let written = match self.error {
            Some(error) => Err(error),
            None => self.file.finish().map(drop),
        };
        written.map_err(|error| Failure::file(&self.path, "write", &error))
    }
}
