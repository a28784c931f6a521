use layercast_multicast::{ConfigError, ContentError, Geometry, Sender, Source};
use layercast_wire::multicast::Object;

use super::source::FileSource;

/// A file that is given to a stream, packet after packet.
#[derive(Debug)]
pub struct Feed {
    source: FileSource,
    geometry: Geometry,
    /// The packet that is given next.
    next: u64,
}

impl Feed {
    /// Cut into packets of `packet_size` octets.
    pub fn new(source: FileSource, object: &Object, packet_size: u16) -> Result<Feed, ConfigError> {
        Ok(Feed {
            geometry: Geometry::of(object, packet_size)?,
            source,
            next: 0,
        })
    }

    /// Packets of the file.
    pub fn packets(&self) -> u64 {
        self.geometry.packets()
    }

    /// Gives as many packets as the window has room for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn fill<S: Source>(&mut self, sender: &mut Sender<S>) -> Result<(), ContentError> {
        loop {
            let (kept, room) = sender.window();
            if self.next == self.packets() {
                sender.end();
                return Ok(());
            }
            if kept >= room {
                return Ok(());
            }
            let packet = self.source.packet(&self.geometry, self.next)?;
            if sender.send_packet(packet).is_err() {
                // It is not open yet, or not any more.
                return Ok(());
            }
            self.next += 1;
        }
    }

    /// Packets that every receiver has.
    pub fn done<S: Source>(&self, sender: &Sender<S>) -> u64 {
        self.next - sender.window().0
    }
}
