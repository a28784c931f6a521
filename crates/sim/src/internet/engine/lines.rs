//! The order of packets that arrive at one instant.

use crate::internet::network::NodeIndex;
use crate::ties::{Turn, Turns};

/// The turns of all directions of links, and of the stations of LANs.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Those of links and then LANs.
    lines: Vec<Turn>,
    /// How many are of links.
    links: u32,
    /// The turns of nodes on a LAN they share; none where there is no LAN.
    stations: Vec<Turn>,
}

impl Lines {
    /// Of the directions of links with these names, the LANs with these, and these nodes.
    pub fn new<'a>(
        turns: Turns,
        links: impl IntoIterator<Item = &'a str>,
        lans: impl IntoIterator<Item = &'a str>,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> Lines {
        let mut lines = Vec::new();
        for name in links {
            lines.push(turns.of(&format!("link/{name}"), lines.len() as u32));
        }
        let links = lines.len() as u32;
        for name in lans {
            lines.push(turns.of(&format!("lan/{name}"), lines.len() as u32));
        }
        let has_lans = lines.len() > links as usize;
        let nodes = (0..).zip(nodes).filter(|_| has_lans);
        Lines {
            links,
            stations: nodes
                .map(|(place, name)| turns.of(&format!("station/{name}"), place))
                .collect(),
            lines,
        }
    }

    /// The turn of packets to a node on a link or LAN.
    #[inline]
    pub fn turn(&self, by: u32, to: NodeIndex) -> Turn {
        let line = self.lines[by as usize];
        match by < self.links {
            true => line,
            false => line.with(self.stations[to.0 as usize]),
        }
    }
}
