use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use layercast_core::Time;
use layercast_sim::internet::Internet;
use layercast_wire::{Cell, Ipv4Packet, LinkPdu, PcapNg};

use crate::failure::Failure;
use crate::output;

/// A file with all packets and cells, one interface for each direction of a link and each LAN.
pub struct Capture {
    path: PathBuf,
    file: PcapNg<BufWriter<File>>,
    error: Option<io::Error>,
}

impl Capture {
    /// Has what `internet`, to which nothing has happened yet, is going to carry captured, and a file for it.
    pub fn create(
        path: &Path,
        internet: &mut Internet,
        no_cells: bool,
    ) -> Result<Capture, Failure> {
        if no_cells {
            internet.capture();
        } else if !internet.capture_cells() {
            return Err(Failure::new(
                "cells have moved before they could be captured".to_owned(),
            ));
        }
        let out = output::create(path)?;
        let create = || {
            let mut file = PcapNg::new(BufWriter::new(out))?;
            for interface in internet.interfaces() {
                file.add_interface(interface)?;
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

    pub fn add_cell(&mut self, at: Time, interface: u32, cell: &Cell) {
        if self.error.is_none() {
            let cell = LinkPdu::Cell(*cell);
            self.error = self.file.write(interface, at, &cell).err();
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
